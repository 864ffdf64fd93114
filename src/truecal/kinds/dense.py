"""Predictions of pixels, voxels or tokens: one row for each, and the image or sequence it belongs to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import on_cpu
from ..core.data import as_array, shown
from ..core.types import Array

ONLY_DENSE = "ignore_index and class_axis are for images and sequences: predictions of three axes or more"


class DenseRows(NamedTuple):
    """One row per pixel: its label, its probabilities, and the number of its image."""

    y_true: Array
    y_proba: Array
    groups: Array
    kept: Array | None
    """Which pixels are kept, in the order of the labels; None: all."""


def is_dense(y_proba: Any) -> bool:
    """Whether predictions have more axes than rows and classes."""
    return len(getattr(y_proba, "shape", ())) > 2


def as_rows(y_true: Any, y_proba: Any, *, ignore_index: int | None = None, class_axis: int | None = None) -> DenseRows:
    """Predictions of images or sequences as rows: (N, C, H, W), (N, H, W, C), (N, C, L) and the like, or (N, H, W).

    Labels have the same shape without the axis of the classes, which is found by that unless `class_axis` names it.
    Pixels with the label `ignore_index` are left out. The groups are the numbers of the images: pass them as groups=,
    since pixels of one image are not independent.

    >>> import numpy as np, truecal as tc
    >>> y = np.array([[[0, 1], [255, 1]], [[1, 1], [0, 0]]])  # two images of 2 x 2 pixels
    >>> p = np.full((2, 2, 2, 2), .5)
    >>> rows = tc.io.as_rows(y, p[:, :, :, :1].repeat(2, 3), ignore_index=255, class_axis=1)
    >>> rows.y_true.tolist(), rows.y_proba.shape, rows.groups.tolist()
    ([0, 1, 1, 1, 1, 0, 0], (7, 2), [0, 0, 0, 1, 1, 1, 1])
    """
    y, proba = np.asarray(as_array(on_cpu(y_true), "y_true")), np.asarray(as_array(on_cpu(y_proba), "y_proba"))
    axis = _class_axis(y.shape, proba.shape, class_axis)
    if axis is not None:
        proba = np.moveaxis(proba, axis, -1)
    flat = y.reshape(-1)
    groups = np.repeat(np.arange(len(y)), flat.size // max(len(y), 1))
    rows = proba.reshape(flat.size) if axis is None else proba.reshape(flat.size, proba.shape[-1])
    if ignore_index is None:
        return DenseRows(flat, rows, groups, None)
    kept = flat != _whole(ignore_index)
    if not kept.any():
        raise ValueError(f"every label is {ignore_index}, which ignore_index leaves out")
    return DenseRows(flat[kept], rows[kept], groups[kept], kept)


def _whole(ignore_index: Any) -> int:
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, (int, np.integer)):
        raise TypeError(f"ignore_index must be a whole number, such as 255, got {shown(ignore_index)}")
    return int(ignore_index)


def _class_axis(y: tuple[int, ...], proba: tuple[int, ...], given: int | None) -> int | None:
    """The axis of the classes; None where predictions have the shape of the labels."""
    if given is None and y == proba:
        return None
    axes = range(1, len(proba)) if given is None else [given % len(proba)] if -len(proba) <= given < len(proba) else []
    fits = [axis for axis in axes if proba[:axis] + proba[axis + 1 :] == y]
    if len(fits) != 1:
        hint = "pass class_axis=" if fits else "expected labels of that shape without the axis of the classes"
        raise ValueError(f"y_proba has shape {proba} and y_true has shape {y}: {hint}")
    return fits[0]
