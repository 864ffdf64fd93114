"""The verdict in words: who predicts better, who is miscalibrated, and what ECE would have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import TYPE_CHECKING, Any

from .errors import ERRORS
from .measuring import bins_text

if TYPE_CHECKING:
    from .comparison import Flip, Ranking
    from .evaluation import Evaluation
    from .inference import CalibrationTest, Part
    from .inference.intervals import LeftOut

_SHOWN = 4  # models named in one breath; the rest are counted
_ROUNDING = 1e-12
ECE = ("confidence_l1", "top_label_l1")


@dataclass(frozen=True)
class CalibrationClaim:
    """`better` is better calibrated than `worse`: its U is smaller at this bin count, beyond noise."""

    better: str
    worse: str
    n_bins: int | None
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """Two sentences that are never one, then what ECE would have said; with the facts they are made of.

    Intervals in the sentences hold jointly: for all pairs of models, and for U at all bin counts (Bonferroni). A claim
    of better calibration also needs the calibration test to reject the worse model.
    """

    predictive: str
    calibration: str
    ece: str
    error: str
    best: tuple[str, ...]
    """The model with the smallest loss, and those that the data cannot tell from it."""
    rejected: tuple[str, ...]
    """Models whose calibration the test rejects."""
    better_calibrated: tuple[CalibrationClaim, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Predictive value, calibration, ECE."""
        return tuple(s for s in (self.predictive, self.calibration, self.ece) if s)

    def __str__(self) -> str:
        return "\n".join(self.sentences)


@dataclass(frozen=True)
class _Facts:
    """What the sentences read: evaluations, leave-one-out values of the headline error, and the level."""

    evaluations: Mapping[str, Evaluation]
    left: Mapping[str, LeftOut]
    error: str
    level: float

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.evaluations)

    @property
    def counts(self) -> tuple[int | None, ...]:
        return tuple(row.n_bins for row in self._rows(self.names[0]))

    @property
    def pairs(self) -> int:
        return len(self.names) * (len(self.names) - 1) // 2

    def _rows(self, name: str) -> Any:
        return self.evaluations[name].rows(self.error)

    def loss(self, name: str) -> float:
        return float(self._rows(name)[0].loss)

    def u(self, name: str, c: int) -> float:
        return float(self._rows(name)[c].U)

    def difference(self, a: str, b: str, c: int, what: Any) -> Part | None:
        """a − b with an interval that holds for all pairs (and bin counts) at once; None where there is no interval, or
        for U none to be trusted."""
        from .inference.intervals import paired_part, scarce

        if a not in self.left or b not in self.left:
            return None
        if what == "U" and (scarce(self.left[a], c) or scarce(self.left[b], c)):
            return None
        looks = self.pairs * (len(self.counts) if what == "U" else 1)
        return paired_part(self.left[a], self.left[b], c, what, 1 - (1 - self.level) / looks)

    def test(self, name: str) -> CalibrationTest | None:
        """The test of the headline error, or where that was too large to resample, another one."""
        tests = self.evaluations[name].tests
        return tests.get(self.error) or next(iter(tests.values()), None)

    def rejects(self, name: str) -> bool | None:
        test = self.test(name)
        return None if test is None else test.pvalue <= 1 - self.level + 1e-12


def give_verdict(
    evaluations: Mapping[str, Evaluation],
    left_out: Mapping[str, Mapping[str, LeftOut]],
    rankings: Sequence[Ranking],
    flips: Sequence[Flip],
) -> Verdict:
    """Put a comparison in words, by the headline error of its models."""
    first = next(iter(evaluations.values()))
    error = first.headline
    left = {name: found[error] for name, found in left_out.items() if error in found}
    ece = _ece_sentence(rankings, tuple(evaluations), sum(flip.error in ECE for flip in flips))
    if ERRORS[error].norm == "l1" or not ERRORS[error].truthful:
        words = "no truthful error was measured"
        return Verdict(f"Predictive value: {words}.", f"Calibration: {words}.", ece, error, (), (), ())
    facts = _Facts(evaluations, left, error, first.level)
    predictive, best = _predictive(facts)
    claims = tuple(_claims(facts))
    rejected = tuple(name for name in facts.names if facts.rejects(name))
    return Verdict(predictive, _calibration(facts, claims), ece, error, best, rejected, claims)


# -- predictive value -------------------------------------------------------------------------------------------------


def _predictive(facts: _Facts) -> tuple[str, tuple[str, ...]]:
    loss = f"{ERRORS[facts.error].associated_loss} loss".replace("loss loss", "loss").replace(")² loss", ")²")
    best = min(facts.names, key=facts.loss)
    if len(facts.names) == 1:
        return f"Predictive value: {best} has a {loss} of {facts.loss(best):.4g}.", (best,)
    behind: list[tuple[str, str]] = []
    close: list[tuple[str, str]] = []
    for name in sorted((n for n in facts.names if n != best), key=facts.loss):
        part = facts.difference(name, best, 0, "loss")
        clear = part is not None and part.low > 0
        (behind if clear else close).append((name, _by(facts.loss(name) - facts.loss(best), part, facts.level)))
    level = f" ({_joint(facts.level, facts.pairs)})" if facts.pairs > 1 else ""
    if not close:
        text = f"{best} predicts better than {_named(behind)}: smaller {loss}{level}"
    elif not behind:
        text = f"the data cannot tell {best}, which has the smallest {loss}, from {_named(close)}{level}"
    else:
        unclear = f"the data cannot tell it from {_named(close)}"
        text = f"{best} predicts better than {_named(behind)}: smaller {loss}; {unclear}{level}"
    return f"Predictive value: {text}.", (best, *(name for name, _ in close))


def _by(difference: float, part: Part | None, level: float) -> str:
    if part is None or part.degenerate:
        return f"by {difference:.4g}, no interval"
    interval = f"{level:.0%} interval {part.low:.3g} to {part.high:.3g}"
    return f"by {difference:.4g}, {interval}"


def _joint(level: float, pairs: int) -> str:
    return f"intervals hold jointly for {pairs} pairs"


def _named(items: Sequence[tuple[str, str]]) -> str:
    """a (why), b (why) and 3 more."""
    shown = [f"{name} ({why})" for name, why in items[:_SHOWN]]
    rest = len(items) - len(shown)
    return _listed([*shown, f"{rest} more"] if rest else shown)


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


# -- calibration ------------------------------------------------------------------------------------------------------


def _claims(facts: _Facts) -> list[CalibrationClaim]:
    """Pairs whose U parts differ beyond noise at some bin count, at none the other way, with the worse one rejected."""
    found = []
    for a, b in combinations(facts.names, 2):
        parts = [facts.difference(a, b, c, "U") for c in range(len(facts.counts))]
        seen = [(c, part) for c, part in enumerate(parts) if part is not None]
        below, above = [s for s in seen if s[1].high < 0], [s for s in seen if s[1].low > 0]
        if bool(below) == bool(above):
            continue
        better, worse, clear, sign = (a, b, below, 1.0) if below else (b, a, above, -1.0)
        if facts.rejects(worse) is False:
            continue
        c, part = max(clear, key=lambda s: abs(s[1].estimate) / s[1].se if s[1].se > 0 else float("inf"))
        low, high = sorted((sign * part.low, sign * part.high))
        found.append(CalibrationClaim(better, worse, facts.counts[c], sign * part.estimate, low, high))
    return found


def _calibration(facts: _Facts, claims: Sequence[CalibrationClaim]) -> str:
    groups: dict[str, list[tuple[str, str]]] = {"rejected for": [], "not rejected for": [], "untested for": []}
    for name in facts.names:
        verdict = facts.rejects(name)
        key = "untested for" if verdict is None else ("rejected for" if verdict else "not rejected for")
        groups[key].append((name, _state(facts, name)))
    states = ", ".join(f"{key} {_named(items)}" for key, items in groups.items() if items)
    return f"Calibration: {states}{_better(facts, claims)}."


def _state(facts: _Facts, name: str) -> str:
    """U at the bin count where it stands out most, the p-value of the joint test, and the direction."""
    found = facts.evaluations[name]
    test = facts.test(name)
    own = test is not None and facts.error in found.tests
    c = 0
    if test is not None and own:
        least = _ROUNDING * facts.loss(name)  # at n bins and more U is 0 but for rounding
        spread = [d.U / d.null_sd if d.null_sd > least else float("-inf") for d in test.details]
        c = facts.counts.index(test.details[spread.index(max(spread))].n_bins)
    bins = facts.counts[c]
    where = "" if bins is None else f" at {bins_text(bins)}"
    pvalue = "" if test is None else f", p = {test.pvalue:.2g}" + ("" if own else f" for {test.name}")
    gap = found.direction
    size = "" if gap.word == "no clear direction" else f" by {abs(gap.gap):.2g} on average"
    return f"U {facts.u(name, c):+.3g}{where}{pvalue}, {gap.word}{size}"


def _better(facts: _Facts, claims: Sequence[CalibrationClaim]) -> str:
    if facts.pairs == 0:
        return ""
    words = _better_words(facts, claims)
    untold = facts.pairs - len(claims)
    if untold:
        where = "" if facts.pairs == 1 else f" in {untold} of {facts.pairs} pairs"
        words.append(f"the data cannot tell which is better calibrated{where}{_resolution(facts, claims)}")
    return "; " + "; ".join(words)


def _better_words(facts: _Facts, claims: Sequence[CalibrationClaim]) -> list[str]:
    """Claims grouped by their better model, those with the same worse models together; numbers for a single one."""
    if len(claims) == 1:
        claim = claims[0]
        bins = "" if claim.n_bins is None else f" at {bins_text(claim.n_bins)}"
        interval = f"{facts.level:.0%} interval {-claim.high:.3g} to {-claim.low:.3g}"
        size = f"U smaller by {-claim.difference:.3g}{bins}, {interval}"
        return [f"{claim.better} is better calibrated than {claim.worse} ({size})"]
    beaten: dict[str, list[str]] = {}
    for claim in claims:
        beaten.setdefault(claim.better, []).append(claim.worse)
    alike: dict[tuple[str, ...], list[str]] = {}
    for better, worse in beaten.items():
        alike.setdefault(tuple(worse), []).append(better)
    groups = sorted(alike.items(), key=lambda item: -len(item[0]))
    words = [
        f"{_few_of(better)} {'is' if len(better) == 1 else 'are each'} better calibrated than {_few_of(worse)}"
        for worse, better in groups[:_SHOWN]
    ]
    if len(groups) > _SHOWN:
        words.append(f"U parts differ beyond noise in {len(claims)} of {facts.pairs} pairs in all")
    return words


def _few_of(names: Sequence[str]) -> str:
    shown = list(names[:_SHOWN])
    return _listed(shown if len(names) <= _SHOWN else [*shown, f"{len(names) - _SHOWN} more"])


def _resolution(facts: _Facts, claims: Sequence[CalibrationClaim]) -> str:
    """How large a difference of U would have to be at each bin count, and which counts could show the loss gap.

    For several pairs, the widest interval of the undecided ones and the smallest of their loss gaps would promise too
    little or too much; the pair with the smallest losses speaks for the rest, since that is the one people choose from.
    """
    told = {frozenset((claim.better, claim.worse)) for claim in claims}
    ordered = sorted(facts.names, key=facts.loss)
    pair = next((p for p in combinations(ordered, 2) if frozenset(p) not in told), None)
    if pair is None:
        return ""
    parts = [(m, facts.difference(*pair, c, "U")) for c, m in enumerate(facts.counts)]
    least = _ROUNDING * facts.loss(pair[0])
    widths = [(m, part.high - part.estimate) for m, part in parts if part is not None and m is not None]
    widths = [(m, width) for m, width in widths if width > least]
    if not widths:
        return ""
    gap = abs(facts.loss(pair[0]) - facts.loss(pair[1]))
    which = "" if facts.pairs == 1 else f" for {pair[0]} and {pair[1]}"
    sizes = ", ".join(f"{width:.2g} at {bins_text(m)}" for m, width in widths)
    able = tuple(m for m, width in widths if width <= gap)
    return f": to be seen, U would have to differ by {sizes}{which}, and {_able(facts, able, widths, gap)}"


def _able(facts: _Facts, able: tuple[int, ...], widths: Sequence[tuple[int, float]], gap: float) -> str:
    against = f"the loss gap of {gap:.2g}"
    if able:
        return f"against {against}, {bins_text(able)} could"
    n = next(iter(facts.evaluations.values())).n_samples
    m, width = widths[-1]
    needed = ceil(m * (width / gap) ** 2) if gap > 0 else n  # the noise of U falls like 1/√m
    if needed <= n // 2:
        return f"against {against}, none of these could, about {needed} bins would"
    return f"against {against}, no bin count could with {n} samples"


# -- ECE --------------------------------------------------------------------------------------------------------------


def _ece_sentence(rankings: Sequence[Ranking], names: tuple[str, ...], flipped: int) -> str:
    """Which model ECE puts first at which bin count, and how many pairs change places."""
    rows = [ranking for ranking in rankings if ranking.error in ECE]
    if not rows or len(names) < 2:
        return ""
    chosen: dict[str, tuple[int, ...]] = {}
    for row in rows:
        lowest = min(row.ranks)
        first = " and ".join(name for name, place in zip(names, row.ranks, strict=True) if place == lowest)
        chosen[first] = (*chosen.get(first, ()), row.n_bins or 0)
    says = _listed([f"{who} first at {bins_text(counts)}" for who, counts in chosen.items()])
    pairs = len(names) * (len(names) - 1) // 2
    if flipped == 0 or pairs == 1:
        depends = "" if flipped == 0 else ": its answer depends on the number of bins"
        return f"ECE would have put {says}{depends}."
    turn = "changes" if flipped == 1 else "change"
    return f"ECE would have put {says}; {flipped} of {pairs} pairs {turn} places with the number of bins."
