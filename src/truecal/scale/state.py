"""The state of a stream as words and arrays, and back."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

import numpy as np

from ..core.data import shown
from ..core.errors import COMPOSED
from ..core.result import plain
from ..core.rules import (
    ArgmaxEdges,
    ArgmaxQuantile,
    BinningRule,
    Edges,
    EqualWidth,
    OnGrid,
    Poisson,
    Quantile,
    TwoBin,
)
from ..core.table import BinTable, Totals
from ..core.types import Array
from ..io.failures import failure, parsing
from ..io.state import read_state, write_state
from .losses import LossSums
from .plan import Entry
from .sketch import Sketch
from .stream import Stream
from .tally import SUMS, Blocks, Tally, edges_of

VERSION = 2
_DAMAGED = "expected sums of one shape in the state of a stream, it is damaged"
_RULES: dict[str, Any] = {
    r.__name__: r for r in (ArgmaxEdges, ArgmaxQuantile, Edges, EqualWidth, OnGrid, Poisson, Quantile, TwoBin)
}


def save_stream(stream: Stream, path: str | os.PathLike[str]) -> None:
    """Write everything the stream knows."""
    for label in [*(stream.settings["labels"] or ()), stream.settings["pos_label"]]:
        if isinstance(label, bytes) or not isinstance(label, (str, int, float, np.generic)):
            raise TypeError(f"labels must be text, numbers or booleans to be saved, got {shown(label)}")
    arrays: dict[str, Array] = {}
    totals = []
    for i, tally in enumerate(stream.tallies.values()):
        arrays |= {f"{i}.{name}": x for name in SUMS if (x := getattr(tally.table, name)) is not None}
        arrays |= {f"{i}.lost.{name}": x for name, x in tally.lost.items()}
        if tally.blocks is not None:
            arrays |= {f"{i}.blocks.residual": tally.blocks.residual, f"{i}.blocks.sums": tally.blocks.sums}
        totals.append([getattr(tally.table.totals, f.name) for f in fields(Totals)])
    sketches = []
    for i, (key, sketch) in enumerate(stream.sketches.items()):
        parts = sketch.to_bytes()
        sketches.append([*key, len(parts)])
        arrays |= {f"sketch.{i}.{j}": np.frombuffer(part, dtype=np.uint8) for j, part in enumerate(parts)}
    losses = stream.losses
    if losses is not None:
        arrays["losses"] = losses.sums
    about = {
        "losses": None if losses is None else [losses.infinite, losses.bounded],
        "entries": [[entry.name, _rule_words(entry.rule), entry.n_bins] for entry in stream.entries],
        "tallies": totals,
        "sketches": sketches,
        **plain(stream.settings),
    }
    write_state(path, "stream", VERSION, about, arrays)


def load_stream(path: str | os.PathLike[str]) -> Stream:
    """A stream as `save_stream` wrote it."""
    about, arrays = read_state(path, "stream", VERSION)
    with parsing(path, "the state of a stream"):
        entries = tuple(Entry(name, _rule(words), n_bins) for name, words, n_bins in about["entries"])
        stream = Stream.restored(entries, about, _losses(about["losses"], arrays))
        for i, (first, second, views) in enumerate(about["sketches"]):
            stream.sketches[first, second] = Sketch.of_bytes(arrays[f"sketch.{i}.{j}"].tobytes() for j in range(views))
        counted = stream.counted() if about["tallies"] else {}
        wanted = zip(counted.items(), about["tallies"], strict=True)
        tallies = {
            key: _tally(i, name, rule, Totals(*totals), stream, arrays)
            for i, ((key, (name, rule)), totals) in enumerate(wanted)
        }
    for tally in tallies.values():
        if tally.table.rows != stream.rows or not _is_whole(tally, stream):
            raise failure(path, _DAMAGED)
    if stream.losses is not None and not stream.losses.is_whole(stream.settings["blocks"]):
        raise failure(path, _DAMAGED)
    stream.tallies.update(tallies)
    return stream


def _losses(about: Any, arrays: dict[str, Array]) -> LossSums | None:
    if about is None:
        return None
    infinite, bounded = about
    return LossSums(arrays["losses"], int(infinite), bool(bounded))


def _tally(i: int, name: str, rule: BinningRule, totals: Totals, stream: Stream, arrays: dict[str, Array]) -> Tally:
    property = COMPOSED[name].property
    sums: dict[str, Any] = {name: arrays.get(f"{i}.{name}") for name in SUMS}
    edges = edges_of(rule, property.bounds, np.dtype(stream.dtype))
    about: dict[str, Any] = {"joint": property.vector, "bounds": property.bounds, "edges": edges}
    table = BinTable(property.kind, rule, tie_variance=np.zeros_like(sums["count"]), totals=totals, **sums, **about)
    start = f"{i}.lost."
    lost = {name.removeprefix(start): x for name, x in arrays.items() if name.startswith(start)}
    blocks = None
    if stream.settings["blocks"]:
        blocks = Blocks(arrays[f"{i}.blocks.residual"], arrays[f"{i}.blocks.sums"])
    return Tally(table, lost, blocks)


def _is_whole(tally: Tally, stream: Stream) -> bool:
    """Whether all sums have the shape that the cells and the predictions ask for."""
    table, blocks = tally.table, stream.settings["blocks"]
    assert table.edges is not None
    width = table.edges.shape[-1] - 1
    cells = width * len(table.edges) if isinstance(table.rule, ArgmaxEdges) else width
    views = (stream.n_classes or 1) if table.kind in ("classwise", "full") else 1
    shape = (views, cells)
    arrays = [getattr(table, name) for name in SUMS if name != "weight_sq" or table.weight_sq is not None]
    arrays += [x for name, x in tally.lost.items() if name.startswith("cells")]
    good = all(x is not None and x.shape == shape and x.dtype == np.float64 for x in arrays)
    if tally.blocks is None:
        return good
    return good and tally.blocks.residual.shape == (blocks, *shape) and tally.blocks.sums.shape == (3, blocks)


def _rule_words(rule: BinningRule) -> dict[str, Any]:
    values = {f.name: getattr(rule, f.name) for f in fields(rule)}  # type: ignore[arg-type]  # rules are dataclasses
    options = {name: _rule_words(v) if isinstance(v, BinningRule) else v for name, v in values.items()}
    return {"name": type(rule).__name__, "options": options}


def _rule(words: dict[str, Any]) -> BinningRule:
    options = {name: _rule(v) if isinstance(v, dict) else v for name, v in words["options"].items()}
    rule: BinningRule = _RULES[words["name"]](**options)
    return rule
