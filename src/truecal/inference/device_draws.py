"""Draw outcomes on a GPU and compute U of the draws there, many at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.sample import Sample
from ..core.types import Array
from ..sums.errors import CalibrationError
from ..sums.torch.bins import Cut, search_rows, steps_of, tie_variance
from ..sums.torch.tensors import like, views_of

_NUMBERS = 1 << 24  # held at once per array of a block of draws


@dataclass(frozen=True, eq=False)
class QuantileDraws:
    """Quantile bins of 0/1 outcomes or class labels without weights, frozen at the predictions.

    With L the report before a cut at place c, and its block from `first` to `last`, a row with outcome 1 lies before
    the cut if its report is below L, and with chance (c − first)/(last − first) if it equals L. So a draw costs a
    search and a count for each row, whatever the number of classes.
    """

    reports: Tensor
    value: Tensor
    """(views, cuts): the report before each cut."""
    total: Tensor
    """(views, cuts): the sum of all reports before it."""
    cut: Cut
    places: tuple[Tensor, ...]
    """For each bin count, its cuts among all."""
    together: bool

    @staticmethod
    def of(error: CalibrationError, sample: Sample) -> QuantileDraws | None:
        """None for what has no such form: weights, vectors, other rules, ties in the order of rows."""
        reports: Any = sample.reports
        rule, ties = error.binning, error.ties
        if not rule.open or sample.joint or ties == "row" or sample.marks is None or sample.weights is not None:
            return None
        every = [np.append(cuts, sample.rows) for cuts in rule.shared_cuts(sample.rows) or ()]
        union = np.unique(np.concatenate(every))
        ordered = views_of(sample, slice(0, sample.views)).contiguous().sort(dim=1).values
        end = like(union, reports)[None]
        value = ordered[:, end[0] - 1]
        total = ordered.cumsum(1, dtype=torch.float64)[:, end[0] - 1]
        cut = Cut(end, torch.searchsorted(ordered, value), torch.searchsorted(ordered, value, right=True))
        together = ties == "together"
        if together:
            total, cut = total + (cut.last - end) * value.double(), Cut.plain(cut.last)
        places = tuple(like(np.searchsorted(union, ends), reports) for ends in every)
        return QuantileDraws(reports, value, total, cut, places, together)

    @property
    def per_draw(self) -> int:
        """Numbers that one draw needs."""
        return self.value.numel() + len(self.reports)

    def statistic(self, drawn: Tensor) -> Tensor:
        """(draws, counts): U of class labels or 0/1 outcomes (draws, n)."""
        views, n = len(self.value), len(self.reports)
        below, upto, own = self._counted(drawn)
        marked = upto - below
        hits = upto if self.together else below + marked * self.cut.share
        columns = []
        for index in self.places:
            sums = steps_of((self.total - hits)[..., index])
            squared = sums.square().sum((1, 2))
            if not self.together:
                end, first, last = (x[:, index] for x in (self.cut.end, self.cut.first, self.cut.last))
                blocks = marked[..., index]
                squared = squared + tie_variance(end, first, last, blocks, blocks).sum((1, 2))
            columns.append((squared - own) / (views * n))
        return torch.stack(columns, 1)

    def _counted(self, drawn: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Per draw, view and cut, how many outcomes of 1 have a report below, and at most, the value there; and per
        draw Σ |r|²."""
        draws, (views, cuts) = len(drawn), self.value.shape
        if self.reports.ndim == 1:
            row, weight = torch.zeros_like(drawn, dtype=torch.int64), drawn.double()
            value = self.reports.expand_as(drawn)
        else:
            row, weight = drawn, torch.ones_like(drawn, dtype=torch.float64)
            value = self.reports.gather(1, drawn.T).T
        wide = value.double()
        own = self.reports.double().square().sum() + (weight * (1 - 2 * wide)).sum(1)
        at_most, below = search_rows(self.value, row.reshape(-1), value.reshape(-1))
        draw = torch.arange(draws, device=drawn.device)[:, None].expand_as(drawn).reshape(-1)
        base = (draw * views + row.reshape(-1)) * (cuts + 1)
        counts = torch.zeros(2, draws * views * (cuts + 1), dtype=torch.float64, device=drawn.device)
        counts[0].index_add_(0, base + below, weight.reshape(-1))
        counts[1].index_add_(0, base + at_most, weight.reshape(-1))
        found = counts.view(2, draws, views, cuts + 1)[..., :-1].cumsum(-1)
        return found[0], found[1], own


def drawer(reports: Tensor, rng: np.random.Generator) -> Callable[[int], Tensor]:
    """A function that draws so many rows of outcomes as if the predictions were right: class labels, or whether the one
    outcome came."""
    generator = torch.Generator(reports.device).manual_seed(int(rng.integers(1 << 62)))
    cdf = None
    if reports.ndim == 2:
        cdf = reports.cumsum(1, dtype=torch.float64)
        cdf /= cdf[:, -1:].clone()

    def draw(size: int) -> Tensor:
        shape = (size, len(reports))
        uniform = torch.rand(shape, dtype=torch.float64, device=reports.device, generator=generator)
        if cdf is None:
            return uniform < reports.double()
        found = torch.searchsorted(cdf, uniform.T.contiguous(), right=True)
        return found.clamp(max=reports.shape[1] - 1).T

    return draw


def simulate(error: CalibrationError, sample: Sample, draws: int, seed: int) -> tuple[Array, Array] | None:
    """U of the observed outcomes, (counts,), and of the draws, (draws, counts), by one code path; None where the draws
    have to be made on the CPU."""
    frozen = QuantileDraws.of(error, sample)
    if frozen is None:
        return None
    observed: Any = sample.marks
    first = frozen.statistic(observed[None])[0]
    step = max(1, _NUMBERS // frozen.per_draw)
    draw = drawer(frozen.reports, np.random.default_rng(seed))
    rest = [frozen.statistic(draw(min(step, draws - start))) for start in range(0, draws, step)]
    return first.cpu().numpy(), torch.cat(rest).cpu().numpy()
