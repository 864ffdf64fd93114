"""Check the options that tests and intervals share: errors, levels, draws, bins, and clusters of dependent rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, final

import numpy as np

from ..core.arrays import on_cpu
from ..core.cut_score import Sides
from ..core.data import as_array, check_positive_int, check_seed, shown
from ..core.rules import BinCounts
from ..core.sample import Sample
from ..core.types import Array, Groups
from ..core.words import p_text
from ..kinds.named_errors import default_error, get_error
from ..sums.errors import CalibrationError
from ..sums.scores import of_clusters, of_near_rows


def read_error(
    error: str | CalibrationError | None, n_bins: BinCounts | None, y_proba: Any = None, *, of_gap: bool = False
) -> CalibrationError:
    """The error at the asked bin counts, by default the one for such predictions; a count given twice raises, since
    results are told apart by it."""
    metric = get_error(default_error(y_proba, of_gap=of_gap) if error is None else error)
    automatic = isinstance(n_bins, str) and n_bins == "auto"
    if n_bins is not None and not (automatic and not metric.binning.has_counts):
        metric = metric.with_bins(n_bins)
    counts = metric.binning.n_bins if metric.binning.several else ()
    twice = next((m for i, m in enumerate(counts) if m in counts[:i]), None)
    if twice is not None:
        raise ValueError(f"n_bins must hold different counts, got {twice} twice")
    return metric


FEW_COUNTS, MOST_IN_ALL = 8, 1 << 21
"""With more bin counts, so many bins of all classes and counts are measured at most."""


def check_bins(counts: Sequence[int | None], rows: int, views: int) -> None:
    """Raise where many bin counts of many classes would take minutes, on few rows too."""
    bins = sum(min(m or 0, max(rows, 10)) for m in counts) * views  # of fewer rows a count costs as much
    if len(counts) > FEW_COUNTS and bins > MOST_IN_ALL:
        raise ValueError(
            f"n_bins asks for {bins:,} bins in all, over {len(counts)} counts; with more than {FEW_COUNTS} counts "
            f"at most {MOST_IN_ALL:,} are measured: pass fewer counts"
        )


class Options(TypedDict, total=False):
    """The options of intervals besides the number of bins."""

    error: str | CalibrationError | None
    sample_weight: Any
    labels: Any
    level: float
    groups: Any
    overlap: int


_BLOCKS_IN_TIME = 20
"""Blocks of time that are made at least, where the shortest ones allow it."""
MOST_DRAWS = 10**5
"""P-values reach 1e-5 with so many; ten times as many took gigabytes on 200 rows."""
HIGHEST_LEVEL = 0.999
"""Bands need draws in proportion to 1/(1 − level), and tails beyond this are not what intervals are made of."""


def check_level(level: Any) -> float:
    """Return a confidence level strictly between 0 and 1, or raise."""
    if isinstance(level, bool) or not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, for example 0.95, got {shown(level)}")
    if level > HIGHEST_LEVEL:
        raise ValueError(
            f"level must be at most {HIGHEST_LEVEL}, got {shown(level)}: no interval here can be that precise"
        )
    return float(level)


def check_draws(n_resamples: Any, seed: Any) -> tuple[int, int]:
    """Return a positive number of draws and a seed of at least 0, or raise."""
    return check_positive_int(n_resamples, "n_resamples", MOST_DRAWS), check_seed(seed)


def check_band_draws(n_resamples: int, level: float) -> int:
    """The rank r = ⌊(B + 1)(1 − level)/2⌋ of the draws that bound a band: r from below, and r from above.

    A new draw falls below the r-th smallest of B with chance at most r/(B + 1), so both ends together keep the level.
    """
    rank = int(np.floor((1 - level) / 2 * (n_resamples + 1) + 1e-9))
    if rank < 1:
        raise ValueError(f"a {level:.4g} band needs at least n_resamples={draws_for_band(level)}, got {n_resamples}")
    return rank


def draws_for_band(level: float) -> int:
    """The fewest draws whose smallest and largest bound a band at this level: 39 for 95%."""
    return int(np.ceil(2 / (1 - level) - 1 - 1e-9))


def p_of_draws(pvalue: float, draws: int) -> str:
    """A p-value from so many draws, "p = 0.032", or "p ≤ 0.001" where no draw was as extreme."""
    return p_text(pvalue, pvalue <= 1.0000001 / (1 + draws))


def check_groups(groups: Any, n: int, least: int = 3, y_true: Any = None, overlap: Any = 1) -> Groups | None:
    """Cluster numbers 0..G−1 per row and G; at least three clusters, so that one can be left out.

    With `overlap` above 1 rows are in time order, and clusters are blocks of them.
    """
    blocks = time_blocks(n, overlap, groups)
    if groups is None:
        return blocks
    array = np.asarray(as_array(on_cpu(groups), "groups"))
    if array.shape != (n,):
        raise ValueError(f"groups must give each of the {n} rows its cluster, got shape {array.shape}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"groups has NaN at row {int(np.argmax(np.isnan(array)))}")
    values, group = np.unique(array, return_inverse=True)
    if len(values) < least:
        raise ValueError(f"groups must have at least 3 different values, got {len(values)}")
    return group.reshape(-1), len(values)


@final
class TimeBlocks(tuple[Array, int]):
    """Blocks of consecutive rows as clusters, where the outcomes of `overlap` consecutive rows overlap.

    Pairs of rows closer than `overlap` depend on each other, whether in one block or in two.
    """

    time: Array
    overlap: int

    @staticmethod
    def of(time: Array, block: Array, overlap: int) -> TimeBlocks:
        """Blocks numbered from 0, and the place in time of each row."""
        number = np.unique(block, return_inverse=True)[1].reshape(-1)
        found = TimeBlocks((number, int(number.max()) + 1))
        found.time, found.overlap = time, overlap
        return found

    def take(self, rows: Array) -> TimeBlocks:
        """Some of the rows, with their places in time."""
        return TimeBlocks.of(self.time[rows], self[0][rows], self.overlap)

    @property
    def stretch(self) -> float:
        """How far neighbouring blocks raise the variance of a sum over all of them, if the dependence of outcomes falls
        in a line to 0 at `overlap` rows."""
        return 1 / (1 - min(self.overlap * self[1] / (3 * len(self.time)), 0.5))

    def near(self, cell: Array, *values: Array) -> list[Array]:
        """Per row, the sum of values over rows of its cell that are closer than `overlap`, itself included."""
        order = np.lexsort((self.time, cell))
        far = int(self.time.max()) + 2 * self.overlap
        place = cell[order].astype(np.int64) * far + self.time[order]
        first = np.searchsorted(place, place - self.overlap + 1)
        last = np.searchsorted(place, place + self.overlap)
        found = []
        for value in values:
            sums = np.append(0.0, np.cumsum(value[order]))
            out = np.empty(len(order))
            out[order] = sums[last] - sums[first]
            found.append(out)
        return found


def pairs_left_out(sample: Sample, clusters: Groups | None) -> Sides | None:
    """The pairs of rows that depend on each other, which the score leaves out; None where rows are independent."""
    if clusters is None:
        return None
    if isinstance(clusters, TimeBlocks):
        return of_near_rows(sample, clusters.time, clusters.overlap)
    return of_clusters(sample, clusters)


def time_blocks(n: int, overlap: Any, groups: Any = None) -> TimeBlocks | None:
    """Blocks of two to three times `overlap` rows, in time order; None where outcomes do not overlap."""
    if check_positive_int(overlap, "overlap") == 1:
        return None
    if groups is not None:
        raise ValueError("pass groups or overlap, not both: overlap makes groups of consecutive rows")
    time = np.arange(n)
    size = int(np.clip(n // _BLOCKS_IN_TIME, 2 * overlap, 3 * overlap))
    return TimeBlocks.of(time, np.minimum(time // size, max(0, n // size - 1)), int(overlap))


def clusters_word(clusters: Groups) -> str:
    """The noun for clusters of rows: "blocks" of time or "groups"."""
    return "blocks" if isinstance(clusters, TimeBlocks) else "groups"


def take_clusters(clusters: Groups | None, rows: Array) -> Groups | None:
    """The clusters of some rows."""
    if clusters is None or isinstance(clusters, TimeBlocks):
        return None if clusters is None else clusters.take(rows)
    number = np.unique(clusters[0][rows], return_inverse=True)[1].reshape(-1)
    return number, int(number.max()) + 1


def per_unit(values: Array, groups: Groups | None) -> Array:
    """Values of rows as they are, or summed within clusters."""
    return values if groups is None else np.bincount(groups[0], weights=values, minlength=groups[1])


def effective_number(weights: Array) -> float:
    """Kish's effective number of units, (Σw)²/Σw²."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def shown_bins(error: CalibrationError) -> int | tuple[int, ...] | None:
    """The bin counts of an error: a number, a tuple where several were asked for, None where the rule has none."""
    counts = error.counts
    # one count or a tuple, as asked for
    return counts if error.binning.several else counts[0]  # type: ignore[return-value]
