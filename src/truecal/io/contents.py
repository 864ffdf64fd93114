"""What a reader hands on before it is judged: the numbers and labels it found, still as the file writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truecal.core.data import check_probabilities, row_blocks
from truecal.io.columns import LOGITS_OPTION, Layout
from truecal.io.failures import failure, quote
from truecal.io.labels import Values
from truecal.io.predictions import Floats

GIBIBYTE = 1 << 30
MOST_EXPANSION = 100  # how many times its own size a compressed file may declare, once past a gibibyte


@dataclass(frozen=True)
class Contents:
    """The parts of one file: a matrix (or a column) of predictions, or the parts of a top-label file, and labels."""

    layout: Layout
    matrix: Floats | None = None
    classes: tuple[str, ...] | None = None
    labels: Values | None = None
    label_where: str = ""
    predicted: Values | None = None
    confidence: Floats | None = None
    correct: npt.NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()


def check_expansion(path: str, declared: int, stored: int, what: str) -> None:
    """Refuse a file whose few bytes declare a huge array, before memory is asked for."""
    if declared > max(GIBIBYTE, MOST_EXPANSION * stored):
        raise failure(
            path, f"expected an array in proportion to the file, {what} declares {declared} bytes in {stored}"
        )


def floats(path: str, array: npt.NDArray[Any], where: str) -> Floats:
    """Numbers as floats in their own precision; integers and booleans become float64, other kinds are refused."""
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise failure(path, f"expected numbers in {where}, got dtype {array.dtype}")
    if array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def two_columns(column: Floats, kind: str) -> Floats:
    """Class 1's probability p as (1 − p, p); its logit z as (0, z), whose softmax is the sigmoid of z."""
    zero = (1 - column) if kind == "probabilities" else np.zeros_like(column)
    return np.stack([zero, column], axis=1)


def check_matrix(path: str, matrix: Floats, layout: Layout) -> None:
    """Every number present, and probabilities that are probabilities; says row and column by name."""
    if matrix.shape[0] == 0:
        raise failure(path, "expected at least one row of predictions, got none")
    if matrix.shape[1] < 2:
        raise failure(path, f"expected at least two classes, got predictions of shape {matrix.shape}")
    highest = np.inf if layout.kind == "probabilities" else np.finfo(matrix.dtype).max
    for rows in row_blocks(matrix.shape[0], matrix.shape[1] * matrix.itemsize):
        block = np.asarray(matrix[rows])
        if not bool((block <= highest).all()):
            row, column = (int(v) for v in np.argwhere(~(block <= highest))[0])
            raise failure(
                path,
                f"expected a number at row {rows.start + row}, {_column(layout, column)}, got {block[row, column]}",
            )
        if layout.kind == "logits" and not bool((block.max(axis=1) > -np.inf).all()):
            row = rows.start + int(np.argmin(block.max(axis=1)))
            raise failure(path, f"expected a logit above -inf in every row, row {row} has none")
    if layout.kind == "probabilities":
        _check_distributions(path, matrix, layout)


def _check_distributions(path: str, matrix: Floats, layout: Layout) -> None:
    name = quote(layout.columns[0]) if len(layout.columns) == 1 else "the class columns"
    try:
        check_probabilities(matrix, name)
    except (TypeError, ValueError) as error:
        hint = "" if layout.sure else f". No name says what these numbers are: if they are logits, say {LOGITS_OPTION}"
        raise failure(path, f"{error}{hint}") from error


def _column(layout: Layout, column: int) -> str:
    if len(layout.columns) > 1:
        return f"column {quote(layout.columns[column])}"
    return f"{quote(layout.columns[0])} column {column}" if layout.columns else f"column {column}"


def check_confidence(path: str, values: Floats, where: str) -> Floats:
    """Confidences are probabilities: present and in [0, 1]."""
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        raise failure(path, f"expected confidences in [0, 1] in {where}, row {row} has {values[row]}")
    return values


def as_hits(path: str, values: Values, where: str) -> npt.NDArray[np.bool_]:
    """Booleans, zeros and ones, or the words true and false."""
    if values.dtype == object:
        words = {"true": 1, "false": 0, "1": 1, "0": 0, "1.0": 1, "0.0": 0}
        values = np.array([words.get(v.strip().lower(), -1) for v in values])
    bad = ~((values == 0) | (values == 1))
    if bad.any():
        raise failure(path, f"expected true or false (1 or 0) in {where}, row {int(np.argmax(bad))} has something else")
    return values.astype(np.bool_)
