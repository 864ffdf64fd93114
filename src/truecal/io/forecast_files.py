"""Files of forecasts of a number, and of several labels per row: which columns are what, by their names."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from truecal.io.column_rules import (
    COLUMNS_OPTION,
    HEADER_OPTION,
    LABEL_OPTION,
    Labels,
    Request,
    find_labels,
    present,
)
from truecal.io.failures import FileError, listing, quote
from truecal.io.harness import is_sample_log
from truecal.io.hub_tables import hub_columns, wide
from truecal.io.layouts import find_layout, unnamed_layout
from truecal.io.prediction_file import Floats
from truecal.io.read_file import file_format, open_source
from truecal.io.roles import NUMBER, ROLES, VECTOR, WHOLE, called
from truecal.io.source import Source
from truecal.kinds import numbers as forecasts

_LABELS = (*ROLES["label"], *ROLES["truth"])
_LEVELS_OPTION = "--levels"
_QUANTILE = re.compile(r"(?:q|quantile|quant|p|pct|percentile|prctile)?[_ .-]?([0-9]*\.?[0-9]+)%?", re.IGNORECASE)
_MEMBER = re.compile(r"(?:member|ens|ensemble|sample|draw|realization|m|s)[_ .-]?[0-9]+", re.IGNORECASE)
_GRID = re.compile(r"(?:cdf|F)[_ .-]?(-?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)")
_LAST_NUMBER = re.compile(r"(?<![0-9.])([0-9]*\.?[0-9]+)[^0-9]*$")
_THIN_TAIL = 0.025  # less mass than this beyond the outer quantiles needs no note
_SEPARATORS = (";", "|", ",", None)  # None: spaces
_FORECASTS = (
    "quantiles (q0.1, q0.5 or p10, p50 or quantile_0.1), ensemble members (member_1, member_2), mean and std, or CDF "
    "values (cdf_5, cdf_10)"
)


def _opened(request: Request) -> Source:
    form = file_format(request.path)
    if form == "inspect" or (form == "jsonl" and is_sample_log(request)):
        raise request.refuse("expected an array or a table, not a sample log")
    return open_source(request, form)


class ForecastFile(NamedTuple):
    """Forecasts of one model, the outcomes beside them (None: there are none), and what was read."""

    forecast: forecasts.Forecast
    y_true: Floats | None
    note: str


class LabelFile(NamedTuple):
    """Predictions of several labels per row, (n, k), which labels apply (None: not there), and the names of both."""

    numbers: Floats
    logits: bool
    y_true: Any
    names: tuple[str, ...] | None
    note: str


# -- risks at horizons -------------------------------------------------------------------------------------------------


def read_risk_table(
    path: str | os.PathLike[str],
    others: Sequence[str],
    horizons: Sequence[float],
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
) -> tuple[Floats, str]:
    """A column of risks per horizon: those that `columns` names, those whose names end in the horizons, or all numbers
    but `others`; and what was read.
    """
    request = Request(os.fsdecode(path), None, None if columns is None else tuple(columns), header=header)
    source = _opened(request)
    for name in columns or ():
        present(request, name, source.forms, source.what)
    rest = [name for name, form in source.forms.items() if name not in others and form in (NUMBER, WHOLE, VECTOR)]
    ends = [[name for name in rest if (end := _LAST_NUMBER.search(name)) and float(end[1]) == t] for t in horizons]
    named = [several[0] for several in ends if len(several) == 1]
    chosen = tuple(columns or (named if len(named) == len(horizons) else rest))
    if not chosen:
        raise request.refuse(f"expected a {source.what} of risks per horizon: name them with {COLUMNS_OPTION}")
    table = source.numbers(chosen, False)
    table = table.reshape(len(table), -1)
    if table.shape[1] != len(horizons):
        wanted = f"expected {len(horizons)} {source.what}s of risks, one per horizon"
        raise request.refuse(f"{wanted}, found {table.shape[1]} in {listing(chosen)}: name them with {COLUMNS_OPTION}")
    return table, f"risks from {source.what}s {listing(chosen)}"


# -- forecasts of a number ---------------------------------------------------------------------------------------------


def read_forecasts(
    path: str | os.PathLike[str],
    *,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
    levels: Sequence[float] | None = None,
    header: bool | None = None,
    outcomes: bool = True,
    target: str | os.PathLike[str] | None = None,
) -> ForecastFile:
    """Forecasts of a number by the names of their columns or keys, and the outcomes where they are in the same file.

    `columns` names them where names do not tell; `levels` says that they are quantiles at these levels. A table (n, m)
    without levels has ensemble members. Rows of a forecast hub have their outcomes in the file `target`.
    """
    request = Request(os.fsdecode(path), label_column, None if columns is None else tuple(columns), header=header)
    source = _opened(request)
    if hub_columns(source.forms) is not None:
        return _of_hub(request, source, target)
    label = _outcome(request, source) if outcomes else None
    found, note = _forecast(request, source, label, levels)
    y = None if label is None else _column(source, label)
    if y is not None and len(y) != len(found):
        raise request.refuse(f"expected an outcome for each of {len(found)} rows, {quote(label)} has {len(y)}")
    return ForecastFile(found, y, note)


def _of_hub(request: Request, source: Source, target: str | os.PathLike[str] | None) -> ForecastFile:
    """Forecasts and outcomes of a hub, whose tables have a row per level."""
    if target is None:
        raise request.refuse("these are forecasts of a hub: pass the target data with --labels FILE")
    made = wide(request, source, ("quantile", "cdf", "sample"), _opened(Request(os.fsdecode(target))))
    y = np.array([float(value) for value in (made.outcomes if made.outcomes is not None else ())])
    try:
        if made.note.startswith("sample"):
            forecast: forecasts.Forecast = forecasts.ensemble(made.numbers)
        else:
            make = forecasts.quantiles if made.note.startswith("quantile") else forecasts.cdf
            forecast = make(made.numbers, [float(level) for level in made.levels])
    except ValueError as error:
        raise request.refuse(str(error)) from error
    return ForecastFile(forecast, y, made.note)


def read_outcomes(path: str | os.PathLike[str], label_column: str | None = None, header: bool | None = None) -> Floats:
    """Outcomes that are in a separate file."""
    request = Request(os.fsdecode(path), label_column, header=header)
    source = _opened(request)
    names = [name for name, form in source.forms.items() if form in (NUMBER, WHOLE)]
    label = names[0] if len(source.forms) == 1 and names and label_column is None else _outcome(request, source)
    return _column(source, label)


def _outcome(request: Request, source: Source) -> str:
    """The column of outcomes: as named, or by its name."""
    if request.label_column is not None:
        return present(request, request.label_column, source.forms, source.what)
    numbers = [name for name, form in source.forms.items() if form in (NUMBER, WHOLE)]
    found = called(numbers, "observed") or [name for name in numbers if name == "y"]
    if len(found) != 1:
        which = f"found {listing(found)}" if found else f"there are {listing(source.forms)}"
        wanted = f"one {source.what} of outcomes, such as y, outcome or observed"
        how = f"name it with {LABEL_OPTION}" if source.named else f"there is no header: {HEADER_OPTION}"
        raise request.refuse(f"expected {wanted}, {which}: {how}")
    return found[0]


def _column(source: Source, name: str) -> Floats:
    values = source.numbers((name,), False)
    if values.ndim != 1:
        raise Request(source.path).refuse(f"expected one outcome per row in {quote(name)}, got shape {values.shape}")
    return values.astype(np.float64)


def _forecast(
    request: Request, source: Source, label: str | None, levels: Sequence[float] | None
) -> tuple[forecasts.Forecast, str]:
    """The forecast and what it was made from; forms are tried in turn, and two that fit raise."""
    others = {name: form for name, form in source.forms.items() if name != label}
    if request.proba_columns is not None:
        chosen = [present(request, name, source.forms, source.what) for name in request.proba_columns]
        others = {name: source.forms[name] for name in chosen}
    numbers = [name for name, form in others.items() if form in (NUMBER, WHOLE)]
    vectors = [name for name, form in others.items() if form == VECTOR]
    found: dict[str, tuple[list[str], Callable[[Floats], forecasts.Forecast]]] = {}
    if levels is not None:
        named = request.proba_columns is not None
        chosen = vectors if len(vectors) == 1 else numbers if named else [n for n in numbers if _level_text(n)]
        if not chosen:
            raise request.refuse(f"expected {len(levels)} {source.what}s of quantiles: name them with {COLUMNS_OPTION}")
        found["quantiles"] = (chosen, lambda table: forecasts.quantiles(table, levels))
    else:
        if len(of_levels := [name for name in numbers if _level_text(name)]) > 1:
            of_levels, at = _levels(request, of_levels)
            found["quantiles"] = (of_levels, lambda table: forecasts.quantiles(table, at))
        if len(members := [name for name in numbers if _MEMBER.fullmatch(name)]) > 1:
            found["ensemble members"] = (members, forecasts.ensemble)
        if len(grid := [name for name in numbers if _GRID.fullmatch(name)]) > 1:
            grid.sort(key=_point)
            found["CDF values"] = (grid, lambda table: forecasts.cdf(table, [_point(name) for name in grid]))
        mean, sd = called(numbers, "mean"), called(numbers, "sd")
        if len(mean) == len(sd) == 1:
            found["mean and standard deviation"] = ([*mean, *sd], lambda t: forecasts.normal(t[:, 0], t[:, 1]))
        if not found and len(vectors) == 1:
            if vectors[0].lower().startswith(("quantile", "q_", "percentile")):
                raise request.refuse(
                    f"the levels of {quote(vectors[0])} are not in the file: pass {_LEVELS_OPTION} .1,.5,.9"
                )
            found["ensemble members"] = (vectors, forecasts.ensemble)
        if not found and request.proba_columns is not None and len(numbers) > 1:
            found["ensemble members"] = (numbers, forecasts.ensemble)
    if len(found) != 1:
        raise _not_one(request, source, list(found))
    form, (names, make) = found.popitem()
    table = source.numbers(tuple(names), False)
    try:
        return (made := make(table)), f"{form} from {source.what}s {listing(names)}{_ends(made)}"
    except ValueError as error:
        raise request.refuse(str(error)) from error


def _ends(forecast: forecasts.Forecast) -> str:
    """What a forecast with few quantiles or members says of outcomes beyond them."""
    if isinstance(forecast, forecasts.Quantiles) and max(forecast.levels[0], 1 - forecast.levels[-1]) > _THIN_TAIL:
        return "; in the CRPS outcomes beyond the outer quantiles count as impossible: more levels describe the tails"
    if isinstance(forecast, forecasts.Ensemble) and 1 / forecast.members.shape[1] > _THIN_TAIL:
        return "; in the CRPS outcomes beyond all members count as impossible: more members describe the tails"
    return ""


def _not_one(request: Request, source: Source, found: list[str]) -> FileError:
    if found:
        return request.refuse(f"found {' and '.join(found)}: name the {source.what}s to take with {COLUMNS_OPTION}")
    return request.refuse(
        f"expected {_FORECASTS}, found {listing(source.forms)}: name {source.what}s with {COLUMNS_OPTION}"
    )


def _level_text(name: str) -> str | None:
    match = _QUANTILE.fullmatch(name.strip())
    return match[1] if match else None


def _levels(request: Request, names: list[str]) -> tuple[list[str], list[float]]:
    """Columns in the order of their levels: q0.1 and 0.1 are fractions, p10, q05 and p97.5 are percentages."""
    texts = {name: _level_text(name) or "" for name in names}
    values = {name: float(text) for name, text in texts.items()}
    percent = any(value >= 10 for value in values.values())
    if not percent and any(value >= 1 for value in values.values()):
        numbered = listing(names)
        raise request.refuse(f"{numbered}: levels or numbers of quantiles? pass {_LEVELS_OPTION} .1,.5,.9")
    found = {name: value / 100 if percent else value for name, value in values.items()}
    ordered = sorted(names, key=found.__getitem__)
    return ordered, [found[name] for name in ordered]


def _point(name: str) -> float:
    match = _GRID.fullmatch(name)
    assert match is not None
    return float(match[1])


# -- several labels per row --------------------------------------------------------------------------------------------


def read_label_tables(
    path: str | os.PathLike[str],
    *,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
    logits: bool = False,
    header: bool | None = None,
    labels: bool = True,
) -> LabelFile:
    """Predictions of several labels per row, and which apply where that is in the same file.

    Labels are 0/1 columns (label_a, label_b, or y_a, y_b), one column of lists, or text such as "a;b" or ["a", "b"].
    """
    named = None if columns is None else tuple(columns)
    request = Request(os.fsdecode(path), None, named, logits=logits, header=header)
    source = _opened(request)
    layout_of = find_layout if source.named else unnamed_layout
    family = _label_columns(request, source, label_column, None) if label_column is not None else ()
    one = family[0] if len(family) == 1 else _list_column(request, source) if labels and not family else None
    visible = {name: form for name, form in source.forms.items() if name not in family and name != one}
    visible = {name: form for name, form in visible.items() if not _is_label(name)} or visible
    layout = layout_of(request, visible, Labels(), source.what)
    if layout.kind not in ("probabilities", "logits") or not layout.columns:
        raise request.refuse(f"expected a {source.what} per label, such as p_a and p_b, found {listing(source.forms)}")
    numbers = source.numbers(layout.columns, False)
    if numbers.ndim != 2:
        raise request.refuse(
            f"expected predictions of several labels, found one {source.what} {quote(layout.columns[0])}"
        )
    names = layout.classes
    note = layout.note
    if not labels:
        return LabelFile(numbers, layout.kind == "logits", None, names, note)
    if not family and one is None:
        family = _label_columns(request, source, None, names)
    if len(family) > 1:
        if len(family) != numbers.shape[1]:
            raise request.refuse(
                f"expected {numbers.shape[1]} label {source.what}s, one per prediction, got {len(family)}"
            )
        table, where = source.numbers(family, False), listing(family)
        names = names or tuple(family)
    elif one is not None:
        table, where = label_sets(request, source, one, numbers.shape[1], names), quote(one)
    else:
        wanted = f"labels: {source.what}s such as label_a and label_b, or one of lists called labels"
        raise request.refuse(f"expected {wanted}, found {listing(source.forms)}: name them with {LABEL_OPTION}")
    return LabelFile(numbers, layout.kind == "logits", table, names, f"{note}, labels from {where}")


def read_label_sets(
    path: str | os.PathLike[str], label_column: str | None, k: int, names: tuple[str, ...] | None
) -> Any:
    """Which labels apply, where that is in a separate file."""
    request = Request(os.fsdecode(path))
    source = _opened(request)
    family = _label_columns(request, source, label_column, names)
    if not family and len(source.forms) == 1:
        family = tuple(source.forms)
    if not family and (one := _list_column(request, source)) is not None:
        family = (one,)
    if not family and len(source.forms) == k and all(form in (NUMBER, WHOLE) for form in source.forms.values()):
        family = tuple(source.forms)
    if len(family) == 1:
        return label_sets(request, source, family[0], k, names)
    if not family:
        raise request.refuse(f"expected labels, found {listing(source.forms)}: name them with {LABEL_OPTION}")
    return source.numbers(family, False)


def _is_label(name: str) -> bool:
    return re.fullmatch(rf"(?:{'|'.join(_LABELS)}|y)[_.:].+", name, re.IGNORECASE | re.DOTALL) is not None


def _label_columns(
    request: Request, source: Source, given: str | None, names: tuple[str, ...] | None
) -> tuple[str, ...]:
    """The 0/1 columns of the labels: as named, or those of one prefix, in the order of the predictions."""
    if given is not None:
        wanted = (given,) if given in source.forms else tuple(part.strip() for part in given.split(","))
        return tuple(present(request, name, source.forms, source.what) for name in wanted)
    for prefix in (*_LABELS, "y"):
        pattern = re.compile(rf"{prefix}[_.:]?(.+)", re.IGNORECASE | re.DOTALL)
        forms = source.forms.items()
        found = {m[1]: n for n, form in forms if form in (NUMBER, WHOLE) and (m := pattern.fullmatch(n))}
        if len(found) > 1 and (names is None or set(names) <= set(found)):
            return tuple(found[name] for name in names or found)
    return ()


def _list_column(request: Request, source: Source) -> str | None:
    """The one column of lists, or of tables of 0 and 1, by its name."""
    name = find_labels(request, source.forms, source.what).name or ("y" if "y" in source.forms else None)
    if name is not None and source.what == "key" and source.forms[name] == WHOLE:
        return None
    return name


def label_sets(request: Request, source: Source, name: str, k: int, names: tuple[str, ...] | None) -> Any:
    """(n, k) 0/1 from a column of lists of labels, of text, or of rows of 0 and 1."""
    where = f"{source.what} {quote(name)}"
    if source.objects is None:
        table = source.values(name)
        if table.ndim != 2 or table.shape[1] != k:
            raise request.refuse(f"expected {k} labels per row in the {where}, got shape {table.shape}")
        return table
    rows = source.objects(name)
    known = {each: j for j, each in enumerate(names or map(str, range(k)))}
    table = np.zeros((len(rows), k), dtype=np.int8)
    for i, row in enumerate(rows):
        parts = _parts(row, known)
        if _is_mask(parts, k, known, rows):
            table[i] = [int(float(part)) for part in parts]
            continue
        for part in parts:
            if part not in known:
                wanted = f"labels among {listing(list(known))}"
                hint = "" if names else "; predictions have names in columns such as p_a and p_b"
                raise request.refuse(f"expected {wanted} in the {where}, row {i} has {quote(part)}{hint}")
            table[i, known[part]] = 1
    return table


def _is_mask(parts: Sequence[str], k: int, known: dict[str, int], rows: Sequence[Any]) -> bool:
    """Whether a row is k numbers 0 or 1 that are not names of labels."""
    of_lists = len(parts) == k and all(part in ("0", "1", "0.0", "1.0", "True", "False") for part in parts)
    return of_lists and (not {"0", "1"} <= set(known) or len(set(parts)) < len(parts))


def _parts(cell: Any, known: dict[str, int]) -> list[str]:
    """The labels of one row: of a list, or of text such as a;b, a|b, ["a", "b"] or ['a', 'b']; nothing for none."""
    if cell is None:
        return []
    if isinstance(cell, (list, tuple)):
        return [str(part) for part in cell]
    text = str(cell).strip()
    if text in known:
        return [text]
    if text[:1] in ("[", "{", "(") and text[-1:] in ("]", "}", ")"):
        for parse in (json.loads, ast.literal_eval):
            try:
                return [str(part) for part in parse(text)]
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                continue
        text = text[1:-1]
    for separator in _SEPARATORS:
        parts = [part.strip().strip("'\"") for part in text.split(separator)]
        parts = [part for part in parts if part]
        if all(part in known for part in parts):
            return parts
    return [text]
