"""Forecast hubs: rows of output_type, output_type_id and value, and the target data that their outcomes are in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truecal.io.column_rules import LABELS_OPTION, Request
from truecal.io.failures import listing, quote
from truecal.io.label_values import Values
from truecal.io.prediction_file import Floats
from truecal.io.roles import NUMBER, Forms, first_called, key_of
from truecal.io.source import Source

_ROLES = ("output type", "level", "hub value")
_OUTCOMES = ("oracle_value", "observation", "value", "truth", "observed")
_AHEAD = re.compile(r"-?[0-9]+ (?:day|wk|week|month) ahead ")  # the horizon, in names of targets


@dataclass(frozen=True)
class Wide:
    """One row per forecast: the numbers at each level or category, the names of these, and the tasks."""

    numbers: Floats
    levels: tuple[str, ...]
    tasks: dict[str, Values]
    outcomes: Values | None
    note: str


def hub_columns(forms: Forms) -> tuple[str, str, str] | None:
    """The columns of the output type, of its level or category, and of the value, where all three are there."""
    found = [first_called(forms, role) for role in _ROLES]
    return (found[0], found[1], found[2]) if found[0] and found[1] and found[2] else None


def wide(request: Request, source: Source, kinds: Sequence[str], target: Source | None) -> Wide:
    """Forecasts of the first of some output types that is there, with the outcomes that the target data have."""
    columns = hub_columns(source.forms)
    assert columns is not None
    kind, at = _text(source, columns[0]), _text(source, columns[1])
    chosen = next((each for each in kinds if (kind == each).any()), None)
    there = listing(dict.fromkeys(kind.tolist()))
    if chosen is None:
        raise request.refuse(f"expected rows of output type {' or '.join(kinds)}, found {there}: {_how(kind)}")
    rows = np.flatnonzero(kind == chosen)
    names = [name for name in source.forms if name not in columns and key_of(name) not in ("modelid", "asof")]
    tasks = {name: _text(source, name)[rows] for name in names}
    targets = list(dict.fromkeys(_AHEAD.sub("", text) for text in tasks.get("target", np.array([])).tolist()))
    if len(targets) > 1:
        keep = f"awk -F, 'NR == 1 || /{targets[0]}/' {request.path} > one.csv"
        raise request.refuse(f"expected {chosen} rows of one target, found {listing(targets)}: keep one: {keep}")
    units: dict[tuple[str, ...], int] = {}
    unit = np.array([units.setdefault(each, len(units)) for each in zip(*tasks.values(), strict=True)], dtype=np.intp)
    order = list(dict.fromkeys(at[rows].tolist()))
    levels = tuple(order if chosen == "pmf" else sorted(order, key=_number))
    place = {level: j for j, level in enumerate(levels)}
    numbers = np.full((len(units), len(levels)), np.nan)
    numbers[unit, [place[level] for level in at[rows].tolist()]] = source.numbers((columns[2],), False)[rows]
    if np.isnan(numbers).any() or len(rows) != numbers.size:
        who = ", ".join(list(units)[int(np.argmax(np.isnan(numbers).any(axis=1)))])
        raise request.refuse(f"expected one value of each of {len(levels)} levels per forecast, {quote(who)} differs")
    first = np.unique(unit, return_index=True)[1]
    tasks = {name: values[first] for name, values in tasks.items()}
    outcomes, missing = (None, "") if target is None else _outcomes(request, tasks, chosen, target)
    note = f"{chosen} rows as {len(units)} forecasts of {len(levels)} levels{missing}"
    note += f"; other output types are left out ({there})" if len(rows) < len(kind) else ""
    made = Wide(numbers, levels, tasks, outcomes, note)
    return made if outcomes is None else _known(made, np.array([value is not None for value in outcomes.tolist()]))


def _known(made: Wide, known: Values) -> Wide:
    assert made.outcomes is not None
    tasks = {name: values[known] for name, values in made.tasks.items()}
    return replace(made, numbers=made.numbers[known], tasks=tasks, outcomes=made.outcomes[known])


def _how(kind: Values) -> str:
    if (kind == "pmf").any():
        return f"drop --task, and pass the target data with {LABELS_OPTION}"
    return f"pass --task distribution --thresholds LOW:HIGH:COUNT, and the target data with {LABELS_OPTION}"


def _text(source: Source, name: str) -> Values:
    return np.array([str(value) for value in source.values(name).tolist()], dtype=object)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")


def _outcomes(request: Request, tasks: dict[str, Values], chosen: str, target: Source) -> tuple[Values, str]:
    """The outcome of each forecast, None where the target data have none, matched by the columns of both tables."""
    value = next((name for name in _OUTCOMES if name in target.forms), None)
    shared = {name: name for name in tasks if name in target.forms}
    if "target_end_date" in tasks and "target_end_date" not in target.forms and "date" in target.forms:
        shared["target_end_date"] = "date"
    if value is None or not shared:
        wanted = f"target data with a column {' or '.join(_OUTCOMES[:3])} and columns of {listing(tasks)}"
        raise request.refuse(f"expected {wanted}, found {listing(target.forms)} in {target.path}")
    keys = zip(*(_text(target, name).tolist() for name in shared.values()), strict=True)
    values, columns = _text(target, value), hub_columns({**target.forms, "value": NUMBER})
    kept = np.ones(len(values), dtype=bool)
    if columns is not None:
        kept = _text(target, columns[0]) == chosen
        if chosen == "pmf":
            kept &= np.array([_number(text) == 1 for text in values.tolist()])
            values = _text(target, columns[1])
    known: dict[tuple[str, ...], str] = {}
    for key, text, keep in zip(keys, values.tolist(), kept.tolist(), strict=True):
        if keep and known.setdefault(key, text) != text:
            raise request.refuse(f"expected one outcome for {quote(', '.join(key))}, found more in {target.path}")
    wanted_keys = zip(*(tasks[name].tolist() for name in shared), strict=True)
    found: Values = np.array([known.get(key) for key in wanted_keys], dtype=object)
    missing = sum(1 for each in found.tolist() if each is None)
    if missing == len(found):
        raise request.refuse(f"none of {len(found)} forecasts has an outcome in {target.path}, by {listing(shared)}")
    return found, f", matched by {listing(shared)}" + (
        f"; {missing} without an outcome are left out" if missing else ""
    )


def from_hub(request: Request, source: Source, target: Source | None) -> tuple[Request, Source]:
    """The request and the source, with one row per forecast where the table has one per category."""
    if source.what != "column" or not source.named or hub_columns(source.forms) is None:
        return request, source
    made = wide(request, source, ("pmf",), target)
    columns = {f"prob_{name}": j for j, name in enumerate(made.levels)}
    more = {"label": made.outcomes} if made.outcomes is not None else {}
    tasks = [name for name in made.tasks if name != "target"] if target is not None else []
    forms = dict.fromkeys(columns, NUMBER) | dict.fromkeys([*tasks, *more], "text")

    def numbers(names: Sequence[str], gaps: bool) -> Floats:
        return made.numbers[:, [columns[name] for name in names]]

    def values(name: str) -> Any:
        return more.get(name, made.tasks.get(name))

    return request, Source(request.path, "column", forms, numbers, values, True, (made.note, *source.notes))
