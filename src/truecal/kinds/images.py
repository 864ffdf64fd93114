"""Predictions of images or sequences, one or several models, as rows with their images as groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import on_cpu
from ..core.data import as_array, shown
from ..core.frames import columns_of, has_columns, matching_rows
from ..core.types import Array

FEWEST = 3
"""With fewer images there is nothing to compare them with."""


@dataclass(frozen=True, eq=False)
class Images:
    """Rows of pixels: labels, predictions by model, and groups."""

    y_true: Array
    models: dict[Any, Array]
    groups: Any
    note: str
    kept: Array | None
    shape: tuple[int, ...]

    def of_rows(self, values: Any, name: str) -> Any:
        """One value per pixel, or per image, as one per row; None stays None."""
        if values is None:
            return None
        if has_columns(values):
            return {column: self.of_rows(each, name) for column, each in columns_of(values)}
        array = np.asarray(as_array(on_cpu(values), name))
        if array.shape == self.shape[:1]:
            array = np.broadcast_to(array.reshape(-1, *[1] * (len(self.shape) - 1)), self.shape)
        if array.shape != self.shape:
            raise ValueError(f"{name} must have shape {self.shape}, as the labels, or {self.shape[:1]}")
        flat = array.reshape(-1)
        return flat if self.kept is None else flat[self.kept]


def dense_rows(
    y_true: Any, models: Any, groups: Any, ignore_index: int | None, class_axis: int | None
) -> Images | None:
    """Pixels as rows where predictions are of images or sequences; None where they are rows already."""
    given = models if isinstance(models, Mapping) else {}
    if not any(is_dense(proba) for proba in given.values()):
        if ignore_index is not None or class_axis is not None:
            raise ValueError(ONLY_DENSE)
        return None
    read = {name: as_rows(y_true, p, ignore_index=ignore_index, class_axis=class_axis) for name, p in given.items()}
    first = next(iter(read.values()))
    images = len(np.unique(first.groups))
    shape = tuple(np.shape(on_cpu(y_true)))
    left = "" if first.kept is None else f", {np.count_nonzero(~first.kept):,} left out by ignore_index={ignore_index}"
    note = f"{len(first.y_true):,} pixels of {images} images{left}"
    if groups is None and images < FEWEST:
        note += ": with fewer than three images, pixels count as independent, and intervals are too short"
    own = first.groups if images >= FEWEST else None
    made = Images(first.y_true, {name: rows.y_proba for name, rows in read.items()}, own, note, first.kept, shape)
    if groups is None:
        return made
    return Images(made.y_true, made.models, made.of_rows(groups, "groups"), note, made.kept, shape)


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


@matching_rows
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
