"""What pandas, polars and pyarrow say beside their numbers: the classes of columns and the index of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .data import as_array, shown
from .types import Array


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


def refuse_reordered(**arrays: Any) -> None:
    """Rows are matched by position; refused where two pandas indexes hold the same entries in another order.

    Then position and index say different things about which rows belong together. Other indexes, such as those of a
    test set beside fresh predictions, are not compared.

    >>> import pandas as pd
    >>> from truecal.core.frames import refuse_reordered
    >>> refuse_reordered(y_true=pd.Series([0, 1], index=[7, 3]), y_proba=pd.Series([.2, .8], index=[3, 7]))
    Traceback (most recent call last):
    ValueError: y_true and y_proba have the same index in another order: rows are matched by position...
    """
    indexed = {name: x.index for name, x in arrays.items() if hasattr(getattr(x, "index", None), "equals")}
    if len(indexed) < 2:
        return
    (first, index), *others = indexed.items()
    for name, other in others:
        if len(index) and len(index) == len(other) and not index.equals(other) and _same_entries(index, other):
            raise ValueError(
                f"{first} and {name} have the same index in another order: rows are matched by position; "
                f"reorder one with .loc[{first}.index], or pass .to_numpy() of both if their order is right"
            )


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
