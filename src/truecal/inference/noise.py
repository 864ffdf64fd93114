"""noise_of_U: how far U strays from 0 if the predictor is calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..core.errors import CalibrationError
from ..core.result import Result
from ..core.rules import BinCounts
from .frozen import Frozen
from .null import Sampler, World, calibrated_world, closed_form_sd, simulate
from .options import bins_text, check_draws, read_error, shown_bins

Array = NDArray[Any]


@final
@dataclass(frozen=True, repr=False, eq=False)
class Noise(Result):
    """The sd of U under calibration at the chosen bin count(s), the loss expected under calibration, and their ratio.

    `relative` is how much of n·error is noise that says nothing about calibration. At a fixed number of bins it does
    not shrink with n; more bins shrink it.
    """

    sd: float | Array
    loss: float
    relative: float | Array
    n_bins: int | tuple[int, ...] | None
    method: str
    n_samples: int
    name: str

    def __repr__(self) -> str:
        bins = self.n_bins if isinstance(self.n_bins, tuple) else (self.n_bins,)
        lines = [f"Noise of U under calibration, {self.name}, {self.n_samples} samples ({self.method})"]
        for m, sd, share in zip(bins, np.atleast_1d(self.sd), np.atleast_1d(self.relative), strict=True):
            where = "" if m is None else f"{bins_text(m)}: "
            lines.append(f"  {where}sd {sd:.4g}, {share:.1%} of the loss {self.loss:.4g}")
        return "\n".join(lines)


def noise_of_U(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "classwise",
    n_bins: BinCounts | None = None,
    sample_weight: Any = None,
    labels: Any = None,
    sampler: Sampler | None = None,
    resamples: int = 999,
    seed: int = 0,
) -> Noise:
    """How far U strays from 0 if the predictor is calibrated: Var U = 2 n⁻² Σ_{i≠j} G_ij² s_i s_j, s_i = u_i(1 − u_i).

    Exact for scalar reports; for several views (classwise, full) the sd of `resamples` draws. `loss` is the mean loss
    that a calibrated predictor with these reports expects, and `relative` = sd/loss. Labels are not used.

    >>> import truecal as tc
    >>> noise = tc.noise_of_U([0, 1, 0, 1], [.5, .5, .5, .5], error="binary", n_bins=1)
    >>> round(noise.sd, 6), noise.loss
    (0.306186, 0.25)
    """
    draws, seed = check_draws(resamples, seed)
    metric = read_error(error, n_bins)
    if metric.norm == "l1":
        raise ValueError("noise_of_U is about U, which norm='l1' errors do not have; use null_band for them")
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels).on_host()
    frozen = Frozen.of(metric, sample)
    world = calibrated_world(frozen, sampler)
    exact = closed_form_sd(world)
    method = "exact"
    if exact is None:
        exact = np.sqrt(np.square(simulate(world, draws, seed).drawn).mean(axis=0))
        method = f"{draws} resamples"
    loss = _expected_loss(world, draws, seed)
    several = metric.binning.several
    sd = exact if several else float(exact[0])
    relative = exact / loss if loss > 0 else np.zeros_like(exact)
    return Noise(
        sd,
        loss,
        relative if several else float(relative[0]),
        shown_bins(frozen.error),
        method,
        sample.rows,
        metric.symbol,
    )


def _expected_loss(world: World, resamples: int, seed: int) -> float:
    """The mean associated loss under calibration, weighted by w² as the loss part is."""
    sample, metric = world.sample, world.error
    w = np.ones(sample.rows) if sample.weights is None else np.square(sample.weights)
    if world.variance is not None:
        per_row = world.variance
        if metric.corrected:
            per_row = per_row + 1 - sample.reports.astype(np.float64)
    elif world.indices:
        squares = np.einsum("ij,ij->i", sample.reports, sample.reports, dtype=np.float64)
        per_row = (1 - squares) / (1 if sample.joint else sample.views)
    else:  # drawn outcomes of unknown law: the mean over draws
        rng = np.random.default_rng(seed)
        reports = sample.reports.astype(np.float64)
        total = np.zeros(sample.rows)
        for _ in range(resamples):
            total += np.square(reports - world.draw(rng, 1)[0]).reshape(sample.rows, -1).sum(axis=1)
        per_row = total / resamples
    return float(w @ per_row / w.sum())
