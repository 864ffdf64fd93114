"""From the tables of a stream to an Evaluation: values off the tables, intervals off their blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import COMPOSED, Parts, signed_root
from ..core.losses import LOSSES
from ..core.properties import Confidence
from ..core.rules import bins_text
from ..core.table import BinTable
from ..evaluation.comparison import Comparison, assemble
from ..evaluation.measuring import ErrorValue, LossValue, Measured, Reliability, infinite_text, notions, spread_ends
from ..evaluation.model import Evaluation
from ..evaluation.views import ViewValue, worst_first
from ..inference.blocks import block_spread
from ..inference.calibration import BlockForm, block_test
from ..inference.direction import MeanGap, between_units, mean_gap_of_table
from ..inference.gaps import Gap, gap_from
from ..inference.options import check_level
from ..inference.spread import Spread
from .losses import SCARCE, SUMMED, is_scarce, with_interval
from .plan import STATE_BYTES, StreamEntry
from .tally import Tally

if TYPE_CHECKING:
    from .stream import Stream

ROWS_GONE = "the calibration test and null bands need the rows, which a stream does not keep: they are left out"
BLOCK_TEST = (
    "the calibration test is approximate: it flips the signs of the residuals of {} blocks of rows, because the exact "
    "test needs the rows"
)
FEWER_BINS = "{} has {:,} bins, not the automatic {:,}, whose sums would take more than {} MB; n_bins= sets the number"
TIED = (
    "many predictions of {} are equal: they stay in one bin here, while evaluate in memory divides them between bins, "
    "so that gap and score differ"
)
NO_BLOCK_TEST = "not tested: too few blocks of rows, or too few surprising outcomes in them"
BLOCK_DRAWS = 1999
NO_BLOCKS = "left out: the stream keeps no blocks of rows (blocks=0)"
MOST_VIEWS = 2000
FEW_ROWS = "left out: too few rows, or none that share a bin"


def evaluation_of(stream: Stream, level: float, name: str, seed: int | None = None) -> Evaluation:
    """The stream so far, as `evaluate` would give it, without what needs rows; with a seed, tested by its blocks."""
    level, blocks = check_level(level), stream.settings["blocks"]
    if not next(iter(stream.tallies.values())).table.totals.weight:
        raise ValueError(f"expected rows with weights above 0, all {stream.rows} so far have weights of 0")
    direction = _direction(stream)
    headlines = _headlines(stream)
    rows, gaps, reliability, notes = [], {}, {}, [ROWS_GONE] if seed is None else []
    forms: list[BlockForm] = []
    if stream.kept:
        notes.append(f"quantile edges from the predictions of the first {stream.kept:,} rows, by which all are counted")
    fewer = (entry for entry in stream.entries if entry.automatic is not None)
    notes += [FEWER_BINS.format(e.name, e.n_bins, e.automatic, STATE_BYTES >> 20) for e in fewer]
    if tied := dict.fromkeys(entry.name for entry in stream.entries if entry.tied):
        notes.append(TIED.format(" and ".join(tied)))
    if stream.units:
        notes.append(
            f"intervals and gaps compare {stream.units} images or groups with each other: rows of one may depend"
        )
    for entry in stream.entries:
        headline = headlines[entry.name] == entry
        table = stream.table_of(entry)
        spread, parts = None, None
        if entry.error.norm == "l2":
            parts = entry.error.parts_of_table(table)
            spread = _spread(stream, entry, table, parts)
        rows.append(_error_value(entry, table, parts, spread, headline, level))
        if headline and entry.name in notions() and parts is not None:
            forms += [] if seed is None else _forms(stream, entry, spread)
            gaps[entry.name] = _gap(entry, parts, spread, direction, level, table.rows, blocks)
            reliability[entry.name] = Reliability(entry.name, entry.n_bins or table.count.shape[1], table, None)
            if gaps[entry.name].note:
                notes.append(f"the interval of the {entry.name} gap is {gaps[entry.name].note}")
    views = _views(stream, headlines, level)
    if blocks and _is_scarce(stream):
        notes.append(f"losses have no intervals: {SCARCE}")
    if stream.losses is not None and stream.losses.infinite:
        notes.append(infinite_text("cross_entropy", stream.losses.infinite))
    test = None if seed is None else block_test(forms, stream.rows, BLOCK_DRAWS, seed)
    if test is not None:
        notes.append(BLOCK_TEST.format(len(forms[0].H)))
    elif seed is not None and blocks:
        notes.append(NO_BLOCK_TEST)
    return Evaluation(
        name=str(name),
        kind=stream.kind,
        n_samples=stream.rows,
        n_classes=stream.n_classes,
        level=level,
        losses=tuple(_losses(stream, level)),
        errors=tuple(rows),
        gaps=gaps,
        test=test,
        direction=direction,
        reliability=reliability,
        notes=tuple(notes),
        views=views,
    )


def _views(stream: Stream, headlines: Mapping[str, StreamEntry], level: float) -> tuple[ViewValue, ...]:
    """Every label, threshold or class of images with its gap, read off the table and its blocks."""
    entry = next((headlines[name] for name in notions() if name in headlines), None)
    if entry is None or not (entry.error.property.per_view or stream.units) or entry.rule.averages:
        return ()
    table, blocks, property = stream.table_of(entry), stream.tally_of(entry).blocks, entry.error.property
    if blocks is None or not 1 < table.views <= MOST_VIEWS or np.count_nonzero(blocks.of("weight")) < 4:
        return ()
    found = []
    given = [f"{t:.4g}" for t in entry.thresholds] or stream.settings["labels"]
    names = None if given is None else [str(name) for name in given]
    for j in range(table.views):
        own, residual, weight = table.view(j), blocks.residual[:, j : j + 1], blocks.of("weight")
        moments = own.moments
        if not moments.pair_weight > 0:
            return ()
        spread = block_spread(own, residual, weight, None if stream.units else float(moments.gap_sq))
        total = own.count.sum()
        came, told = float(own.outcome.sum() / total), float((own.outcome + own.residual).sum() / total)
        level_gap = MeanGap(told - came, np.nan, told, came, False, stream.rows, np.nan)
        word = between_units(level_gap, residual.sum(axis=(1, 2)), weight).word
        gap = gap_from(spread, word, level, entry.n_bins, stream.rows, entry.error.symbol)
        found.append(ViewValue(property.view_name(j, names), came, told, gap))
    return tuple(found) if property.place else worst_first(found)


def _headlines(stream: Stream) -> dict[str, StreamEntry]:
    """Of each error the entry whose number of bins is nearest to the automatic one."""
    best: dict[str, StreamEntry] = {}
    for entry in stream.entries:
        views = 1 if entry.n_bins is None else stream.table_of(entry).views
        auto = COMPOSED[entry.name].binning.auto(stream.rows, views)
        old = best.get(entry.name)
        if old is None or abs(np.log((entry.n_bins or 1) / auto)) < abs(np.log((old.n_bins or 1) / auto)):
            best[entry.name] = entry
    return best


def _spread(stream: Stream, entry: StreamEntry, table: BinTable, parts: Parts) -> Spread | None:
    blocks = stream.tally_of(entry).blocks
    if blocks is None or not np.isfinite(parts.gap_sq) or np.count_nonzero(blocks.of("weight")) < 4:
        return None
    return block_spread(table, blocks.residual, blocks.of("weight"), None if stream.units else parts.gap_sq)


def _forms(stream: Stream, entry: StreamEntry, spread: Spread | None) -> list[BlockForm]:
    """What the test by blocks looks at: the bins of an error, and the sums of each view over all of them."""
    blocks = stream.tally_of(entry).blocks
    if spread is None or spread.note or blocks is None:
        return []
    top = "confidence: " if entry.error.property.picks_outcome else ""
    of_bins = BlockForm(f"{top}{bins_text(entry.n_bins)}", spread.H)
    sums = blocks.residual[blocks.of("weight") > 0].sum(axis=2)  # (blocks, views)
    name = f"{top}mean" if sums.shape[1] == 1 else "class frequencies"
    return [of_bins, BlockForm(name, sums @ sums.T, float(sums.sum()))]


def _error_value(
    entry: StreamEntry, table: BinTable, parts: Parts | None, spread: Spread | None, headline: bool, level: float
) -> ErrorValue:
    error = entry.error
    about: dict[str, Any] = {
        "error": entry.name,
        "symbol": error.symbol,
        "truthful": error.truthful,
        "n_bins": entry.n_bins,
        "headline": headline,
    }
    if parts is None:
        return ErrorValue(**about, value=error.of_table(table))
    gap_sq = parts.gap_sq if spread is None else spread.theta
    gap = 100 * signed_root(gap_sq) if np.isfinite(gap_sq) else None
    more: dict[str, Any] = {"value": parts.error, "loss": parts.loss, "U": parts.U, "gap": gap, "score": parts.score}
    return ErrorValue(**about | more | spread_ends(spread, parts.U, level))


def _gap(
    entry: StreamEntry, parts: Parts, spread: Spread | None, direction: MeanGap, level: float, rows: int, blocks: int
) -> Gap:
    if spread is not None:
        return gap_from(spread, direction.word, level, entry.n_bins, rows, entry.error.symbol)
    points, nan = 100 * signed_root(parts.gap_sq), float("nan")
    note = FEW_ROWS if blocks else NO_BLOCKS
    return Gap(points, nan, nan, direction.word, level, entry.n_bins, rows, entry.error.symbol, note)


def _direction(stream: Stream) -> MeanGap:
    """Mean prediction minus mean outcome, of the confidence or of the one probability there is."""
    property = stream.basics[0]
    tally = next(tally for key, tally in stream.tallies.items() if key[0] == property.kind)
    found = mean_gap_of_table(tally.whole(), property)
    if not stream.units:
        return found
    if tally.blocks is None:
        return replace(found, pvalue=np.nan, spread_pvalue=np.nan)
    return between_units(found, tally.blocks.residual.sum(axis=(1, 2)), tally.blocks.of("weight"))


def _top(stream: Stream) -> Tally | None:
    """Some table of the confidence, whatever its source: sums over its cells do not depend on the cells."""
    return next((tally for key, tally in stream.tallies.items() if key[0] == Confidence.kind), None)


def _is_scarce(stream: Stream) -> bool:
    top = _top(stream)
    return top is not None and is_scarce(top.table.totals)


def _losses(stream: Stream, level: float) -> Iterator[LossValue]:
    """Every loss that is defined here: those whose sums the tables hold, and those that were added up beside them."""
    top = _top(stream)
    sure = None if not stream.settings["blocks"] or _is_scarce(stream) else level
    held: dict[str, tuple[Tally, float, float]] = {}
    for key, (property, _) in stream.counted().items():
        tally = stream.tallies[key]
        if not property.picks_outcome and property.of_classes:
            views = tally.table.views
            unit = property.score_unit(views) / (1 if tally.table.joint else views)
            held.setdefault(property.loss_name, (tally, 0.0, unit))
    if top is not None:
        held |= {"classification_error": (top, 1.0, 0.0), "confidence_loss": (top, 1.0, 1.0)}
    for name in dict.fromkeys((*(name for name in held if name not in LOSSES), *LOSSES)):
        if name in held:
            yield _loss(name, *held[name], sure)
        elif stream.losses is not None and name in SUMMED:
            yield stream.losses.value(name, sure)


def _loss(name: str, tally: Tally, wrong: float, squares: float, level: float | None) -> LossValue:
    """Σ w(a·(1 − z) + b·|r|²)/Σ w, with its interval from the blocks of rows."""
    table = tally.whole()
    value = (wrong * table.totals.wrong + squares * table.loss_total) / table.totals.weight
    if tally.blocks is None:
        return LossValue(name, value, None, None)
    parts = wrong * tally.blocks.of("wrong") + squares * tally.blocks.of("loss")
    return with_interval(name, value, parts, tally.blocks.of("weight"), level)


def compare_streams(
    streams: Mapping[str, Stream], level: float = 0.95, evaluations: dict[str, Evaluation] | None = None
) -> Comparison:
    """Models whose streams saw the same rows in the same order, as `compare` would give them without the rows; with
    `evaluations` that have been made of them already."""
    first = next(iter(streams.values()))
    for name, stream in streams.items():
        same = [(e.name, e.n_bins) for e in stream.entries] == [(e.name, e.n_bins) for e in first.entries]
        if stream.rows != first.rows or not same:
            raise ValueError(f"streams must have the same rows, errors and bins: {name!r} differs from the first")
    if evaluations is None:
        evaluations = {name: evaluation_of(stream, level, name) for name, stream in streams.items()}
    measured = {name: _measured(stream) for name, stream in streams.items()}
    return assemble(evaluations, measured, None, check_level(level), [])


def _measured(stream: Stream) -> Measured:
    """What pairs of models are compared by: spreads and losses of blocks of rows."""
    found = Measured()
    note = SCARCE if _is_scarce(stream) else ""
    for entry in stream.entries:
        tally = stream.tally_of(entry)
        if entry.name not in notions() or tally.blocks is None:
            continue
        table = stream.table_of(entry)
        spread = _spread(stream, entry, table, entry.error.parts_of_table(table))
        if spread is not None:
            found.spreads.setdefault(entry.name, {})[entry.n_bins] = spread
        loss = tally.blocks.of("loss") / (1 if table.joint else table.views)
        loss = loss + (tally.blocks.of("wrong") if entry.error.corrected else 0.0)
        found.block_losses[entry.name] = (loss, tally.blocks.of("weight"), note)
    return found
