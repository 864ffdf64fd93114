"""Evidence from the tables of a stream: values off the tables, intervals off their blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..core.losses import LOSSES
from ..core.properties import Confidence
from ..core.result import on_one_line
from ..core.rules import bins_text
from ..core.table import BinTable
from ..inference.blocks import block_spread
from ..inference.direction import MeanGap, between_units, mean_gap_of_table
from ..inference.gaps import gap_from
from ..inference.sign_flips import BlockForm, block_test
from ..inference.spread import Spread
from ..kinds import COMPOSED
from ..sums.errors import ErrorTerms, signed_root
from .evidence import Evidence
from .stream_losses import SCARCE, is_scarce, summed_losses, with_interval
from .stream_plan import STATE_BYTES, StreamEntry
from .stream_state import StreamState
from .stream_table import StreamTable
from .values import (
    LossValue,
    Reliability,
    called_views,
    errors_with_gap,
    gap_value,
    infinite_text,
    plain_error,
    squared_error,
)
from .views import ViewValue, worst_first

ROWS_GONE = "the calibration test and null bands need the rows, which a stream does not keep: they are left out"
BLOCK_TEST = (
    "the calibration test is approximate: it flips the signs of the residuals of {} blocks of rows, because the exact "
    "test needs the rows"
)
FEWER_BINS = "{} has {:,} bins, not the automatic {:,}, whose sums would take more than {} MB; n_bins= sets the number"
TIED = (
    "many predictions of {} are equal: they stay in one bin here, while evaluate in memory divides them between bins, "
    "so that gaps differ"
)
NO_BLOCK_TEST = "not tested: too few blocks of rows, or too few surprising outcomes in them"
INTERPOLATED = (
    "not tested: F is interpolated between the levels of these forecasts, and the gap contains what this costs; "
    "evaluate tests them in memory, at their own levels"
)
BLOCK_DRAWS = 1999
NO_DIRECTION = "no direction is named: without the rows that takes more rows with uncertain outcomes"
NO_BLOCKS = "left out: the stream keeps no blocks of rows (blocks=0)"
MOST_VIEWS = 2000
FEW_ROWS = "left out: too few rows, or none that share a bin"


def stream_evidence(stream: StreamState, level: float, seed: int | None = None) -> Evidence:
    """The stream so far, as memory would measure it, without what needs rows; with a seed, tested by its blocks."""
    if not next(iter(stream.tallies.values())).table.totals.weight:
        raise ValueError(f"expected rows with weights above 0, all {stream.rows} so far have weights of 0")
    found = Evidence(stream.kind, stream.rows, stream.n_classes, level, _direction(stream))
    if np.isnan(found.direction.pvalue) and not stream.units:
        found.note(NO_DIRECTION)
    thresholds = tuple(next(iter(stream.entries)).thresholds)
    found.scale = stream.kind.scale(thresholds, stream.settings["labels"], stream.n_classes or 2)
    _note_source(found, stream, tested=seed is not None)
    headlines, blocks = _headlines(stream), stream.settings["blocks"]
    forms: list[BlockForm] = []
    for entry in stream.entries:
        headline, error, table = headlines[entry.name] == entry, entry.error, stream.table_of(entry)
        if error.norm == "l1":
            found.errors.append(plain_error(entry.name, error, entry.n_bins, error.of_table(table), headline))
            continue
        terms = error.parts_of_table(table)
        spread = _spread(stream, entry, table, terms)
        score = stream.score_of(error)
        row = squared_error(entry.name, error, entry.n_bins, terms, spread, level, score=score, headline=headline)
        found.errors.append(row)
        if entry.name in errors_with_gap():
            _keep_for_pairs(found, stream, entry, table, spread)
            if headline:
                forms += [] if seed is None else _forms(stream, entry, spread)
                shown = (error, entry.n_bins, terms.gap_sq, spread, found.direction.word, level, table.rows)
                found.add_gap(entry.name, gap_value(*shown, left_out=FEW_ROWS if blocks else NO_BLOCKS))
                bins = entry.n_bins or table.count.shape[1]
                names = called_views(error.property, table.views, _view_names(stream, entry))
                found.reliability[entry.name] = Reliability(entry.name, bins, table, None, names=names)
    found.views = _views(stream, headlines, level)
    if blocks and _is_scarce(stream):
        found.note(f"losses have no intervals: {SCARCE}")
    if stream.losses is not None and stream.losses.infinite:
        found.note(infinite_text("cross_entropy", stream.losses.infinite))
    if stream.interpolated:
        found.note(INTERPOLATED)
        seed = None
    found.test = None if seed is None else block_test(forms, stream.rows, BLOCK_DRAWS, seed, level)
    if found.test is not None:
        found.note(BLOCK_TEST.format(len(forms[0].H)))
    elif seed is not None and blocks:
        found.note(NO_BLOCK_TEST)
    found.losses = tuple(_losses(stream, level))
    return found


def _note_source(found: Evidence, stream: StreamState, *, tested: bool) -> None:
    """Notes on what a stream cannot give, and on where its bins come from."""
    if stream.kind.note:
        found.note(stream.kind.note)
    if not tested:
        found.note(ROWS_GONE)
    if stream.kept:
        found.note(f"quantile edges from the predictions of the first {stream.kept:,} rows, by which all are counted")
    for entry in stream.entries:
        if entry.automatic is not None:
            found.note(FEWER_BINS.format(entry.name, entry.n_bins, entry.automatic, STATE_BYTES >> 20))
    if tied := dict.fromkeys(entry.name for entry in stream.entries if entry.tied):
        found.note(TIED.format(" and ".join(tied)))
    if stream.units:
        found.note(
            f"intervals and gaps compare {stream.units} images or groups with each other: rows of one may depend"
        )


def _keep_for_pairs(
    found: Evidence, stream: StreamState, entry: StreamEntry, table: BinTable, spread: Spread | None
) -> None:
    """Spreads and losses of blocks of rows, by which pairs of models are compared."""
    tally = stream.tally_of(entry)
    if tally.blocks is None:
        return
    if spread is not None:
        found.spreads.setdefault(entry.name, {})[entry.n_bins] = spread
    loss = tally.blocks.of("loss") / (1 if table.joint else table.views)
    loss = loss + (tally.blocks.of("wrong") if entry.error.corrected else 0.0)
    found.block_losses[entry.name] = (loss, tally.blocks.of("weight"), SCARCE if _is_scarce(stream) else "")


def _views(stream: StreamState, headlines: Mapping[str, StreamEntry], level: float) -> tuple[ViewValue, ...]:
    """Every label, threshold or class of images with its gap, read off the table and its blocks."""
    entry = next((headlines[name] for name in errors_with_gap() if name in headlines), None)
    if entry is None or not (entry.error.property.per_view or stream.units) or entry.rule.averages:
        return ()
    table, blocks, property = stream.table_of(entry), stream.tally_of(entry).blocks, entry.error.property
    if blocks is None or not 1 < table.views <= MOST_VIEWS or np.count_nonzero(blocks.of("weight")) < 4:
        return ()
    found = []
    names = _view_names(stream, entry)
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
    return tuple(found) if property.in_order else worst_first(found)


def _view_names(stream: StreamState, entry: StreamEntry) -> list[str] | None:
    """The names of the columns, where they have any."""
    given = [f"{t:.4g}" for t in entry.thresholds] or stream.settings["labels"]
    return None if given is None else [on_one_line(name) for name in given]


def _headlines(stream: StreamState) -> dict[str, StreamEntry]:
    """Of each error the entry whose number of bins is nearest to the automatic one."""
    best: dict[str, StreamEntry] = {}
    for entry in stream.entries:
        views = 1 if entry.n_bins is None else stream.table_of(entry).views
        auto = COMPOSED[entry.name].binning.auto(stream.rows, views)
        old = best.get(entry.name)
        if old is None or abs(np.log((entry.n_bins or 1) / auto)) < abs(np.log((old.n_bins or 1) / auto)):
            best[entry.name] = entry
    return best


def _spread(stream: StreamState, entry: StreamEntry, table: BinTable, parts: ErrorTerms) -> Spread | None:
    blocks = stream.tally_of(entry).blocks
    if blocks is None or not np.isfinite(parts.gap_sq) or np.count_nonzero(blocks.of("weight")) < 4:
        return None
    return block_spread(table, blocks.residual, blocks.of("weight"), None if stream.units else parts.gap_sq)


def _forms(stream: StreamState, entry: StreamEntry, spread: Spread | None) -> list[BlockForm]:
    """What the test by blocks looks at: the bins of an error, and the sums of each view over all of them."""
    blocks = stream.tally_of(entry).blocks
    if spread is None or spread.note or blocks is None:
        return []
    top = "confidence: " if entry.error.property.picks_outcome else ""
    printed = bool(top) or stream.kind.one_event
    size = 100 * signed_root(max(spread.theta, 0.0)) if printed else 0.0
    of_bins = BlockForm(f"{top}{bins_text(entry.n_bins)}", spread.H, size=size)
    sums = blocks.residual[blocks.of("weight") > 0].sum(axis=2)  # (blocks, views)
    name = f"{top}mean" if sums.shape[1] == 1 else "class frequencies"
    total = float(sums.sum())
    size = 100 * abs(total) / float(blocks.of("weight").sum()) if printed else 0.0
    return [of_bins, BlockForm(name, sums @ sums.T, total, size)]


def _direction(stream: StreamState) -> MeanGap:
    """Mean prediction minus mean outcome, of the confidence or of the one probability there is."""
    property = stream.basics[0]
    tally = next(tally for key, tally in stream.tallies.items() if key[0] == property.kind)
    found = mean_gap_of_table(tally.whole(), property)
    if not stream.units:
        return found
    if tally.blocks is None:
        return replace(found, pvalue=np.nan, spread_pvalue=np.nan)
    return between_units(found, tally.blocks.residual.sum(axis=(1, 2)), tally.blocks.of("weight"))


def _top(stream: StreamState) -> StreamTable | None:
    """Some table of the confidence, whatever its source: sums over its cells do not depend on the cells."""
    return next((tally for key, tally in stream.tallies.items() if key[0] == Confidence.kind), None)


def _is_scarce(stream: StreamState) -> bool:
    top = _top(stream)
    return top is not None and is_scarce(top.table.totals)


def _losses(stream: StreamState, level: float) -> Iterator[LossValue]:
    """Every loss that is defined here: those whose sums the tables hold, and those that were added up beside them."""
    top = _top(stream)
    sure = None if not stream.settings["blocks"] or _is_scarce(stream) else level
    held: dict[str, tuple[StreamTable, float, float]] = {}
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
        elif stream.losses is not None and name in summed_losses():
            yield stream.losses.value(name, sure)


def _loss(name: str, tally: StreamTable, wrong: float, squares: float, level: float | None) -> LossValue:
    """Σ w(a·(1 − z) + b·|r|²)/Σ w, with its interval from the blocks of rows."""
    table = tally.whole()
    value = (wrong * table.totals.wrong + squares * table.loss_total) / table.totals.weight
    if tally.blocks is None:
        return LossValue(name, value, None, None)
    parts = wrong * tally.blocks.of("wrong") + squares * tally.blocks.of("loss")
    return with_interval(name, value, parts, tally.blocks.of("weight"), level)
