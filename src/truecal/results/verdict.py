"""The sentences of the verdict: which model predicts better, which is miscalibrated, and how ECE ranks them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal, TypeVar

from ..core.rules import bins_text
from ..core.types import Groups
from ..core.words import LOSS_TITLES, SHOWN, points_text, some_of
from ..evidence.evidence import Evidence
from ..inference.calibration_result import Standing
from ..inference.direction import NO_DIRECTION
from ..inference.mean_losses import IntervalEstimate
from ..inference.paired import spread_part
from ..kinds.named_errors import COMPOSED
from .columns import number_text

if TYPE_CHECKING:
    from .comparison import Flip, Pair, Ranking
    from .evaluation import Evaluation

Name = TypeVar("Name")


@dataclass(frozen=True)
class CalibrationClaim:
    """`better` is closer to calibrated than `worse` in this notion: a smaller gap, beyond noise, in squared points."""

    notion: str
    better: str
    worse: str
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class LossGap:
    """How far a model is behind the smallest loss, with an interval that holds for all pairs of models at once."""

    difference: float
    low: float | None
    high: float | None
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """Three short sentences, with the facts they are made of.

    Intervals of loss differences hold jointly for all pairs of models (Bonferroni), and so do those of gaps for all
    pairs and notions. A model is called closer to calibrated only where the test rejects the other one.
    """

    predictive: str
    calibration: str
    ece: str
    error: str
    best: tuple[str, ...]
    """The model with the smallest loss, and those that the data cannot tell from it."""
    rejected: tuple[str, ...]
    """Models whose calibration is rejected, corrected over models."""
    better_calibrated: tuple[CalibrationClaim, ...]
    standings: dict[str, Standing]
    """What the test says of each model."""
    behind: dict[str, LossGap]
    """For each model but the best, its loss less the smallest one."""
    ranks: dict[str, tuple[int, int]]
    """The ranks by loss that the data allow each model: of two, only a significantly lower loss puts one first."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Predictive value, calibration, ECE."""
        return tuple(s for s in (self.predictive, self.calibration, self.ece) if s)

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def loss_title(found: Evaluation) -> str:
    """What the loss is called by which models are ordered."""
    return LOSS_TITLES[found.main_loss.name] if found.main_loss is not None and found.scored_by_loss else "loss"


def standings(evaluations: Mapping[Name, Evaluation], level: float) -> dict[Name, Standing]:
    """Judge every model by its test, with Holm's correction over the models."""
    found = {name: Standing("untested") for name in evaluations}
    tests = {name: e.test for name, e in evaluations.items() if e.test is not None}
    alpha, largest = 1 - level + 1e-12, 0.0
    for i, (name, test) in enumerate(sorted(tests.items(), key=lambda item: item[1].pvalue)):
        left = len(tests) - i
        largest = max(largest, min(1.0, left * test.pvalue))
        if len(tests) * test.floor > alpha and not test.settled:
            found[name] = Standing("too few draws", largest, test.at_floor)
            continue
        state: Literal["rejected", "not rejected"] = "rejected" if largest <= alpha else "not rejected"
        found[name] = Standing(state, largest, test.at_floor, test.reason)
    return found


def give_verdict(
    evaluations: Mapping[str, Evaluation],
    measured: Mapping[str, Evidence],
    clusters: Groups | None = None,
    rankings: Sequence[Ranking] = (),
    flips: Sequence[Flip] = (),
    pairs: Sequence[Pair] = (),
) -> Verdict:
    """Put a comparison in words, by the headline error of its models."""
    first = next(iter(evaluations.values()))
    error, level = first.headline, first.level
    found = {name: e.standing or Standing("untested") for name, e in evaluations.items()}
    ece = _ece_sentence(evaluations, rankings, flips)
    if not first.row(error).ranks and len(evaluations) > 1:
        return Verdict("No truthful error with a score was measured.", "", ece, error, (), (), (), found, {}, {})
    facts = _Facts(evaluations, measured, error, level, clusters, _ordered(pairs, error, level))
    predictive, best, behind = _predictive(facts)
    ranks = {} if facts.lower is None else _ranks(facts.names, facts.lower)
    claims = tuple(claim for claim in _claims(facts) if found[claim.worse].state == "rejected")
    rejected = tuple(name for name, standing in found.items() if standing.state == "rejected")
    calibration = _calibration(facts, found, claims)
    return Verdict(predictive, calibration, ece, error, best, rejected, claims, found, behind, ranks)


def _ordered(pairs: Sequence[Pair], error: str, level: float) -> set[tuple[str, str]] | None:
    """Models whose losses differ significantly, corrected over all pairs, the lower one first; None without pairs."""
    found = {(pair.first, pair.second): pair.loss for pair in pairs if pair.error == error}
    clear = {
        names: loss
        for names, loss in found.items()
        if loss.beyond_noise and loss.pvalue * len(found) <= 1 - level + 1e-12
    }
    return {names if loss.estimate < 0 else names[::-1] for names, loss in clear.items()} if found else None


def _ranks(names: Sequence[str], lower: Collection[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    below, above = (Counter(pair[i] for pair in lower) for i in (1, 0))
    return {name: (1 + below[name], len(names) - above[name]) for name in names}


@dataclass(frozen=True)
class _Facts:
    """What the sentences read."""

    evaluations: Mapping[str, Evaluation]
    measured: Mapping[str, Evidence]
    error: str
    level: float
    clusters: Groups | None
    lower: set[tuple[str, str]] | None
    """Pairs of models whose losses differ significantly, the lower one first; None where no pairs were measured."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.evaluations)

    @property
    def pairs(self) -> int:
        return len(self.names) * (len(self.names) - 1) // 2

    def loss(self, name: str) -> float:
        return self.evaluations[name].ranking_loss

    def loss_part(self, a: str, b: str) -> IntervalEstimate | None:
        """a − b on the loss of the headline error, with an interval that holds for all pairs at once."""
        first, second = self.measured[a], self.measured[b]
        return first.loss_difference(self.error, second, self.level, self.clusters, self.pairs)

    def unit(self, name: str) -> float:
        """What turns a difference of headline losses into one of what is shown."""
        rows = self.evaluations[name].row(self.error)
        return self.loss(name) / rows.loss if rows.loss else 1.0

    def gap_part(self, notion: str, a: str, b: str, looks: int) -> IntervalEstimate | None:
        """gap² of a minus that of b at the headline count of a notion, with an interval joint over all looks."""
        found = []
        for name in (a, b):
            spreads = self.measured[name].spreads.get(notion, {})
            m = self.evaluations[name].row(notion).n_bins
            if m not in spreads:
                return None
            found.append(spreads[m])
        differ = self.measured[a].differing(notion, self.measured[b], self.clusters)
        return spread_part(found[0], found[1], 1 - (1 - self.level) / looks, differ)


# -- who predicts better ----------------------------------------------------------------------------------------------


def _predictive(facts: _Facts) -> tuple[str, tuple[str, ...], dict[str, LossGap]]:
    loss = loss_title(facts.evaluations[facts.names[0]])
    order = sorted(facts.names, key=facts.loss)
    best = order[0]
    if len(order) == 1:
        return "", (best,), {}
    behind: dict[str, LossGap] = {}
    close: list[str] = []
    for name in order[1:]:
        part, unit = facts.loss_part(name, best), facts.unit(best)
        low = high = None
        if part is not None and part.se == part.se:
            low, high = unit * part.low, unit * part.high
        note = "" if part is None else part.note
        behind[name] = LossGap(facts.loss(name) - facts.loss(best), low, high, note)
        worse = part is not None and part.beyond_noise
        if facts.lower is not None:
            worse = any((better, name) in facts.lower for better in facts.names)
        close += [] if worse else [name]
    clear = next((name for name in order[1:] if name not in close), None)
    after = "" if clear is None else f"{number_text(facts.loss(clear))} for {clear}"
    if not close:
        text = f"{best} predicts best: {loss} {number_text(facts.loss(best))}, significantly below {after}."
    else:
        several = some_of([best, *close])
        beyond = f", significantly below {after}" if after else ""
        text = f"{several} predict best: {loss} {number_text(facts.loss(best))}, no significant difference{beyond}."
    return text + _score_opinion(facts, best) + _other_opinion(facts, best), (best, *close), behind


def _score_opinion(facts: _Facts, best: str) -> str:
    """Why the score puts another model first, where it does."""
    scores = {name: facts.evaluations[name].score for name in facts.names}
    known = {name: score for name, score in scores.items() if score is not None}
    first = min(known, key=known.__getitem__, default=best)
    if best not in known or known[first] >= known[best]:
        return ""
    loss = loss_title(facts.evaluations[best])
    return f" {first} has the best score ({number_text(known[first])}): its smaller gap outweighs its higher {loss}."


def _other_opinion(facts: _Facts, best: str) -> str:
    """Who beats the best by another loss, where even their separate intervals lie apart."""
    said = ""
    for loss in ("classification_error", "cross_entropy"):
        found = {name: v for name in facts.names for v in facts.evaluations[name].losses if v.name == loss}
        if best not in found:
            continue
        top = min(found, key=lambda name: found[name].value)
        a, b = found[top], found[best]
        if (
            top == best
            or a.high is None
            or (b.low is not None and a.high >= b.low)
            or (b.low is None and b.value < 1e9)
        ):
            continue
        if loss == "classification_error":
            said += f" {top} is right more often: {1 - a.value:.1%} against {1 - b.value:.1%}."
        else:
            said += f" {top} has the lower cross-entropy: {a.value:.3g} against {b.value:.3g}."
    return said


# -- who is calibrated ------------------------------------------------------------------------------------------------


def _claims(facts: _Facts) -> list[CalibrationClaim]:
    """Pairs whose gaps differ beyond noise, in each notion."""
    first = next(iter(facts.evaluations.values()))
    names = [name for name in first.error_names if name in COMPOSED and COMPOSED[name].has_gap]
    notions = sorted(names, key=lambda name: not COMPOSED[name].property.picks_outcome)
    looks = max(1, facts.pairs * len(notions))
    found = []
    for notion in notions:
        for a, b in combinations(facts.names, 2):
            part = facts.gap_part(notion, a, b, looks)
            if part is None or not part.beyond_noise:
                continue
            better, worse, sized = (a, b, part) if part.estimate < 0 else (b, a, part.turned())
            points = (1e4 * x for x in (sized.estimate, sized.low, sized.high))
            found.append(CalibrationClaim(notion, better, worse, *points))
    return found


def _calibration(facts: _Facts, found: Mapping[str, Standing], claims: Sequence[CalibrationClaim]) -> str:
    """Who is not calibrated and why, who is, and of whom the data do not tell."""
    if len(facts.names) == 1:
        return conclusion(facts.evaluations[facts.names[0]])
    by_answer: dict[str, list[str]] = {"no": [], "yes": [], "undecided": [], "untested": []}
    for name in facts.names:
        by_answer[found[name].answer].append(name)
    if len(by_answer["untested"]) == len(facts.names):
        return "Calibration was not tested."
    heads = {"no": "Not calibrated", "yes": "Calibrated", "undecided": "Undecided", "untested": "Not tested"}
    parts = [f"{heads[answer]}: {some_of(names)}." for answer, names in by_answer.items() if names and answer != "no"]
    if by_answer["no"]:
        parts.insert(0, f"{heads['no']}: {_reasons(facts, found, by_answer['no'])}.")
    return " ".join([*parts, *favoured(claims)])


def _reasons(facts: _Facts, found: Mapping[str, Standing], names: Sequence[str]) -> str:
    """ "a and b (over-confident), c (class 3 is 4.1 points too low)"."""
    groups: dict[str, list[str]] = {}
    for name in names:
        why = found[name].why
        word = facts.evaluations[name].direction.direction
        groups.setdefault(why or ("" if str(word) == NO_DIRECTION else str(word)), []).append(name)
    shown = [f"{some_of(several)} ({why})" if why else some_of(several) for why, several in groups.items()]
    return ", ".join(shown[:SHOWN]) + (f" and {len(shown) - SHOWN} other reasons" if len(shown) > SHOWN else "")


def conclusion(found: Evaluation) -> str:
    """Whether one model is calibrated, as a sentence."""
    standing, gap = found.standing or Standing("untested"), found.gap
    if standing.answer == "untested":
        return f"Calibration was not tested{standing.why and f': {standing.why}'}."
    if standing.answer == "undecided":
        return f"Undecided: {standing.why}."
    if standing.answer == "yes":
        return f"Calibrated: {standing.rows} show a gap of at most {points_text(standing.allows)} points."
    size = "" if gap is None else f"a gap of {points_text(gap.points)} points"
    return f"Not calibrated: {standing.why or found.direction.sized or size}."


def favoured(claims: Sequence[CalibrationClaim]) -> list[str]:
    """Who is closer to calibrated, by notion; where two notions disagree about a pair, both are named."""
    pairs: dict[str, set[tuple[str, str]]] = {}
    for claim in claims:
        pairs.setdefault(COMPOSED[claim.notion].property.notion, set()).add((claim.better, claim.worse))
    words = list(pairs)
    for one, two in combinations(words, 2):
        against = sorted((a, b) for a, b in pairs[one] if (b, a) in pairs[two])
        if against:
            a, b = against[0]
            rest = f" ({len(against)} pairs in all)" if len(against) > 1 else ""
            return [f"{one.capitalize()} calibration favours {a} over {b}, {two} favours {b}{rest}."]
    return []


# -- ECE --------------------------------------------------------------------------------------------------------------


def _ece_sentence(evaluations: Mapping[str, Evaluation], rankings: Sequence[Ranking], flips: Sequence[Flip]) -> str:
    """Which model ECE puts first, where the loss puts it, and how many pairs swap places with the bins under ECE."""
    first = next(iter(evaluations.values()))
    name = first.ece_name
    if name is None or len(evaluations) == 1:
        return ""
    rows = [ranking for ranking in rankings if ranking.error == name]
    usual = next(ranking for ranking in rows if ranking.n_bins == first.row(name).n_bins)
    winner = usual.order[0]
    tied = round(2 * min(usual.ranks) - 1)  # the mean of their places
    if tied > 1:
        names = " and ".join(usual.order[:tied]) if tied == 2 else f"{tied} models"
        return f"By ECE, {names} share the first rank ({bins_text(usual.n_bins)})."
    others = {ranking.n_bins: ranking.order[0] for ranking in rows if ranking.order[0] != winner}
    text = f"ECE ranks {winner} first"
    if others:
        told = ", ".join(f"{name} at {bins_text(m)}" for m, name in list(others.items())[:2])
        text += f" at {bins_text(usual.n_bins)}, {told}"
    elif len(rows) > 1:
        text += " at every number of bins"
    turned = [flip.error for flip in flips].count(name)
    pairs = len(evaluations) * (len(evaluations) - 1) // 2
    if turned:
        text += f"; {turned} of {pairs} pairs swap places as the number of bins changes"
    return f"{text}.{_place(winner, evaluations)}"


def _place(winner: str, evaluations: Mapping[str, Evaluation]) -> str:
    """The rank by loss of the model that is first by ECE, where it is not first as well."""
    place, found = 1 + sum(e.ranking_loss < evaluations[winner].ranking_loss for e in evaluations.values()), evaluations
    where = "last" if place == len(found) else f"{place} of {len(found)}"
    return "" if place == 1 else f" By {loss_title(found[winner])} it is {where}."
