"""Were the rows a map is chosen on among the rows it was fitted on? Asked of the rows, in whatever order or dtype."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from truecal.core.data import as_array
from truecal.recalibration.base import blocks

LARGE = 0.1  # the share of the selection rows from which reuse is refused
CHANCE = 1e-5  # the probability below which chance is no explanation


def refuse_reuse(logits_fit: Any, y_fit: Any, logits_select: Any, y_select: Any) -> None:
    """Raise where many selection rows (X and y) were fitted on, warn where few were."""
    x, y = [as_array(logits_fit, "logits_fit"), as_array(logits_select, "logits_select")], _codes(y_fit, y_select)
    if y is None or any(
        a.ndim != 2 or a.dtype.kind not in "biuf" or len(a) != len(b) for a, b in zip(x, y, strict=True)
    ):
        return  # not data that can be fitted: the fit will say why
    first, second = _keys(x, y)
    shared = sum((key in first) * count for key, count in second.items())
    if not shared:
        return
    n = len(y[1])
    by_chance = could_be_chance(first, second)
    same = len(y[0]) == n and np.array_equal(y[0], y[1]) and np.array_equal(x[0], x[1])
    message = (
        f"{shared} of the {n} selection rows are among the rows fitted on (same X, same y): a map judged on the labels "
        "it was fitted to looks better the more it overfits; split the validation data in two"
    )
    if same or (not by_chance and shared >= LARGE * n):
        raise ValueError(message)
    distinct = max(first.values()) == max(second.values()) == 1
    if not by_chance or distinct:
        warnings.warn(message, UserWarning, stacklevel=3)


def could_be_chance(first: Counter[int], second: Counter[int]) -> bool:
    """Whether rows coincide between the parts no more than they do within them.

    Of two equal rows of independent samples from one source, one lies in each part with probability 2ab / (a + b)², for
    parts of a and b rows: a binomial test over the rows that occur exactly twice. Reuse makes pairs across, ties of
    predictions of few values make pairs of both kinds.
    """
    a, b = first.total(), second.total()
    across = sum(count == 1 and second[key] == 1 for key, count in first.items())
    within = sum(count == 2 and key not in second for key, count in first.items())
    within += sum(count == 2 and key not in first for key, count in second.items())
    return not across or float(bdtrc(across - 1, across + within, 2 * a * b / (a + b) ** 2)) >= CHANCE


def _codes(y_fit: Any, y_select: Any) -> list[NDArray[Any]] | None:
    """The labels of both parts as numbers of one coding; None where they are not labels of one kind."""
    first, second = as_array(y_fit, "y_fit").ravel(), as_array(y_select, "y_select").ravel()
    if (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        return None
    codes = np.unique(np.concatenate([first, second]), return_inverse=True)[1]
    return [codes[: len(first)], codes[len(first) :]]


def _keys(x: list[NDArray[Any]], y: list[NDArray[Any]]) -> list[Counter[int]]:
    """How often each row occurs: values in the coarser of the two dtypes, float32 at most, in units of the largest."""
    half = np.float16 in (x[0].dtype, x[1].dtype)
    with np.errstate(invalid="ignore"):
        largest = max(float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in x)
    exponent = int(np.frexp(largest)[1])

    def key_rows(values: NDArray[Any], codes: NDArray[Any]) -> Counter[int]:
        seen: Counter[int] = Counter()
        for rows in blocks(*values.shape):
            part = values[rows]
            with np.errstate(over="ignore"):
                part = part.astype(np.float16 if half else part.dtype).astype(np.float64)
            part = np.ldexp(part, -exponent).astype(np.float32) + np.float32(0)  # + 0 makes -0 the same as 0
            seen.update(hash((row.tobytes(), code)) for row, code in zip(part, codes[rows].tolist(), strict=True))
        return seen

    return [key_rows(a, b) for a, b in zip(x, y, strict=True)]
