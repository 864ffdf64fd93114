"""Class names of columns and indices of rows of pandas, polars and pyarrow tables."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .data import as_array, shown
from .torch_compile import outside_torch_compile
from .types import Array

MOST_PARTS = 64
"""Longer lists are taken for numbers, not for columns or models."""


def column_classes(y_true: Any, y_proba: Any, labels: Any = None) -> Any:
    """The class of each column: `labels`, or the names of a table's columns where those are the classes of y_true.

    Names that spell whole numbers are numbers where y_true holds numbers, since polars and pyarrow name columns by text
    alone. Names that are no classes, such as p_cat, say nothing. `labels` that contradict the names are refused.

    >>> import pandas as pd
    >>> from truecal.core.frames import column_classes
    >>> column_classes(["cat"], pd.DataFrame({"dog": [.3], "cat": [.7]})).tolist()
    ['dog', 'cat']
    """
    names = _column_names(y_proba)
    if names is None:
        return labels
    _refuse_other_columns(_column_names(y_true), names)
    y = as_array(y_true, "y_true")
    if y.ndim != 1:
        return labels
    if labels is None:
        classes = _as_classes(y, names)
        return None if classes is None or classes.tolist() == list(range(len(names))) else classes
    wanted = as_array(labels, "labels")
    classes = _as_classes(wanted, names)
    if classes is not None and wanted.shape == classes.shape and (wanted != classes).any():
        j = int(np.argmax(wanted != classes))
        raise ValueError(
            f"labels and the columns of y_proba disagree: column {j} is {shown(wanted[j].item())} by labels and "
            f"{shown(classes[j].item())} by its name; leave out labels, or reorder the columns"
        )
    return labels


def _column_names(table: Any) -> list[Any] | None:
    """The names of the columns of a table, None for anything else."""
    if len(getattr(table, "shape", ())) != 2:  # asked first: a LazyFrame would have to find its columns
        return None
    names = table.column_names if hasattr(table, "column_names") else getattr(table, "columns", None)
    return None if names is None else list(names)


def _refuse_other_columns(first: list[Any] | None, second: list[Any]) -> None:
    """Label distributions and predictions whose columns have the same names in another order."""
    if first is not None and first != second and set(first) == set(second):
        raise ValueError(
            "y_true and y_proba have the same columns in another order: columns are matched by position; "
            "reorder one, for example y_true[y_proba.columns]"
        )


def _as_classes(values: Array, names: list[Any]) -> Array | None:
    """The names as classes of the kind of these values, if all values are among them."""
    numbers = values.dtype.kind in "iuf"
    if numbers and all(isinstance(name, str) for name in names):
        if not all(name.isdecimal() for name in names):
            return None
        names = [int(name) for name in names]
    kinds = (int, np.integer, float, np.floating) if numbers else (bool, np.bool_) if values.dtype.kind == "b" else str
    if not all(isinstance(name, kinds) for name in names) or len(set(names)) < len(names):
        return None
    classes = np.array(names)
    return classes if np.isin(values, classes).all() else None


Given = ParamSpec("Given")
Found = TypeVar("Found")
NOT_OF_ROWS = frozenset(
    (
        *("labels", "thresholds", "horizons", "phi", "cost", "edges", "values", "levels", "names", "classes"),
        *("p_new", "logits_select"),
    )
)
"""Arguments that hold one entry per class, level or edge, or whose rows are others than those of the labels."""


def matching_rows(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """A public function of arrays by row: refuses pandas arguments with the same index in another order.

    It also leaves the graph of torch.compile, as every public function does.
    """
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    skipped = len(inspect.signature(function).parameters) - len(names)

    def check(*args: Any, **kwargs: Any) -> None:
        refuse_reordered(**dict(zip(names, args[skipped:], strict=False)) | kwargs)

    return outside_torch_compile(function, check)


def refuse_reordered(**arrays: Any) -> None:
    """Rows are matched by position; refused where two pandas indexes hold the same entries in another order.

    Then position and index say different things about which rows belong together. Other indexes, such as those of a
    test set beside fresh predictions, are not compared. Mappings and pairs of columns are looked into.

    >>> import pandas as pd
    >>> from truecal.core.frames import refuse_reordered
    >>> refuse_reordered(y_true=pd.Series([0, 1], index=[7, 3]), y_proba=pd.Series([.2, .8], index=[3, 7]))
    Traceback (most recent call last):
    ValueError: y_true and y_proba have the same index in another order: rows are matched by position...
    """
    if "pandas" not in sys.modules:  # nothing else has an index
        return
    indexed = [found for name, x in arrays.items() if name not in NOT_OF_ROWS for found in _indexes(name, x)]
    if len(indexed) < 2:
        return
    (first, index), *others = indexed
    for name, other in others:
        if len(index) and len(index) == len(other) and not index.equals(other) and _same_entries(index, other):
            raise ValueError(
                f"{first} and {name} have the same index in another order: rows are matched by position; "
                f"reorder one with .loc[{first}.index], or pass .to_numpy() of both if their order is right"
            )


def _indexes(name: str, x: Any, depth: int = 2) -> Iterator[tuple[str, Any]]:
    """The pandas indexes of an argument: of itself, of the columns of a mapping, or of the parts of a pair."""
    index = getattr(x, "index", None)
    if hasattr(index, "equals"):
        yield name, index
    elif not depth:
        return
    elif isinstance(x, Mapping) and not hasattr(x, "shape"):  # a sparse matrix may be a dictionary
        for key in x:
            yield from _indexes(f"{name}[{shown(key)}]", x[key], depth - 1)
    elif hasattr(x, "confidence") and hasattr(x, "correct"):
        yield from _indexes(f"{name}.correct", x.correct, depth - 1)
        yield from _indexes(f"{name}.confidence", x.confidence, depth - 1)
    elif isinstance(x, (tuple, list)) and len(x) <= MOST_PARTS:
        for j, part in enumerate(x):
            yield from _indexes(f"{name}[{j}]", part, depth - 1)


def _same_entries(one: Any, two: Any) -> bool:
    return bool(one[0] in two) and set(one) == set(two)


def has_columns(values: Any) -> bool:
    """Whether values are a table with names of columns: a mapping or a data frame."""
    return isinstance(values, Mapping) or hasattr(values, "columns") or hasattr(values, "column_names")


def columns_of(features: Any) -> Iterator[tuple[str, Any]]:
    """The columns of a table with their names."""
    if isinstance(features, Mapping):
        yield from ((str(name), features[name]) for name in features)
    elif hasattr(features, "column_names"):  # pyarrow
        yield from ((str(name), features[name]) for name in features.column_names)
    elif hasattr(features, "columns"):  # pandas, polars
        yield from ((str(name), features[name]) for name in features.columns)
    else:
        named = getattr(features, "name", None)
        array = np.asarray(features.to_numpy() if hasattr(features, "to_numpy") else features)
        if array.ndim == 1:
            yield str(named or "feature"), array
        elif array.ndim == 2:
            yield from ((f"feature {j}", array[:, j]) for j in range(array.shape[1]))
        else:
            raise ValueError(f"features must be columns, got shape {array.shape}")
