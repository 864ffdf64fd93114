"""threshold: which predictions may be acted on, with a guarantee; and how well the confidence tells right from wrong.

Thresholds come from the confidences alone and are tested from strict to loose: "the error among accepted rows is at
least the risk". Errors among the first rows are a random walk, and a test rejects where the walk is at or below its
bound. Bounds are as high as they can be so that, if every row errs with probability `risk`, at most a given part of
delta is spent up to each test: the exact probability that the walk is at or below the bound of some test, in which what
tests of nested rows share counts once. A test that rejects costs nothing (step-down, Romano and Wolf 2005), so that
bounds of later tests rise. Chances of errors that differ make a test conservative (Hoeffding 1956), and so do errors
that come earlier. That the probability of accepting a threshold with a larger error is at most delta has no proof for
all patterns of chances; enumerations of all outcomes of up to 13 rows found none above it, in 200 plans of tests.

Half of delta is spent at the test of the largest expected coverage if errors are what the confidences say, and half in
proportion to the square root of coverage. Clusters count with Kish's effective size: the rows of a cluster are supposed
to go together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import bdtr, bdtrik, betaincinv, expit, logit, ndtri

from ..core.data import shown
from ..core.parameters import described
from ..core.result import Pictured
from ..core.tables import Head, Table, Tabular
from ..core.types import Array, Groups
from ..kinds.inputs import Inputs, read_inputs
from .checks import check_groups, check_level

STEPS = 60
"""Thresholds between the strictest and the loosest."""
FIRST_ERRORS = 2
"""The first test can reject with so many errors."""
PLANNED = 0.5
"""So much of delta is spent at the test of the largest expected coverage."""
POWER = 0.8
_MOST_ROWS = 10**9
_LEFT_OUT = 1e-13  # of the distribution of a walk at either end
FEW_ERRORS = 10
"""With fewer errors, or fewer rows that are right, no interval of a curve's area is given."""
COVERAGES = (0.5, 0.8, 0.9)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Threshold(Tabular, Pictured):
    """The largest coverage whose selective error is at most `risk` with probability 1 − `delta`.

    Accept rows whose confidence is at least `threshold`: of these samples that is `coverage`, `observed` of them were
    wrong, and `bound` is the upper end of their error. `expected` is the error that the model's own confidence
    implies for them, 1 − mean confidence. `own_coverage` is what it would accept by its own confidence, and
    `own_observed` the error there. The curve has one entry per threshold in `thresholds`, `coverages`, `risks`,
    `bounds` and `expectations`. If no threshold keeps the risk, `threshold` is None and `coverage` 0.
    """

    threshold: float | None
    coverage: float
    risk: float
    delta: float
    accepted: int
    n_samples: int
    observed: float | None
    bound: float | None
    expected: float | None
    own_threshold: float | None
    own_coverage: float
    own_observed: float | None
    rows_needed: int | None
    """If no threshold keeps the risk: how many labelled rows like these name one with a probability of 80% if errors
    are what the confidences say; None where even the surest rows are expected to have more errors."""
    thresholds: Array
    coverages: Array
    risks: Array
    bounds: Array
    expectations: Array
    notes: tuple[str, ...] = ()
    derived = ("sentence",)

    @property
    def sentence(self) -> str:
        """What may be accepted, in a sentence."""
        sure = f"with probability {1 - self.delta:.4g}"
        if self.threshold is None:
            most = f"at or below {self.risk:.4g} {sure}"
            none = f"No threshold is guaranteed to keep the error rate {most}"
            if self.rows_needed is None:
                return f"{none}: the confidences themselves expect more errors among the surest rows; accept nothing."
            return (
                f"{none}: collect about {self.rows_needed:,} labelled rows, which name one with a chance of "
                f"{POWER:.0%} if errors are what the confidences say, or accept nothing."
            )
        return (
            f"Accept rows with confidence at least {self.threshold:.4g} ({self.coverage:.1%} of rows): {sure} their "
            f"error rate is at most {self.risk:.4g} (observed {self.observed:.4f}, upper bound {self.bound:.4f})."
        )

    @property
    def own_sentence(self) -> str:
        """What the model's own confidence would accept, and what that costs."""
        if self.own_threshold is None:
            return f"Going by the confidences alone, no rows would be accepted at an error rate of {self.risk:.4g}."
        return (
            f"Going by the confidences alone, {self.own_coverage:.1%} of rows would be accepted (confidence at least "
            f"{self.own_threshold:.4g}); in fact {self.own_observed:.1%} of them are wrong."
        )

    headline = sentence

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the model's own confidence would accept."""
        return (self.own_sentence,)

    def rows(self) -> list[dict[str, Any]]:
        """The curve: one row per threshold, strictest first."""
        names = ("threshold", "coverage", "risk", "bound", "expected")
        curve = (self.thresholds, self.coverages, self.risks, self.bounds, self.expectations)
        return [dict(zip(names, map(float, row), strict=True)) for row in zip(*curve, strict=True)]

    def table(self) -> Table:
        """About ten thresholds of the curve."""
        names = ("confidence\nat least", "coverage", "observed\nerror", "bound", "expected\nby the model")
        form = "{threshold:.4f} {coverage:.1%} {risk:.4f} {bound:.4f} {expected:.4f}"
        rows = [form.format(**row).split() for row in self.rows()]
        return [*map(Head, names)], rows[:: max(1, len(rows) // 10)]


@described(
    "A Threshold.",
    risk="The largest error among accepted rows that is tolerated.",
    delta="The largest probability that the error exceeds the risk.",
)
def threshold(
    y_true: Any,
    y_proba: Any,
    *,
    risk: float = 0.05,
    delta: float = 0.05,
    labels: Any = None,
    pos_label: Any = 1,
    groups: Any = None,
) -> Threshold:
    """Which predictions may be acted on? The loosest confidence threshold whose error is at most `risk`.

    Among rows whose top class has at least that confidence, the share of wrong ones is at most `risk` with probability
    1 − `delta`, for rows drawn as these were. Thresholds are chosen without labels and tested one after the other by
    exact binomial tests. The result also has the curve of risk against coverage, with the error
    that the model's own confidence implies.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(.5, .5, 5000)
    >>> y = rng.random(5000) < 1 / (1 + (1 / p - 1) ** .6)               # the model is over-confident
    >>> found = tc.threshold(y, p, risk=.1)
    >>> found.own_observed > .1 >= found.bound, found.coverage < found.own_coverage
    (True, True)
    """
    inputs = read_inputs(y_true, y_proba, labels=labels, pos_label=pos_label)
    return threshold_of(inputs, risk, delta, check_groups(groups, inputs.n_samples, y_true=y_true))


def threshold_of(inputs: Inputs, risk: float, delta: float, groups: Groups | None = None) -> Threshold:
    """The threshold of validated predictions."""
    risk, delta = (check_share(value, name) for value, name in ((risk, "risk"), (delta, "delta")))
    if inputs.soft:
        raise ValueError("threshold needs one label per row; these are distributions over labels")
    if inputs.weights is not None:
        raise ValueError("sample_weight cannot be used: the exact binomial law is that of rows that count alike")
    top = inputs.top_label()
    wrong, confidence = ~top.y.astype(bool), top.reports.astype(np.float64)
    n, order = len(wrong), np.argsort(-confidence, kind="stable")
    ordered, errors, promise = confidence[order], np.cumsum(wrong[order]), np.cumsum(1 - confidence[order])
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), n - 1) + 1  # rows accepted at each distinct value
    accepted = np.unique(ends[np.searchsorted(ends, _sizes(n, risk, delta, groups), side="left")])
    k, count = errors[accepted - 1].astype(np.float64), accepted.astype(np.float64)
    if groups is not None:
        effective = effective_rows(groups[0][order], groups[1], accepted)
        k, count = k * effective / count, effective
    risks, expectations, coverages = errors[accepted - 1] / accepted, promise[accepted - 1] / accepted, accepted / n
    with np.errstate(all="ignore"):
        budget = _budget(_planned(expectations, count, coverages, risk, delta)[0], coverages, delta)
        passed = _passed(np.ceil(k - 1e-9), np.minimum.accumulate(np.floor(count[::-1] + 1e-9))[::-1], budget, risk)
        bounds = exact_limits(k, count, delta)[1]
    chosen = int(np.flatnonzero(passed)[-1]) if passed.any() else -1
    own = np.flatnonzero(promise[ends - 1] / ends <= risk)
    notes: tuple[str, ...] = ()
    if groups is not None:
        notes = (f"rows come in {groups[1]} clusters: bounds count {count[-1]:.0f} effective rows of {n}",)
    if len(passed) and _fewest(risk, delta, 0) > count[-1]:
        notes += (f"at least {_fewest(risk, delta, 0)} rows without an error are needed to guarantee this risk",)
    own_rows = int(ends[own[-1]]) if len(own) else 0
    return Threshold(
        threshold=float(ordered[accepted[chosen] - 1]) if chosen >= 0 else None,
        coverage=float(accepted[chosen] / n) if chosen >= 0 else 0.0,
        risk=risk,
        delta=delta,
        accepted=int(accepted[chosen]) if chosen >= 0 else 0,
        n_samples=n,
        observed=float(risks[chosen]) if chosen >= 0 else None,
        bound=float(bounds[chosen]) if chosen >= 0 else None,
        expected=float(expectations[chosen]) if chosen >= 0 else None,
        own_threshold=float(ordered[own_rows - 1]) if own_rows else None,
        own_coverage=own_rows / n,
        own_observed=float(errors[own_rows - 1] / own_rows) if own_rows else None,
        rows_needed=None if chosen >= 0 else _needed(promise[ends - 1] / ends, ends, count[-1] / n, risk, delta),
        thresholds=ordered[accepted - 1],
        coverages=coverages,
        risks=risks,
        bounds=bounds,
        expectations=expectations,
        notes=notes,
    )


def check_share(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, for example 0.05, got {shown(value)}")
    return float(value)


def exact_limits(k: Array, n: Array, alpha: float) -> tuple[Array, Array]:
    """Clopper and Pearson's limits of a rate, each at level 1 − alpha, also for sizes that are no whole numbers."""
    low = np.where(k > 0, betaincinv(k, n - k + 1, alpha), 0.0)
    return low, np.where(k >= n, 1.0, betaincinv(k + 1, np.maximum(n - k, 1e-12), 1 - alpha))


def _fewest(risk: float, delta: float, errors: int) -> int:
    """The fewest rows among which so many errors still reject a risk."""
    low, high = errors + 1, errors + 1
    while bdtr(errors, high, risk) > delta:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if bdtr(errors, middle, risk) > delta else (low, middle)
    return low


def _passed(errors: Array, sizes: Array, budget: Array, risk: float) -> Array:
    """Which tests reject, where so much of delta may be spent up to each.

    `chance` is the distribution of the errors so far, from `least` on, if every row errs with probability `risk`, of
    walks that are not at or below the bound of a test that did not reject.
    """
    passed = np.zeros(len(errors), dtype=bool)
    chance, least, spent, before = np.ones(1), 0, 0.0, 0
    tests = zip(errors.tolist(), sizes.astype(int).tolist(), budget.tolist(), strict=True)
    for j, (seen, size, most) in enumerate(tests):
        first, more = _binomial(size - before, risk)
        chance, least, before = np.convolve(chance, more), least + first, size
        below = np.cumsum(chance)
        inside = int(np.searchsorted(below, _LEFT_OUT)), 1 + int(np.searchsorted(below, below[-1] - _LEFT_OUT))
        bound = int(np.searchsorted(below, (most - spent) * (1 + 1e-12), side="right"))
        passed[j] = seen < least + bound
        start = inside[0] if passed[j] else max(bound, inside[0])
        spent += float(below[start - 1]) if start else 0.0
        chance, least = chance[start : inside[1]], least + start
    return passed


def _binomial(n: int, rate: float) -> tuple[int, Array]:
    """The distribution of the errors among n rows: the first number that it has, and the chances from there on."""
    reach = 9 * np.sqrt(n * rate * (1 - rate)) + 40
    low, high = max(0, int(n * rate - reach)), min(n, int(n * rate + reach))
    return low, np.diff(bdtr(np.arange(low, high + 1), n, rate), prepend=bdtr(low - 1, n, rate) if low else 0.0)


def _budget(planned: int, coverage: Array, delta: float) -> Array:
    """How much of delta may be spent up to each test."""
    return np.asarray(delta * (PLANNED * (np.arange(len(coverage)) >= planned) + (1 - PLANNED) * np.sqrt(coverage)))


def _planned(expected: Array, count: Array, coverage: Array, risk: float, delta: float) -> tuple[int, float]:
    """The test of the largest expected coverage if errors are what the confidences say, and its power."""
    rows, level = np.floor(count).astype(np.int64), PLANNED * delta
    most = np.floor(bdtrik(level, rows, risk) + 1e-9)
    most = np.where(bdtr(most, rows, risk) <= level, most, most - 1)
    power = np.where(most < 0, 0.0, bdtr(np.maximum(most, 0), rows, np.clip(expected, 1e-12, 1.0)))
    place = int((power * coverage).argmax())
    return place, float(power[place])


def _needed(promise: Array, ends: Array, effective: float, risk: float, delta: float) -> int | None:
    """How many rows a threshold needs for the wanted power if the confidences are right.

    `promise` are the errors that they expect among the first `ends` rows."""
    if not (promise < risk).any():
        return None
    shares = ends / ends[-1]

    def enough(rows: int) -> bool:
        sizes = _sizes(rows, risk, delta, None).astype(np.float64)
        expected = promise[np.minimum(np.searchsorted(shares, sizes / rows - 1e-12), len(shares) - 1)]
        return _planned(expected, sizes, sizes / rows, risk, delta)[1] >= POWER

    low, high = 1, 64
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST_ROWS:
            return None
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return int(np.ceil(high / effective))


def _sizes(n: int, risk: float, delta: float, groups: Groups | None) -> Array:
    """Numbers of accepted rows to test at, from strict to loose; they depend on the number of rows alone."""
    scale = 1.0 if groups is None else n / groups[1]
    first = next(
        (size for a in range(FIRST_ERRORS, -1, -1) if (size := scale * _fewest(risk, delta, a)) <= n / 5),
        min(n, scale * _fewest(risk, delta, 0)),
    )
    return np.unique(np.linspace(max(1, np.ceil(first - 1e-9)), n, STEPS).astype(np.intp))


def effective_rows(group: Array, number: int, accepted: Array) -> Array:
    """Kish's effective number of rows among the first so many, whose clusters go together."""
    found, start, size = [], 0, np.zeros(number)
    for end in accepted.tolist():
        size += np.bincount(group[start:end], minlength=number)
        start = end
        found.append(end**2 / np.square(size).sum())
    return np.array(found)


# -- how well the confidence tells right from wrong --------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Discrimination:
    """A measure of whether the confidence orders right before wrong predictions. It does not measure calibration."""

    name: str
    value: float
    low: float | None
    high: float | None
    higher_is_better: bool

    @property
    def title(self) -> str:
        """The name as people write it: AURC, accuracy at 80%."""
        return self.name.upper() if self.name.startswith("au") else self.name.replace("_", " ")


def discrimination(inputs: Inputs, level: float, groups: Groups | None = None) -> tuple[Discrimination, ...]:
    """AURC, AUGRC, AUROC of the confidence and accuracy at coverage, with intervals; equal confidences share a place.

    AURC is the mean error over coverages k/n by the trapezoid rule (Geifman and El-Yaniv 2017), AUGRC that of error
    times coverage (Traub et al. 2024), both divided by 1 − 1/n as in torch-uncertainty. Intervals come from the
    influence of each row, or cluster, on the logit scale.
    """
    check_level(level)
    n = inputs.n_samples
    if n < 2 or not inputs.kind.ranks_confidence or inputs.soft or inputs.weights is not None:
        return ()
    top = inputs.top_label()
    order = np.argsort(-top.reports, kind="stable").astype(np.int32)
    wrong, confidence = (~top.y[order].astype(bool)).astype(np.float64), top.reports[order]
    new = np.append(True, confidence[1:] != confidence[:-1])
    block = np.cumsum(new, dtype=np.int32) - 1
    clusters = None if groups is None else (groups[0][order], groups[1])
    del order, confidence, new, top  # of a million rows every array counts
    e = (np.bincount(block, wrong) / np.bincount(block))[block]  # the mean over orders of ties
    z = float(-ndtri((1 - level) / 2))
    errors = int(wrong.sum())
    sure = min(errors, n - errors) >= FEW_ERRORS and (groups is None or groups[1] >= FEW_ERRORS)
    rate = np.cumsum(e)
    at = [max(1, round(coverage * n)) for coverage in COVERAGES]
    right = [1 - float(rate[rows - 1]) / rows for rows in at]
    rate /= np.arange(1, n + 1)
    made = []
    for name, measured in (("aurc", _aurc), ("augrc", _augrc), ("auroc", _auroc)):
        if name == "auroc" and not 0 < errors < n:
            continue
        value, influence = measured(wrong, rate, block)
        ends = _interval(value, influence, clusters, z) if sure else (None, None)
        made.append(Discrimination(name, value, *ends, name == "auroc"))
    for coverage, rows, share in zip(COVERAGES, at, right, strict=True):
        effective = float(rows) if clusters is None else float(effective_rows(*clusters, np.array([rows]))[0])
        made.append(Discrimination(f"accuracy_at_{coverage:.0%}", share, *_wilson(share, effective, z), True))
    return tuple(made)


def _area(curve: Array) -> float:
    """By the trapezoid rule over coverages 1/n to 1, divided by 1 − 1/n."""
    n = len(curve)
    return float((curve.sum() - (curve[0] + curve[-1]) / 2) / n / (1 - 1 / n))


def _aurc(wrong: Array, rate: Array, block: Array) -> tuple[float, Array]:
    influence = aurc_influence(wrong, rate)
    influence -= influence.mean()
    return _area(rate), influence


def _augrc(wrong: Array, rate: Array, block: Array) -> tuple[float, Array]:
    n = len(wrong)
    share = np.arange(1, n + 1) / n
    curve = rate * share
    influence = curve + wrong * (1 + 1 / n - share)
    influence -= influence.mean()
    return _area(curve), influence


def aurc_influence(wrong: Array, rate: Array) -> Array:
    """∂/∂w_i of Σ_j w_j R_j/W with R_j = Σ_{i≤j} w_i e_i/Σ_{i≤j} w_i, at equal weights, times n."""
    found = 1.0 / np.arange(len(wrong), 0, -1)
    pull = rate[::-1] * found
    np.cumsum(found, out=found)
    np.cumsum(pull, out=pull)
    return np.asarray(rate + wrong * found[::-1] - pull[::-1])


def _auroc(wrong: Array, rate: Array, block: Array) -> tuple[float, Array]:
    """The chance that a right prediction has the larger confidence, and the influence of each row (DeLong 1988)."""
    bad = np.bincount(block, wrong)
    good = np.bincount(block) - bad
    wrong_below = bad.sum() - np.cumsum(bad) + bad / 2  # blocks go from sure to unsure
    right_above = np.cumsum(good) - good / 2
    value = float((good * wrong_below).sum() / (good.sum() * bad.sum()))
    n = len(wrong)
    own = np.where(
        wrong > 0,
        (right_above[block] / good.sum() - value) * n / bad.sum(),
        (wrong_below[block] / bad.sum() - value) * n / good.sum(),
    )
    return value, own


def _interval(value: float, influence: Array, groups: Groups | None, z: float) -> tuple[float | None, float | None]:
    """On the logit scale, so that it stays between 0 and 1."""
    n = len(influence)
    each = influence if groups is None else np.bincount(groups[0], influence, groups[1])
    se = float(np.sqrt(np.square(each).sum() * len(each) / max(1, len(each) - 1))) / n
    if not 0 < value < 1 or not np.isfinite(se):
        return None, None
    half = z * se / (value * (1 - value))
    return float(expit(logit(value) - half)), float(expit(logit(value) + half))


def _wilson(share: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a share of n rows."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))
