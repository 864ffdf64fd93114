"""Conclusions that can be wrong, in worlds where the right one is known: how often each is drawn.

Every function takes the number of samples and gives shares; tests use few samples, `benchmarks/conclusions.py` many.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.signal import lfilter
from scipy.special import expit, logit, ndtr, ndtri, softmax
from sklearn.base import clone

import truecal as tc
from truecal.evidence.loss_rows import loss_values_of
from truecal.inference.gaps import agreeing
from truecal.inference.mean_losses import mean_interval
from truecal.kinds.inputs import read_inputs
from truecal.recalibration.guard import judge, unseen

Array = np.ndarray[Any, np.dtype[Any]]
Rng = np.random.Generator
ALPHA = 0.05


# -- directions -------------------------------------------------------------------------------------------------------


def directions(t: float, n: int, samples: int, shift: float = 0.0) -> tuple[float, float]:
    """Shares in which predictions are called too high or too low, and over- or under-confident.

    Logits N(0, 1.5²) times t, plus shift; with shift 0 predictions are right on average.
    """
    rng = np.random.default_rng([n, round(10 * t)])
    level = spread = 0
    for _ in range(samples):
        z = rng.normal(0, 1.5, n)
        y = (rng.random(n) < expit(z)).astype(int)
        word = tc.analysis.mean_gap(y, expit(t * z + shift), error="binary").word
        level += "too " in word
        spread += "confident" in word
    return level / samples, spread / samples


# -- test and interval ------------------------------------------------------------------------------------------------

AGREEMENT = ("T1", "T2", "T1.4", "T0.7", "shift", "wiggle", "rows off by 25 points", "rare", "rare, shifted")


def gaps_world(name: str, n: int, rng: Rng) -> tuple[Array, Array]:
    """(predictions, chances)."""
    if name == "wiggle":
        q = rng.random(n)
        return np.clip(q + 0.12 * np.sin(6 * np.pi * q), 0, 1), q
    if name.startswith("rows off"):
        q = expit(rng.normal(0, 1.5, n))
        return np.clip(q + rng.choice([-0.25, 0.25], n), 0.001, 0.999), q
    if name.startswith("rare"):
        z = rng.normal(-4, 1, n)
        return expit(z + 0.7 * ("shifted" in name)), expit(z)
    z = rng.normal(0, 1.5, n)
    return expit(z + 0.4 if name == "shift" else z * float(name.removeprefix("T"))), expit(z)


def agreement(name: str, n: int, samples: int) -> tuple[Array, Array]:
    """Rejected with 0 inside the interval, not rejected with 0 outside, lower end at most the rms gap of the bins, and
    mean lower end in points: of the interval alone, and of the interval that agrees with the test."""
    rng = np.random.default_rng([n, 5])
    found = np.zeros((2, 4))
    for seed in range(samples):
        u, q = gaps_world(name, n, rng)
        y = (rng.random(n) < q).astype(int)
        alone, test = tc.gap(y, u), tc.calibration_test(y, u, n_resamples=199, seed=seed)
        rejected = test.pvalue <= ALPHA
        cells = np.array_split(np.argsort(u, kind="stable"), alone.n_bins or 1)
        true = 100 * np.sqrt(sum((u[cell] - q[cell]).sum() ** 2 / len(cell) for cell in cells) / n)
        for place, gap in enumerate((alone, agreeing(alone, rejected, test.low_gap))):
            inside = gap.low <= 0
            holds = bool(gap.note) or gap.low <= true + 1e-9
            found[place] += rejected and inside, not rejected and not inside, holds, max(gap.low, 0.0)
    return found[0] / samples, found[1] / samples


IN_TIME = ("sum of shocks", "persistent level")
"""Forecasts h rows ahead: is a signal plus the next h shocks, or an autoregressive level after h rows, positive?"""


def forecasts_in_time(name: str, h: int, n: int, t: float, rng: Rng) -> tuple[Array, Array]:
    """Outcomes and predictions whose logits are multiplied by t, one row per step."""
    shocks = rng.normal(size=n + h)
    if name == "sum of shocks":
        total = np.append(0.0, np.cumsum(shocks))
        q = expit(rng.normal(0, 1.5, n))
        y = ndtri(q) + (total[h : h + n] - total[:n]) / np.sqrt(h) > 0
    else:
        keep = 0.5 ** (1 / h)
        level = lfilter([np.sqrt(1 - keep**2)], [1.0, -keep], shocks)
        q, y = ndtr(keep**h * level[:n] / np.sqrt(1 - keep ** (2 * h))), level[h:] > 0
    return y.astype(int), expit(t * logit(np.clip(q, 1e-9, 1 - 1e-9)))


def in_time(name: str, h: int, n: int, t: float, samples: int) -> Array:
    """Shares rejected by the test of independent rows, and of rows in time; and in which the interval of the gap of
    the bins holds it, of independent rows and of rows in time (calibrated predictions: t = 1)."""
    rng = np.random.default_rng([h, n, 17])
    found = np.zeros(4)
    for seed in range(samples):
        y, u = forecasts_in_time(name, h, n, t, rng)
        for place, overlap in enumerate((1, h)):
            found[place] += tc.calibration_test(y, u, overlap=overlap, n_resamples=199, seed=seed).pvalue <= ALPHA
            gap = tc.gap(y, u, overlap=overlap)
            found[2 + place] += bool(gap.note) or gap.low <= 0
    return found / samples


def tolerance(t: float, n: int, samples: int, most: float = 3.0) -> tuple[float, float, float]:
    """Shares in which logits multiplied by t pass, fail and are undecided at a tolerance in points."""
    rng = np.random.default_rng([n, 9])
    answers = []
    for seed in range(samples):
        z = rng.normal(0, 1.5, n)
        y = (rng.random(n) < expit(z)).astype(int)
        answers.append(tc.calibration_test(y, expit(t * z), n_resamples=99, seed=seed, max_gap=most).verdict)
    return tuple(answers.count(answer) / samples for answer in ("yes", "no", "undecided"))  # type: ignore[return-value]


# -- subgroups --------------------------------------------------------------------------------------------------------


def subgroups(number: int, rows: int, samples: int) -> tuple[float, float]:
    """Shares in which some of these calibrated subgroups is called not calibrated, and is given a direction."""
    rng = np.random.default_rng(number)
    rejected = named = 0
    by = np.repeat(np.arange(number), rows)
    for seed in range(samples):
        q = expit(rng.normal(0, 1.5, number * rows))
        y = (rng.random(len(q)) < q).astype(int)
        found = tc.evaluate(y, q, by=by, errors=["binary"], seed=seed)
        parts = found.subgroups.values()
        rejected += any(part.verdict.standings[part.name].answer == "no" for part in parts)
        named += any(part.direction.word != "no clear direction" for part in parts)
    return rejected / samples, named / samples


# -- cross-validation -------------------------------------------------------------------------------------------------


def base_rates(folds: int, n: int, samples: int) -> tuple[float, float]:
    """Shares in which cross-validated base rates are called not calibrated, and have a gap above 0."""
    from sklearn.dummy import DummyClassifier
    from sklearn.model_selection import KFold

    from truecal.adapters.sklearn import cross_evaluate

    rng = np.random.default_rng([folds, n])
    rejected = off = 0
    for seed in range(samples):
        y = (rng.random(n) < 0.3).astype(int)
        cv = KFold(folds, shuffle=True, random_state=seed)
        found = cross_evaluate(DummyClassifier(), np.zeros((n, 1)), y, cv=cv, errors=["binary"], seed=seed)
        rejected += found.verdict.standings[found.name].answer == "no"
        off += found.gap is not None and not found.gap.note and found.gap.low > 0
    return rejected / samples, off / samples


# -- cross-entropy ----------------------------------------------------------------------------------------------------

CROSS_ENTROPY: dict[str, Callable[[int, Rng], tuple[Array, Array]]] = {
    "calibrated": lambda n, rng: (lambda q: (q, q))(expit(rng.normal(0, 1.5, n))),
    "calibrated, nearly always right": lambda n, rng: (lambda q: (q, q))(expit(rng.normal(6, 2, n))),
    "nine rows in ten too sure": lambda n, rng: (
        lambda sure: (
            np.where(sure, expit(rng.normal(12, 1, n)), 0.7),
            np.where(sure, 0.99, 0.7),
        )
    )(rng.random(n) < 0.9),
}
"""(predictions, chances)."""


def cross_entropy(world: str, n: int, samples: int) -> tuple[float, float]:
    """The share of 95% intervals that hold the expected cross-entropy, of those given, and their mean width."""
    rng = np.random.default_rng([n, 7])
    held, widths = [], []
    for _ in range(samples):
        u, q = CROSS_ENTROPY[world](n, rng)
        u = np.clip(u, 1e-12, 1 - 1e-12)
        losses = dict(loss_values_of(read_inputs((rng.random(n) < q).astype(int), u)))["cross_entropy"]
        found = mean_interval(losses, None, None, 0.95)
        if np.isfinite(found.se):
            expected = -np.mean(q * np.log(u) + (1 - q) * np.log1p(-u))
            held.append(found.low <= expected <= found.high)
            widths.append(found.high - found.low)
    return float(np.mean(held)), float(np.mean(widths))


# -- the choice of a map ----------------------------------------------------------------------------------------------

MISCALIBRATED: dict[str, Callable[[Array], Array]] = {
    "calibrated": lambda z: z,
    "temperature 1.5": lambda z: 1.5 * z,
    "classes shifted": lambda z: z + np.linspace(-0.6, 0.6, z.shape[1]),
    "both": lambda z: 1.5 * z + np.linspace(-0.4, 0.4, z.shape[1]),
    "bent": lambda z: np.sign(z) * np.abs(z) ** 1.4,
}
"""What a model does to the logits of the chances."""


def _chances(n: int, k: int, rng: Rng) -> Array:
    z = rng.normal(0, 1.5, (n, k))
    z[np.arange(n), rng.integers(0, k, n)] += 2.5
    return z


def _labels(z: Array, rng: Rng) -> Array:
    return np.asarray((z + rng.gumbel(size=z.shape)).argmax(axis=1))


def regret(world: str, n: int, k: int, samples: int) -> tuple[float, float]:
    """Expected Brier score less that of the best map, of the map chosen by `select_recalibration` and of the one with
    the least n·error at 15 bins."""
    rng = np.random.default_rng([n, k])
    change, regrets = MISCALIBRATED[world], []
    for _ in range(samples):
        fit, select, test = (_chances(rows, k, rng) for rows in (n, n, 4000))
        y = _labels(fit, rng), _labels(select, rng)
        maps = {
            "none": tc.recalibration.Identity(),
            "temperature": tc.TemperatureScaling(),
            "vector": tc.recalibration.VectorScaling(),
            "isotonic": tc.recalibration.IsotonicOneVsRest(),
            "histogram": tc.recalibration.HistogramBinning(),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen = tc.select_recalibration(maps, change(fit), y[0], change(select), y[1])
            fitted = {name: each.fit(change(fit), y[0]) for name, each in maps.items()}
        q = softmax(test, axis=1)
        expected = {
            name: float(np.square(each.predict_proba(change(test)) - q).sum(axis=1).mean())
            for name, each in fitted.items()
        }
        raw = {
            name: tc.classwise_error(y[1], each.predict_proba(change(select)), n_bins=15)
            for name, each in fitted.items()
        }
        best, other = min(expected.values()), expected[min(raw, key=raw.__getitem__)]
        regrets.append((expected[chosen.name] - best, other - best))
    return tuple(np.mean(regrets, axis=0).tolist())


MAPS = {
    name: found()
    for name in tc.recalibration.__all__
    if hasattr(found := getattr(tc.recalibration, name), "from_probabilities") and name != "Identity"
}


def harm(map_: Any, n: int, t: float, samples: int) -> Array:
    """How often a map, fitted to n rows of three classes, worsens the expected log loss, and its mean gain in Brier
    score × 1000; then both with the guard. Reports have t times the true logits; log losses take probabilities below
    1e-6 as 1e-6."""
    rng = np.random.default_rng([n, 18])
    found = np.empty((samples, 4))
    for row in found:
        fit, test = (2 * rng.normal(size=(rows, 3)) for rows in (n, 4000))
        y, q, before = _labels(fit, rng), softmax(test, axis=1), softmax(t * test, axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept = judge("map", y, softmax(t * fit, axis=1), unseen(map_, t * fit, y)).keeps
            after = np.asarray(clone(map_).fit(t * fit, y).predict_proba(t * test))
        worse = (q * np.log(before.clip(1e-6) / after.clip(1e-6))).sum(axis=1).mean() > 0
        gain = 1000 * (np.square(before - q) - np.square(after - q)).sum(axis=1).mean()
        row[:] = worse, gain, worse and kept, gain * kept
    return np.asarray(found.mean(axis=0))


# -- the order of two models at every number of bins ------------------------------------------------------------------

PAIRS: dict[
    str, tuple[float, float, float]
] = {  # temperature of the first; share seen by, and temperature of, the second
    "both calibrated, much less seen": (1.0, 0.5, 1.0),
    "both calibrated, little less seen": (1.0, 0.95, 1.0),
    "first slightly sharp": (1.15, 0.5, 1.0),
    "first sharp": (1.6, 0.8, 1.0),
    "both sharp": (2.0, 0.9, 2.0),
}


def same_order(world: str, n: int, samples: int, bins: tuple[int, ...] = (5, 20, 200)) -> Array:
    """Shares of numbers of bins whose interval holds ρ, and at which the theorem is said to apply, and not to; and of
    wrong answers among all. ρ and the margin are computed from the true probabilities of the rows."""
    rng = np.random.default_rng([list(PAIRS).index(world), n, 1])
    first, seen, second = PAIRS[world]
    found = np.zeros(4)
    for _ in range(samples):
        known = rng.normal(0, 1.5, n)
        hidden = rng.normal(0, 1.5, n)
        q = ndtr((known * np.sqrt(seen) + hidden * np.sqrt(1 - seen)) * 1.2)  # all is seen by the first
        less = ndtr(known * np.sqrt(seen) * 1.2 / np.sqrt(1 + 1.2**2 * 1.5**2 * (1 - seen)))  # E[q | known]
        truth = {"first": q, "second": less}
        reports = {"first": expit(first * logit(q)), "second": expit(second * logit(less))}
        y = (rng.random(n) < q).astype(int)
        result = tc.analysis.same_order(y, *reports.values(), n_bins=bins, names=("first", "second"))
        best, other = (truth[name] for name in (result.better, result.worse))
        gap = np.mean(other * (1 - other)) - np.mean(best * (1 - best))
        order = np.argsort(reports[result.better], kind="stable")
        residual = (reports[result.better] - best)[order]
        for at in result.at:
            cell = ((np.arange(n) + 1) * (at.n_bins or 1) - 1) // n
            rho = np.square(np.bincount(cell, residual)).sum() / n
            applies, fails = at.condition == "applies", at.condition == "does not apply"
            wrong = (applies and rho > gap) or (fails and rho <= gap)
            found += np.array([at.rho.low <= rho <= at.rho.high, applies, fails, wrong]) / len(bins)
    return found / samples


# -- the test ---------------------------------------------------------------------------------------------------------

POWER: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "calibrated": ("uniform", lambda u: u),
    "wiggle .12·sin(6πu)": ("uniform", lambda u: np.clip(u + 0.12 * np.sin(6 * np.pi * u), 0, 1)),
    "wiggle .15·sin(10πu)": ("uniform", lambda u: np.clip(u + 0.15 * np.sin(10 * np.pi * u), 0, 1)),
    "shift of the logits by .31": ("arcsine", lambda u: expit(logit(u) + 0.31)),
    "temperature 1.35": ("arcsine", lambda u: expit(logit(u) / 1.35)),
    "S-curve": ("arcsine", lambda u: np.clip(u + 0.0925 * np.sin(2 * np.pi * u), 0, 1)),
}
"""Chances as a function of predictions, uniform or Beta(½, ½)."""


def power(world: str, n: int, samples: int, draws: int = 199) -> tuple[float, float]:
    """Shares rejected at level .05: by the test, and by Hosmer and Lemeshow's with ten bins."""
    from scipy.stats import chi2

    kind, chances = POWER[world]
    rng = np.random.default_rng([n, 11])
    both = np.zeros(2)
    for seed in range(samples):
        u = rng.random(n) if kind == "uniform" else rng.beta(0.5, 0.5, n)
        y = (rng.random(n) < chances(u)).astype(int)
        parts = np.array_split(np.argsort(u), 10)
        squares = sum((u[b] - y[b]).sum() ** 2 / (u[b] * (1 - u[b])).sum() for b in parts)
        test = tc.calibration_test(y, u, n_resamples=draws, seed=seed)
        both += test.pvalue <= ALPHA, chi2.sf(squares, 10) <= ALPHA
    return tuple((both / samples).tolist())


# -- the order of models ----------------------------------------------------------------------------------------------


def flips(n: int, samples: int, k: int = 3, models: int = 8) -> tuple[float, float]:
    """Shares of pairs of models that change places between 5, 20 and 2000 bins (at most 2n/5): by ECE, by n·error."""
    rng = np.random.default_rng([n, k])
    counts = tuple(sorted({min(m, 2 * n // 5) for m in (5, 20, 2000)}))
    turned = np.zeros(2)
    for _ in range(samples):
        z = _chances(n, k, rng)
        y = _labels(z, rng)
        found = []
        for _ in range(models):
            noise, t = rng.uniform(0.3, 0.7), np.exp(rng.uniform(-0.3, 0.3))
            p = softmax(t * (z + noise * rng.normal(size=z.shape)), axis=1)
            usual = tc.confidence_error(y, p, norm="l1", n_bins=counts)
            found.append((usual, tc.classwise_error(y, p, n_bins=counts)))
        for place in range(2):
            values = np.array([each[place] for each in found]).T
            above = values[:, :, None] > values[:, None, :]
            turned[place] += np.triu(above.any(axis=0) & (~above).any(axis=0), 1).sum()
    return tuple((turned / (samples * models * (models - 1) / 2)).tolist())


def classwise_gaps(n: int = 20_000, k: int = 100) -> list[float]:
    """The classwise gap of an over-confident model at 5, 20 and 100 bins, in points."""
    rng = np.random.default_rng(0)
    z = 1.5 * rng.normal(size=(n, k))
    return np.asarray(tc.decompose(_labels(z, rng), softmax(1.5 * z, axis=1), n_bins=(5, 20, 100)).gap).tolist()


# -- how many rows ----------------------------------------------------------------------------------------------------

SHAPES = ("level", "alternating bins", "one bad bin")
"""How predictions around 1/2 are off by so many points on the root-mean-square: of the first "level", else "any"."""


def planned_power(shape: str, gap: float, samples: int, classes: int = 2) -> tuple[int, float]:
    """`rows_needed` with power .8, and the share of samples that the test rejects with so many rows."""
    n = tc.rows_needed(gap, shape="level" if shape == "level" else "any")
    rng = np.random.default_rng([round(gap), 23])
    bins = round(n**0.4)
    off = np.full(n, gap / 100)
    where = (np.arange(n) + 1) * bins // (n + 1)
    if shape == "alternating bins":
        off = np.where(where % 2, off, -off)
    elif shape == "one bad bin":
        off = np.where(where == bins // 2, gap / 100 * np.sqrt(n / (where == bins // 2).sum()), 0.0)
    rejected = 0
    for seed in range(samples):
        u = np.sort(rng.uniform(0.4, 0.6, n))
        y = (rng.random(n) < np.clip(u - off, 0, 1)).astype(int)
        rejected += tc.calibration_test(y, u, n_resamples=199, seed=seed).pvalue <= ALPHA
    return n, rejected / samples
