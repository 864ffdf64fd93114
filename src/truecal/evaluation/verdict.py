"""The verdict in words: who predicts better, who is miscalibrated, and what ECE would have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

from ..core.errors import ERRORS
from .measuring import bins_text

if TYPE_CHECKING:
    from ..inference import CalibrationTest, Part
    from ..inference.jackknife import LeftOut
    from .comparison import Flip, Ranking
    from .model import Evaluation

_SHOWN = 4  # models named in one breath; the rest are counted
_LONGEST = 600  # characters of the calibration sentence, beyond which fewer models are named
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
class Standing:
    """What the calibration tests of one model say together.

    Each tested error has its own test, and Holm's correction keeps the chance of any false rejection of the model at
    1 − level. `pvalue` is the smallest corrected one, `error` the test it comes from, `errors` those that reject.
    "too few draws" means that even the smallest p-value that the draws allow would not reject.
    """

    state: Literal["rejected", "not rejected", "untested", "too few draws"]
    pvalue: float | None
    error: str | None
    errors: tuple[str, ...]
    n_tests: int

    @property
    def words(self) -> str:
        """The state, such as "not rejected" or "untested (too few draws)"."""
        return f"untested ({self.state})" if self.state == "too few draws" else self.state


@dataclass(frozen=True)
class LossGap:
    """How far a model is behind the smallest loss, with an interval that holds for all pairs of models at once."""

    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Verdict:
    """Two sentences that are never one, then what ECE would have said; with the facts they are made of.

    Intervals in the sentences hold jointly: for all pairs of models, and for U at all bin counts (Bonferroni). A claim
    of better calibration also needs a calibration test to reject the worse model.
    """

    predictive: str
    calibration: str
    ece: str
    error: str
    best: tuple[str, ...]
    """The model with the smallest loss, and those that the data cannot tell from it."""
    rejected: tuple[str, ...]
    """Models whose calibration some test rejects, after Holm's correction for the tests of that model."""
    better_calibrated: tuple[CalibrationClaim, ...]
    standings: dict[str, Standing]
    """What the tests say of each model."""
    behind: dict[str, LossGap]
    """For each model but the best, its loss less the smallest one."""

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
    def n_samples(self) -> int:
        return next(iter(self.evaluations.values())).n_samples

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
        from ..inference.jackknife import scarce
        from ..inference.paired import paired_part

        if a not in self.left or b not in self.left:
            return None
        if what == "U" and (scarce(self.left[a], c) or scarce(self.left[b], c)):
            return None
        looks = self.pairs * (len(self.counts) if what == "U" else 1)
        return paired_part(self.left[a], self.left[b], c, what, 1 - (1 - self.level) / looks)

    def standing(self, name: str) -> Standing:
        return standing(self.evaluations[name].tests, self.level)

    def rejects(self, name: str) -> bool | None:
        return {"rejected": True, "not rejected": False}.get(self.standing(name).state)


def standing(tests: Mapping[str, CalibrationTest], level: float) -> Standing:
    """Judge one model by all its tests: Holm's step-down correction, with the errors that reject by name.

    Tests of one model are not independent of each other, which Holm's correction does not ask for.
    """
    if not tests:
        return Standing("untested", None, None, (), 0)
    alpha = 1 - level + _ROUNDING
    corrected: dict[str, float] = {}
    largest = 0.0
    for i, (name, test) in enumerate(sorted(tests.items(), key=lambda item: item[1].pvalue)):
        largest = max(largest, min(1.0, (len(tests) - i) * test.pvalue))
        corrected[name] = largest
    deciding = next(iter(corrected))
    if len(tests) / (1 + max(test.resamples for test in tests.values())) > alpha:
        return Standing("too few draws", corrected[deciding], deciding, (), len(tests))
    errors = tuple(name for name in tests if corrected[name] <= alpha)
    return Standing("rejected" if errors else "not rejected", corrected[deciding], deciding, errors, len(tests))


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
    facts = _Facts(evaluations, left, error, first.level)
    standings = {name: facts.standing(name) for name in facts.names}
    if ERRORS[error].norm == "l1" or not ERRORS[error].truthful:
        words = "no truthful error was measured"
        return Verdict(f"Predictive value: {words}.", f"Calibration: {words}.", ece, error, (), (), (), standings, {})
    predictive, best = _predictive(facts)
    differences = _differences(facts)
    claims = tuple(_claims(facts, differences))
    spared = [found for found in differences if found not in claims]
    rejected = tuple(name for name in facts.names if facts.rejects(name))
    behind = {name: _gap(facts, name, best[0]) for name in facts.names if name != best[0]}
    return Verdict(
        predictive, _calibration(facts, claims, spared), ece, error, best, rejected, claims, standings, behind
    )


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


def _gap(facts: _Facts, name: str, best: str) -> LossGap:
    part = facts.difference(name, best, 0, "loss")
    known = part is not None and not part.degenerate
    low, high = (part.low, part.high) if part is not None and known else (None, None)
    return LossGap(facts.loss(name) - facts.loss(best), low, high)


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


def _claims(facts: _Facts, differences: Sequence[CalibrationClaim]) -> list[CalibrationClaim]:
    """The differences of U whose worse model a test rejects: intervals alone, without a test, claim nothing."""
    return [claim for claim in differences if facts.rejects(claim.worse) is True]


def _differences(facts: _Facts) -> list[CalibrationClaim]:
    """Pairs whose U parts differ beyond noise at some bin count, at none the other way."""
    found = []
    for a, b in combinations(facts.names, 2):
        parts = [facts.difference(a, b, c, "U") for c in range(len(facts.counts))]
        seen = [(c, part) for c, part in enumerate(parts) if part is not None]
        below, above = [s for s in seen if s[1].high < 0], [s for s in seen if s[1].low > 0]
        if bool(below) == bool(above):
            continue
        better, worse, clear, sign = (a, b, below, 1.0) if below else (b, a, above, -1.0)
        c, part = max(clear, key=lambda s: abs(s[1].estimate) / s[1].se if s[1].se > 0 else float("inf"))
        low, high = sorted((sign * part.low, sign * part.high))
        found.append(CalibrationClaim(better, worse, facts.counts[c], sign * part.estimate, low, high))
    return found


def _calibration(facts: _Facts, claims: Sequence[CalibrationClaim], spared: Sequence[CalibrationClaim] = ()) -> str:
    """The sentence with as many models named as keep it readable; those that are not named are counted.

    `spared`: U parts that differ beyond noise where no test rejects the larger one, which is no claim.
    """
    text = ""
    for states, brief, groups in ((4, False, 4), (4, True, 2), (4, True, 1), (3, True, 1), (2, True, 1), (0, True, 1)):
        text = f"Calibration: {_states(facts, states, brief)}{_better(facts, claims, spared, groups, brief)}."
        if len(text) <= _LONGEST:
            break
    return text


def _states(facts: _Facts, shown: int, brief: bool) -> str:
    """Rejected, not rejected and untested models, `shown` of them with their numbers: the rejected ones first, but one
    of each state where there is room."""
    groups: dict[str, list[str]] = {"rejected": [], "not rejected": [], "untested": [], "untested (too few draws)": []}
    for name in facts.names:
        groups[facts.standing(name).words].append(name)
    groups = {state: names for state, names in groups.items() if names}
    words = []
    for i, (state, names) in enumerate(groups.items()):
        later = len(groups) - 1 - i
        room = min(len(names), shown - later if shown > later else shown)
        shown -= room
        named = [f"{name} ({_brief(facts, name) if brief else _state(facts, name)})" for name in names[:room]]
        rest = len(names) - room
        if rest:
            named.append(f"{rest} more" if room else f"{rest} model{'s' if rest > 1 else ''}")
        words.append(f"{state} for {_listed(named)}")
    several = max(facts.standing(name).n_tests for name in facts.names)
    holm = f" (p for {several} tests each, by Holm)" if several > 1 else ""
    return ", ".join(words) + holm


def _state(facts: _Facts, name: str) -> str:
    """U at the bin count where it stands out most, the p-value and the error it comes from, and the direction."""
    found, stand = facts.evaluations[name], facts.standing(name)
    error = stand.error or facts.error
    row = found.rows(error)[0]
    if stand.error is not None:
        least = _ROUNDING * float(row.loss or 0.0)  # at n bins and more U is 0 but for rounding
        details = found.tests[error].details
        spread = [d.U / d.null_sd if d.null_sd > least else float("-inf") for d in details]
        bins = details[spread.index(max(spread))].n_bins
        row = next(r for r in found.rows(error) if r.n_bins == bins)
    where = "" if row.n_bins is None else f" at {bins_text(row.n_bins)}"
    which = f"{error}: " if stand.n_tests > 1 or error != facts.error else ""
    pvalue = f", p = {stand.pvalue:.2g}" if stand.state in ("rejected", "not rejected") else ""
    others = [other for other in stand.errors if other != error]
    also = f", also {_listed(others)}" if others else ""
    gap = found.direction
    size = "" if gap.word == "no clear direction" else f" by {abs(gap.gap):.2g} on average"
    return f"{which}U {row.U:+.3g}{where}{pvalue}{also}, {gap.word}{size}"


def _brief(facts: _Facts, name: str) -> str:
    """The p-value with the error it comes from, and the direction."""
    stand, word = facts.standing(name), facts.evaluations[name].direction.word
    return f"{stand.error} p = {stand.pvalue:.2g}, {word}" if stand.words == stand.state and stand.pvalue else word


def _better(
    facts: _Facts, claims: Sequence[CalibrationClaim], spared: Sequence[CalibrationClaim], shown: int, brief: bool
) -> str:
    if facts.pairs == 0:
        return ""
    words = _better_words(facts, claims, shown)
    if spared:
        first = f"{spared[0].better} has the smaller U than {spared[0].worse}"
        more = f", as in {len(spared) - 1} more pair{'s' if len(spared) > 2 else ''}" if len(spared) > 1 else ""
        words.append(f"{first} beyond noise{more}, but no test rejects the larger, so neither is called better")
    untold = facts.pairs - len(claims) - len(spared)
    if untold:
        where = "" if facts.pairs == 1 else f" in {untold} of {facts.pairs} pairs"
        resolution = _resolution(facts, [*claims, *spared], brief)
        words.append(f"the data cannot tell which is better calibrated{where}{resolution}")
    return "; " + "; ".join(words)


def _better_words(facts: _Facts, claims: Sequence[CalibrationClaim], shown: int) -> list[str]:
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
    groups = sorted(alike.items(), key=lambda item: -len(item[0]) * len(item[1]))
    words = [
        f"{_few_of(better, shown)} {'is' if len(better) == 1 else 'are each'} better calibrated than "
        f"{_few_of(worse, shown)}"
        for worse, better in groups[:shown]
    ]
    if len(groups) > shown:
        words.append(f"one is better calibrated in {len(claims)} of {facts.pairs} pairs in all")
    return words


def _few_of(names: Sequence[str], most: int) -> str:
    shown = list(names[:most])
    return _listed(shown if len(names) <= most else [*shown, f"{len(names) - most} more"])


def _resolution(facts: _Facts, claims: Sequence[CalibrationClaim], brief: bool) -> str:
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
    able = tuple(m for m, width in widths if width <= gap)
    if brief:
        where = f"at {bins_text(able)}" if able else _brief_count(facts, widths, gap)
        size = f"a difference as large as the loss gap of {gap:.2g}"
        return f", such as {pair[0]} and {pair[1]}, where {size} would show {where}"
    needed = f"U would have to differ by {_sizes(widths)}, and {_able(facts, able, widths, gap)}"
    if facts.pairs == 1:
        return f": to be seen, {needed}"
    return f", such as {pair[0]} and {pair[1]}: to be seen, {needed}"


def _sizes(widths: Sequence[tuple[int, float]]) -> str:
    """The widths at each bin count, or at the first and the last of many."""
    words = [f"{width:.2g} at {bins_text(m)}" for m, width in widths]
    return ", ".join(words) if len(words) <= _SHOWN else f"{words[0]} to {words[-1]}"


def _able(facts: _Facts, able: tuple[int, ...], widths: Sequence[tuple[int, float]], gap: float) -> str:
    against = f"the loss gap of {gap:.2g}"
    if able:
        return f"against {against}, {bins_text(able)} could"
    needed = _enough(facts, widths, gap)
    if needed is None:
        return f"against {against}, no bin count could with {facts.n_samples} samples"
    return f"against {against}, none of these could, about {needed} bins would"


def _brief_count(facts: _Facts, widths: Sequence[tuple[int, float]], gap: float) -> str:
    needed = _enough(facts, widths, gap)
    return f"at no bin count with {facts.n_samples} samples" if needed is None else f"at about {needed} bins"


def _enough(facts: _Facts, widths: Sequence[tuple[int, float]], gap: float) -> int | None:
    """How many bins would show a difference of U as large as the gap; None where that is more than half the rows."""
    m, width = widths[-1]
    needed = ceil(m * (width / gap) ** 2) if gap > 0 else facts.n_samples  # the noise of U falls like 1/√m
    return needed if needed <= facts.n_samples // 2 else None


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
