"""The state of a stream as words and arrays, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from inspect import isclass
from typing import Any

import numpy as np

from ..core import averages, rules, vectors
from ..core.cut_score import SCORE_CELLS, Sides
from ..core.data import check_positive_int, shown
from ..core.properties import Property
from ..core.result import plain
from ..core.rules import BinningRule
from ..core.sample import Totals
from ..core.table import BinTable
from ..core.types import Array
from ..evidence.kept_rows import KeptRows
from ..evidence.stream_losses import LossSums, summed_losses
from ..evidence.stream_plan import StreamEntry
from ..evidence.stream_table import BLOCK_SUMS, SUMS, Blocks, StreamTable, edges_of
from ..io.state_files import check_array, damaged, read_state, reading_field, write_state
from ..kinds.numbers import Distribution
from .stream import Stream, check_blocks

VERSION = 3
_SLACK = 1 + 1e-6  # for what rounding leaves of an inequality
_DEAREST = 750.0  # -log of the smallest double
_HEAVIEST = 1e150  # weights whose squares are numbers
_EVERY = [rule for module in (averages, rules, vectors) for rule in vars(module).values() if isclass(rule)]
_RULES: dict[str, Any] = {
    rule.__name__: rule
    for rule in _EVERY
    if issubclass(rule, BinningRule) and is_dataclass(rule) and rule.streamed is not BinningRule.streamed
}
"""Every rule that can be streamed, by name."""


_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "blocks": check_blocks,
    "labels": lambda x: None if x is None else np.asarray(x),
    "pos_label": lambda x: x,
    "rows": int,
    "observed": int,
    "shape": lambda x: x is None or (x[0] is None or int(x[0]), np.dtype(x[1])),
}
"""The fields of a state that are neither errors nor sums, and how each is read: what fails is named."""


def save_stream(stream: Stream, path: str | os.PathLike[str]) -> None:
    """Write everything the stream knows."""
    for label in [*(stream.settings["labels"] or ()), stream.settings["pos_label"]]:
        if not isinstance(plain(label), (str, int, float)):
            raise TypeError(f"labels must be text, numbers or booleans to be saved, got {shown(label)}")
    arrays: dict[str, Array] = {}
    totals = []
    for i, tally in enumerate(stream.tallies.values()):
        arrays |= {f"{i}.{name}": x for name in SUMS if (x := getattr(tally.table, name)) is not None}
        arrays |= {f"{i}.lost.{name}": x for name, x in tally.lost.items()}
        if tally.blocks is not None:
            arrays |= {f"{i}.blocks.residual": tally.blocks.residual, f"{i}.blocks.sums": tally.blocks.sums}
        if tally.left_out is not None:
            arrays |= {f"{i}.left_out.{name}": x for name, x in tally.left_out._asdict().items()}
        totals.append([getattr(tally.table.totals, f.name) for f in fields(Totals)])
    if stream.first_pass.number:
        arrays["first_pass"] = stream.first_pass.rows
    losses = stream.losses
    if losses is not None:
        arrays["losses"] = losses.sums
    about = {
        "losses": None if losses is None else [losses.infinite, losses.bounded],
        "entries": [_entry_words(entry) for entry in stream.entries],
        "made": [[entry.automatic, entry.tied] for entry in stream.entries],
        "tallies": totals,
        "stride": stream.first_pass.stride,
        **plain(stream.settings),
    }
    write_state(path, "stream", VERSION, about, arrays)


def load_stream(path: str | os.PathLike[str]) -> Stream:
    """A stream as `save_stream` wrote it."""
    about, arrays = read_state(path, "stream", VERSION)

    def field(name: str, make: Callable[[Any], Any]) -> Any:
        with reading_field(path, "stream", name):
            return make(about[name])

    entries = field("entries", lambda x: tuple(_read_entry(*words) for words in x))
    losses = field("losses", lambda x: _losses(x, arrays))
    for name, make in _SETTINGS.items():
        field(name, make)
    with reading_field(path, "stream", "entries"):
        stream = Stream.restored(entries, about, losses)
    if "made" in about:  # states of earlier versions do not tell how their bins were made
        entries = field("made", lambda x: tuple(_made(entry, *how) for entry, how in zip(entries, x, strict=True)))
        stream = Stream.restored(entries, about, losses)
    if stream.rows < 0:
        raise damaged(path, "stream", "rows", f"is {stream.rows}")
    if about.get("sketches"):
        raise damaged(path, "stream", "sketches", "are those of an earlier version: observe the predictions once more")
    if "first_pass" in arrays:
        _check_first_pass(path, arrays["first_pass"], stream)
        stride = field("stride", lambda x: check_positive_int(x, "stride", 1 << 62))
        stream.first_pass = KeptRows(arrays["first_pass"], stride, stream.observed)
    with reading_field(path, "stream", "tallies"):
        counted = stream.counted() if about["tallies"] else {}
        wanted = list(zip(counted.items(), about["tallies"], strict=True))
    for i, ((key, (property, rule)), totals) in enumerate(wanted):
        with reading_field(path, "stream", f"tallies.{i}"):
            tally = _tally(i, property, rule, _totals(totals), stream, arrays)
            _check_tally(path, i, tally, stream, property.views(stream.n_classes or 1))
        if tally.table.rows != stream.rows:
            raise damaged(path, "stream", "rows", f"is {stream.rows}, the sums are of {tally.table.rows}")
        stream.tallies[key] = tally
    if stream.losses is not None:
        sums = stream.losses.sums
        check_array(
            path, "stream", "losses", sums, (len(summed_losses()) + 1, max(stream.settings["blocks"], 1)), logs=True
        )
        if not (np.isfinite(sums[1:]).all() and (stream.losses.infinite or np.isfinite(sums).all())):
            raise damaged(path, "stream", "losses", "has values that are not finite")
        most = _SLACK * max((tally.table.totals.weight for tally in stream.tallies.values()), default=0.0)
        if (sums < 0).any() or (sums[1:] > most).any() or (sums[0][np.isfinite(sums[0])] > _DEAREST * most).any():
            raise damaged(path, "stream", "losses", "has sums that its rows cannot have")
    return stream


def _check_first_pass(path: str | os.PathLike[str], rows: Array, stream: Stream) -> None:
    """Refuse predictions of other shapes, beyond their range, or of more rows than were observed."""
    with reading_field(path, "stream", "shape"):
        classes, dtype = stream.settings["shape"] or (None, "")
    right = rows.dtype == dtype and rows.shape[1:] == (() if classes is None else (classes,))
    if not right or not 0 < len(rows) <= stream.observed:
        raise damaged(path, "stream", "first_pass", f"must hold predictions observed, got {shown(rows.shape)}")
    if not ((rows >= 0) & (rows <= 1)).all():
        raise damaged(path, "stream", "first_pass", "has predictions outside [0, 1]")


def _made(entry: StreamEntry, automatic: Any, tied: Any) -> StreamEntry:
    return replace(entry, automatic=None if automatic is None else int(automatic), tied=bool(tied))


def _totals(values: Any) -> Totals:
    found = Totals(int(values[0]), *(float(value) for value in values[1:]))
    if not all(np.isfinite(value) and value >= 0 for value in values):
        raise ValueError(f"totals must be finite and not negative, got {shown(values)}")
    most = found.weight * _SLACK
    if not (found.weight < _HEAVIEST and found.weight_sq <= most**2 and max(found.largest, found.wrong) <= most):
        raise ValueError(f"totals must be those of one sample, got {shown(values)}")
    return found


def _losses(about: Any, arrays: dict[str, Array]) -> LossSums | None:
    if about is None:
        return None
    infinite, bounded = about
    return LossSums(arrays["losses"], int(infinite), bool(bounded))


def _tally(
    i: int, property: Property, rule: BinningRule, totals: Totals, stream: Stream, arrays: dict[str, Array]
) -> StreamTable:
    sums: dict[str, Any] = {name: arrays.get(f"{i}.{name}") for name in SUMS}
    edges = edges_of(rule, property.bounds, np.dtype(stream.dtype))
    about: dict[str, Any] = {"bounds": property.bounds, "edges": edges}
    about["joint"] = property.vector and rule != SCORE_CELLS
    about["shares"] = property.shares
    table = BinTable(property.kind, rule, tie_variance=np.zeros_like(sums["count"]), totals=totals, **sums, **about)
    start = f"{i}.lost."
    lost = {name.removeprefix(start): x for name, x in arrays.items() if name.startswith(start)}
    blocks = None
    if stream.settings["blocks"] and rule != SCORE_CELLS:
        blocks = Blocks(arrays[f"{i}.blocks.residual"], arrays[f"{i}.blocks.sums"])
    left_out = None
    if f"{i}.left_out.squares" in arrays:
        left_out = Sides(*(arrays[f"{i}.left_out.{name}"] for name in Sides._fields))
    return StreamTable(table, lost, blocks, left_out)


def _check_tally(path: str | os.PathLike[str], i: int, tally: StreamTable, stream: Stream, views: int) -> None:
    """Refuse sums that do not have the shape that the cells and the predictions ask for, or are no numbers."""
    table, blocks = tally.table, stream.settings["blocks"]
    assert table.edges is not None
    width = table.edges.shape[-1] - 1
    shape = (views, width * table.rule.width(stream.n_classes or 1))
    arrays = {name: getattr(table, name) for name in SUMS if name != "weight_sq" or table.weight_sq is not None}
    for name, array in arrays.items():
        check_array(path, "stream", f"{i}.{name}", array, shape)
    for name, array in tally.lost.items():
        check_array(path, "stream", f"{i}.lost.{name}", array, shape if name.startswith("cells") else ())
        if (np.abs(array) > (_SLACK - 1) * max(table.totals.weight, table.totals.weight_sq)).any():
            raise damaged(path, "stream", f"{i}.lost.{name}", "is more than rounding takes")
    if tally.blocks is not None:
        arrays["blocks.residual"] = tally.blocks.residual
        check_array(path, "stream", f"{i}.blocks.residual", tally.blocks.residual, (blocks, *shape))
        check_array(path, "stream", f"{i}.blocks.sums", tally.blocks.sums, (len(BLOCK_SUMS), blocks))
        times = np.array([[1.0 if name != "loss" else max(views, 2)] for name in BLOCK_SUMS])  # losses add up views
        if (tally.blocks.sums < 0).any() or (tally.blocks.sums > _SLACK * table.totals.weight * times).any():
            raise damaged(path, "stream", f"{i}.blocks.sums", "has sums of more than all rows")
    for name, array in () if tally.left_out is None else tally.left_out._asdict().items():
        check_array(path, "stream", f"{i}.left_out.{name}", array, (2, *shape))
        if (array < 0).any() or (array > _SLACK * table.totals.weight ** (1 if name == "most" else 2)).any():
            raise damaged(path, "stream", f"{i}.left_out.{name}", "has sums that its rows cannot have")
    if not np.allclose(table.count.sum(axis=1), table.totals.weight, rtol=1e-6):
        raise damaged(path, "stream", f"{i}.count", "does not add up to the total")
    squares = table.count if table.weight_sq is None else table.weight_sq
    for name, array in arrays.items():  # residuals and outcomes are no larger than 1
        most = _SLACK * (
            squares if name == "residual_sq" else table.totals.weight_sq if name == "weight_sq" else table.count
        )
        if (np.abs(array) > most).any() or (name not in ("residual", "blocks.residual") and (array < 0).any()):
            raise damaged(path, "stream", f"{i}.{name}", "has sums that the rows of its cells cannot have")


def _entry_words(entry: StreamEntry) -> list[Any]:
    words = [entry.name, rule_words(entry.rule), entry.n_bins]
    return [*words, list(entry.thresholds)] if entry.thresholds else words


def _read_entry(name: str, rule: dict[str, Any], n_bins: int | None, thresholds: Any = ()) -> StreamEntry:
    return StreamEntry(name, read_rule(rule), n_bins, Distribution(thresholds).thresholds)


def rule_words(rule: BinningRule) -> dict[str, Any]:
    values = {f.name: getattr(rule, f.name) for f in fields(rule)}  # type: ignore[arg-type]  # rules are dataclasses
    options = {name: rule_words(v) if isinstance(v, BinningRule) else v for name, v in values.items()}
    return {"name": type(rule).__name__, "options": options}


def read_rule(words: dict[str, Any]) -> BinningRule:
    options = {name: read_rule(v) if isinstance(v, dict) else v for name, v in words["options"].items()}
    rule: BinningRule = _RULES[words["name"]](**options)
    return rule
