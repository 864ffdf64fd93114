"""What the user hands in, read and validated once: labels, probabilities, logits, outcomes and weights."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from .arrays import HOST, LIBRARY
from .dispatch import DISPATCH, over_rows
from .types import Array

ROW_SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may sum from 1; half-precision inputs get `HALF_ROW_SUM_TOLERANCE`."""
HALF_ROW_SUM_TOLERANCE = 1e-2

LARGEST, SMALLEST = 1e60, 1e-60
"""Outcome values lie between these in size, so that fourth powers of them, and sums of those, are numbers still."""
LONGEST_SHOWN = 120

_VALIDATION_BYTES = 1 << 21  # a block of rows that stays in cache while it is summed and scanned


def as_array(x: Any, name: str) -> Array:
    """Return `x` as a numpy array, without copying where its memory can be shared; never unpickles, never guesses.

    Accepts lists, numpy, pandas, polars, pyarrow, torch CPU tensors, and anything with `__array__` or DLPack.
    """
    if x is None:
        raise TypeError(f"{name} must be an array, got None")
    if _is_masked(x):
        raise ValueError(f"{name} has masked entries; every row must have a value")
    array = _to_numpy(x, name)
    if array.dtype.kind in "OT":  # T: strings of variable width, which compare with no others
        array = _numbers_or_strings(array.astype(object, copy=False), name)
    if array.dtype.kind not in "biufUS":
        raise TypeError(f"{name} must hold numbers or strings, got dtype {array.dtype}")
    return array


def _is_masked(x: Any) -> bool:
    """Whether an array, or a list of arrays or of lists, has entries that are masked out."""
    if isinstance(x, (list, tuple)):
        return any(_is_masked(row) for row in x)
    made = "numpy.ma" in sys.modules  # numpy loads it where it is named, which takes long
    return made and isinstance(x, np.ma.MaskedArray) and bool(np.ma.is_masked(x))


def shown(value: Any) -> str:
    """A user's value as a message shows it: on one line, and no longer than a line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # what a stranger's object does when it is asked for its text is not known
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def _to_numpy(x: Any, name: str) -> Array:
    if isinstance(x, np.ndarray):
        return x if isinstance(x, HalfPrecision) else np.asarray(x)
    if isinstance(x, (dict, set, frozenset)) or (hasattr(x, "__next__") and not hasattr(x, "__array__")):
        raise TypeError(f"{name} must be an array, got {type(x).__name__}")
    if hasattr(x, "toarray"):
        raise TypeError(f"{name} is sparse ({type(x).__name__}); make it dense first, with .toarray()")
    if hasattr(x, "collect") and not hasattr(x, "to_numpy"):
        raise TypeError(f"{name} is a {type(x).__name__} that is not computed yet; call .collect() first")
    try:
        if hasattr(x, "detach") and hasattr(x, "cpu"):
            return _from_torch(x, name)
        if hasattr(x, "to_numpy") or hasattr(x, "column_names"):
            return _from_frame(x, name)
        if hasattr(x, "__array__") or not hasattr(x, "__dlpack__"):
            return np.asarray(x)
        return np.from_dlpack(x)
    except _Explained:
        raise
    except (ValueError, TypeError, ArithmeticError, BufferError, RuntimeError, NotImplementedError) as error:
        raise TypeError(f"{name} could not be read as an array: {' '.join(str(error).split())}") from error


class _Explained(TypeError):
    """An error that already names the argument."""


def _from_torch(x: Any, name: str) -> Array:
    if x.device.type != "cpu":
        raise _Explained(f"{name} is on device {x.device}; move it to the CPU first, with .cpu()")
    x = x.detach()
    if str(x.dtype) == "torch.bfloat16":
        # numpy has no bfloat16; float16 would lose range, and float32 would hide how coarse the rows are.
        return np.asarray(x.float().numpy()).view(HalfPrecision)
    return np.asarray(x.resolve_conj().resolve_neg().numpy())


class HalfPrecision(np.ndarray[Any, np.dtype[Any]]):
    """A float32 array that came from a half-precision source, so that row sums are judged by that precision."""


def _from_frame(x: Any, name: str) -> Array:
    """pandas, polars and pyarrow; a column of lists becomes a matrix, a missing value is named by its row."""
    if not hasattr(x, "to_numpy"):  # a pyarrow Table or RecordBatch
        columns = [_from_frame(column, f"{name}[{title!r}]") for title, column in zip(x.column_names, x, strict=True)]
        return np.column_stack(columns)
    if getattr(x, "null_count", 0) and hasattr(x, "is_null") and not callable(getattr(x, "null_count", 0)):
        row = int(np.argmax(np.asarray(x.is_null().to_numpy(zero_copy_only=False))))
        raise _Explained(f"{name} has no value at row {row}; every row must have one")
    try:
        array = np.asarray(x.to_numpy())
    except Exception as error:  # pyarrow's own error, when an array cannot be shared without a copy
        if type(error).__name__ != "ArrowInvalid":
            raise
        array = np.asarray(x.to_numpy(zero_copy_only=False))
    if array.dtype == object and array.ndim == 1 and len(array) and isinstance(array[0], (list, np.ndarray)):
        return np.asarray([np.asarray(row, dtype=float) for row in array])
    return array


_KINDS: tuple[tuple[str, tuple[type, ...], type], ...] = (
    ("strings", (str,), np.str_),
    ("bools", (bool, np.bool_), np.bool_),
    ("whole numbers", (int, np.integer), np.int64),
    ("numbers", (int, float, np.integer, np.floating), np.float64),
)


def _kind_of(value: Any) -> str | None:
    return next((title for title, types, _ in _KINDS if isinstance(value, types)), None)


def _missing(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()  # comparing a signalling one raises
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _numbers_or_strings(array: Array, name: str) -> Array:
    """An object array is accepted when all entries are strings, all bools or all numbers; none may be missing."""
    flat = array.ravel()
    for i, value in enumerate(flat):
        if _missing(value) and not isinstance(value, (float, np.floating)):
            raise TypeError(f"{name} has no value ({shown(value)}) at {_place(np.unravel_index(i, array.shape))}")
    kinds = [_kind_of(value) for value in flat]
    for title, _, dtype in _KINDS:
        if all(kind == title or (title == "numbers" and kind == "whole numbers") for kind in kinds):
            try:
                with np.errstate(over="ignore"):  # as in _floating
                    return array.astype(dtype)
            except OverflowError as error:
                raise ValueError(f"{name} holds a number too large for 64 bits: {error}") from error
    usual = max(set(kinds) - {None}, key=kinds.count, default=None)
    odd = next(i for i, kind in enumerate(kinds) if kind is None or kind != usual)
    value = flat[odd]
    where = _place(np.unravel_index(odd, array.shape))
    raise TypeError(
        f"{name} must hold numbers or strings of one kind, got an object array "
        f"with {shown(value)} ({type(value).__name__}) at {where or 'its only place'}"
    )


def _place(index: Sequence[Any]) -> str:
    names = ("row", "column")
    return ", ".join(f"{names[i] if i < 2 else f'axis {i}'} {int(v)}" for i, v in enumerate(index))


def _floating(array: Array, name: str) -> Array:
    """Numbers as floats: float32 and float64 stay as they are, half becomes float32, integers become float64."""
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}")
    with np.errstate(over="ignore"):  # a long double beyond the range becomes infinite, which is refused by its place
        return array.astype(working_dtype(array), copy=False)


def working_dtype(array: Array) -> np.dtype[Any]:
    """The floating dtype in which reports are compared with bin edges (sums are always float64)."""
    if not isinstance(array, HOST):  # a tensor, validated, so of 4 or 8 bytes
        return np.dtype(f"f{array.itemsize}")
    if array.dtype.kind == "f":
        return np.dtype(np.float32 if array.dtype.itemsize <= 4 else np.float64)
    return np.dtype(np.float64)


def rounding_slack(array: Array) -> float:
    """How far outside [0, 1] a report may lie by rounding alone, as weighted means of probabilities do."""
    return float(8 * np.finfo(array.dtype).eps)


def row_blocks(n: int, row_bytes: int, block_bytes: int = _VALIDATION_BYTES) -> Iterable[slice]:
    """Consecutive slices of rows of about `block_bytes` each."""
    step = max(1, min(n, block_bytes // max(1, row_bytes)))
    if n == step:
        return (slice(0, n),)
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


def wide_blocks(array: Array, rows: int, width: int) -> Iterable[slice]:
    """Consecutive slices of rows that are written out in float64 together: of a tensor as many as a GPU likes."""
    return row_blocks(rows, 8 * width, _VALIDATION_BYTES if isinstance(array, HOST) else 8 * DISPATCH.device_numbers)


def both_classes(positive: Array) -> Array:
    """(n, 2): the probabilities of both classes, from those of class 1."""
    return LIBRARY[type(positive)].column_stack([1 - positive, positive])  # type: ignore[no-any-return]  # an array


def check_probabilities(y_proba: Any, name: str = "y_proba") -> Array:
    """An (n, k) array of distributions over classes, in its own floating dtype; raises naming row and column.

    Rows must sum to 1 within 1e-3 (1e-2 for half precision), entries must lie in [0, 1]. Nothing is normalised.
    """
    array = as_array(y_proba, name)
    tolerance = ROW_SUM_TOLERANCE
    if isinstance(array, HalfPrecision) or (array.dtype.kind == "f" and array.dtype.itemsize == 2):
        tolerance = HALF_ROW_SUM_TOLERANCE
        array = np.asarray(array)
    if array.ndim != 2:
        raise ValueError(f"{name} must have shape (n_samples, n_classes), got shape {array.shape}")
    if array.shape[0] == 0:
        raise ValueError(f"{name} is empty: expected at least one row, got shape {array.shape}")
    if array.shape[1] < 2:
        raise ValueError(f"{name} must have at least two columns, one per class, got shape {array.shape}")
    array = _floating(array, name)
    rounded: list[int] = []
    if not are_distributions(array, tolerance, rounded):
        _explain_bad_probabilities(array, name, tolerance)
    return np.clip(array, 0, 1) if rounded else array


def are_distributions(array: Array, tolerance: float, rounded: list[int] | None = None) -> bool:
    """Whether all entries lie in [0, 1] and all rows sum to 1 within a tolerance; False for NaN and infinities.

    `rounded` takes a number where an entry lies outside [0, 1] by rounding alone.
    """
    slack = rounding_slack(array)
    bad: list[int] = []

    def work(share: slice) -> None:
        for rows in row_blocks(share.stop - share.start, array.shape[1] * array.itemsize):
            block = array[share][rows]
            with np.errstate(all="ignore"):  # infinities and NaN are reported afterwards, by place
                sums = np.einsum("ij->i", block)
                summed = bool(abs(sums - 1).max() <= tolerance)
                least, most = block.min(), block.max()
                if not (summed and bool(least >= -slack) and bool(most <= 1 + slack)):
                    bad.append(share.start)
                    return
                if rounded is not None and (least < 0 or most > 1):
                    rounded.append(share.start)

    over_rows(len(array), array.size, work)
    return not bad


def _explain_bad_probabilities(array: Array, name: str, tolerance: float) -> None:
    """Raise the first error that applies to these rows."""
    _refuse_non_finite(array, name)
    slack = rounding_slack(array)
    with np.errstate(all="ignore"):  # rows too large to sum are reported as such
        sums = array.sum(axis=1, dtype=np.float64)
        percentages = bool(np.median(abs(sums - 100)) < 1)
    outside = (array.min(axis=1) < -slack) | (array.max(axis=1) > 1 + slack)
    bad = np.flatnonzero((abs(sums - 1) > tolerance) | outside)
    if bad.size == 0:  # the quick sum rounded differently from the careful one
        return
    row = int(bad[0])
    values = array[row]
    column = int(values.argmin() if values.min() < -slack else values.argmax())
    where = f"row {row} of {name} sums to {sums[row]:.8g}"
    where += f", with {values[column]:.8g} at column {column}" if outside[row] else ""
    expected = f"expected probabilities in [0, 1] that sum to 1 (within {tolerance:g})"
    if values.min() < -slack:
        hint = "these look like logits or log-probabilities; apply softmax (or exp) first"
    elif percentages:
        hint = "these look like percentages; divide by 100"
    elif values.max() <= 1 + slack:
        hint = "divide each row by its sum; for several labels per row use tc.evaluate(task='multilabel')"
    else:
        hint = "these look like scores or counts"
    raise ValueError(f"{where}; {expected}: {hint}")


def _refuse_non_finite(array: Array, name: str) -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        place = np.argwhere(bad)[0]
        value = array[tuple(place)]
        kind = "NaN" if np.isnan(value) else "an infinite value"
        raise ValueError(f"{name} has {kind} at {_place(place)}; expected finite numbers")


def check_reports(reports: Any, name: str) -> Array:
    """A one-dimensional array of probabilities, in its own floating dtype."""
    array = _floating(np.asarray(as_array(reports, name)), name)
    if array.ndim != 1:
        hint = ""
        if array.ndim == 2 and array.shape[1] <= 2:
            hint = f"; pass one column, for example {name}[:, {array.shape[1] - 1}]"
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}{hint}")
    if array.size == 0:
        raise ValueError(f"{name} is empty: expected at least one value")
    _refuse_non_finite(array, name)
    return _within(array, name, 0.0, 1.0)


def check_report_table(reports: Any, name: str) -> Array:
    """A table of probabilities, each in [0, 1] whatever their sums, in its own floating dtype."""
    array = _floating(np.asarray(as_array(reports, name)), name)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must have shape (n_samples, n_labels), got shape {array.shape}")
    _refuse_non_finite(array, name)
    return _within(array, name, 0.0, 1.0)


def _within(array: Array, name: str, low: float, high: float) -> Array:
    """The array where all of it lies between two bounds; what is outside by rounding alone is moved to them."""
    least, most, slack = array.min(), array.max(), rounding_slack(array) * max(abs(low), abs(high))
    if least < low - slack or most > high + slack:
        place = np.argwhere((array < low - slack) | (array > high + slack))[0]
        value = array[tuple(place)]
        hint = ""
        if (low, high) == (0.0, 1.0):
            hint = ": percentages must be divided by 100, logits passed through a sigmoid"
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {value:.6g} at {_place(place)}{hint}")
    return np.clip(array, low, high) if least < low or most > high else array


def check_pair(outcomes: Any, reports: Any, bounds: tuple[float, float] | None) -> tuple[Array, Array]:
    """Outcome values and reports of a linear property: both (n,) or both (n, d), finite, reports within `bounds`."""
    phi = _floating(np.asarray(as_array(outcomes, "outcomes")), "outcomes").astype(np.float64, copy=False)
    u = _floating(np.asarray(as_array(reports, "reports")), "reports")
    if u.ndim not in (1, 2) or u.size == 0:
        raise ValueError(f"reports must be a non-empty (n,) or (n, d) array, got shape {u.shape}")
    if phi.shape != u.shape:
        raise ValueError(f"outcomes and reports must have the same shape, got {phi.shape} and {u.shape}")
    check_size(phi, "outcomes")
    check_size(u, "reports")
    if bounds is not None:
        u = _within(u, "reports", *check_bounds(bounds))
    if u.ndim == 2 and u.shape[1] == 1:
        return phi[:, 0], u[:, 0]
    return phi, u


def check_size(array: Array, name: str) -> None:
    """Refuse numbers that are not finite, or whose squares of squares would not be."""
    _refuse_non_finite(array, name)
    size = np.abs(array).astype(np.float64, copy=False)
    if size.max() > LARGEST:
        place = np.argwhere(size > LARGEST)[0]
        found = f"{array[tuple(place)]:.6g} at {_place(place)}"
        raise ValueError(f"{name} must be at most {LARGEST:g} in size, got {found}; rescale them")
    if 0 < size.max() < SMALLEST:
        raise ValueError(f"{name} are all below {SMALLEST:g} in size; rescale them")


def check_bounds(bounds: Any) -> tuple[float, float]:
    """A pair low < high of finite numbers."""
    try:
        low, high = (float(v) for v in bounds)
    except (TypeError, ValueError) as error:
        raise ValueError(f"range must be a pair (low, high), got {shown(bounds)}") from error
    if not low < high or max(abs(low), abs(high)) > LARGEST or high - low < SMALLEST:
        raise ValueError(f"range must be a pair low < high of numbers up to {LARGEST:g}, got {shown(bounds)}")
    return low, high


def check_logits(logits: Any, name: str = "logits") -> Array:
    """An (n, k) array of logits: any numbers without NaN or +inf (−inf is a probability of exactly zero)."""
    array = np.asarray(as_array(logits, name))
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] < 2:
        raise ValueError(f"{name} must have shape (n_samples, n_classes) with at least two classes, got {array.shape}")
    array = _floating(array, name)
    bad = np.isnan(array) | (array == np.inf)
    if bad.any():
        place = np.argwhere(bad)[0]
        raise ValueError(f"{name} has {array[tuple(place)]} at {_place(place)}; expected finite numbers or -inf")
    empty = ~(array > -np.inf).any(axis=1)
    if empty.any():
        raise ValueError(f"{name} row {int(np.argmax(empty))} is -inf in every column; no class has probability")
    return array


def check_weights(sample_weight: Any, n: int) -> Array | None:
    """Non-negative finite weights with a positive sum, or None."""
    if sample_weight is None:
        return None
    w = _floating(np.asarray(as_array(sample_weight, "sample_weight")), "sample_weight").astype(np.float64, copy=False)
    if w.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {w.shape}")
    _refuse_non_finite(w, "sample_weight")
    if w.min() < 0:
        row = int(np.argmax(w < 0))
        raise ValueError(f"sample_weight must not be negative, got {w[row]:g} at row {row}")
    if not w.any():
        raise ValueError("sample_weight must not be all zero")
    return w


def check_same_length(**arrays: Array) -> int:
    """The common number of rows of the named arrays."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError("numbers of rows disagree: " + ", ".join(f"{name} has {n}" for name, n in lengths.items()))
    return next(iter(lengths.values()))


def check_positive_int(value: Any, name: str, most: int = sys.maxsize) -> int:
    """A whole number from 1 to `most`; bools and fractions are refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number of at least 1, got {shown(value)}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {value}")
    return int(value)


def check_seed(seed: Any) -> int:
    """A whole number of at least 0, so that the same rule always gives the same cells."""
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {shown(seed)}")
    return int(seed)
