"""Predictions of images or sequences, one or several models, as rows with their images as groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import on_cpu
from ..core.data import as_array
from ..core.frames import columns_of, has_columns
from ..core.types import Array
from .dense import ONLY_DENSE, as_rows, is_dense

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
