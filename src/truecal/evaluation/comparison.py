"""compare: several models on the same samples, their rankings, flips, dominance order and paired differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ERRORS
from ..core.rules import ArgmaxQuantile
from .inputs import Inputs, TopPredictions, read_inputs
from .measuring import ErrorValue, bins_text, plain
from .model import (
    DIAGRAM_BINS,
    Evaluation,
    check_notes,
    evaluate_inputs,
    read_settings,
    read_subgroups,
    with_subgroups,
)
from .ranking import Dominance, Stability, chain_correlation, dominance, flips, ranks, stability, tied
from .verdict import Verdict, give_verdict

if TYPE_CHECKING:
    from ..inference import Part
    from ..inference.jackknife import LeftOut

Array = NDArray[Any]
Condition = Literal["holds", "plausible", "undecided", "fails"]

_SECONDS = 2.0  # resampling per error, shared by all models
_LEAST_SECONDS = 0.15  # and at least this for each


@dataclass(frozen=True)
class Ranking:
    """Ranks of all models under one error at one bin count: 1 is the lowest error, ties share the average."""

    error: str
    symbol: str
    truthful: bool
    n_bins: int | None
    ranks: tuple[float, ...]
    order: tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """First minus second under one squared error at one bin count: loss part, U part, and their sum D, the difference
    of n·error (with clusters it also holds the pairs inside them).

    `condition` says whether the theorem applies, so that the order of the errors is the order of the losses: U of the
    model with the smaller loss, plus what the other could gain by recalibration (about U·c/(n − c) with c cells: the
    bins, times the classes for full errors), stays below the loss gap. "holds" and "fails": even at the unfavourable
    (favourable) ends of the intervals. "plausible": the gap is beyond noise and the estimates satisfy it. Else
    "undecided"; None for errors that are not truthful, of which the theorem does not speak.
    """

    first: str
    second: str
    error: str
    n_bins: int | None
    loss: Part
    U: Part
    D: Part
    condition: Condition | None

    @property
    def lower_loss(self) -> str | None:
        """The model with the smaller loss, if the interval of the difference excludes 0."""
        if self.loss.low <= 0 <= self.loss.high:
            return None
        return self.first if self.loss.estimate < 0 else self.second


@dataclass(frozen=True)
class Flip:
    """Two models that change places with the bin count under one error.

    `beyond_noise`: at some count the paired interval of D lies below 0 and at another above (each at the comparison's
    level); None for l1 errors, which have no interval.
    """

    error: str
    first: str
    second: str
    first_lower_at: tuple[int, ...]
    second_lower_at: tuple[int, ...]
    beyond_noise: bool | None


@dataclass(frozen=True)
class ChainAgreement:
    """Rank correlation of one error at one bin count with the longest dominance chain; NaN if undefined."""

    error: str
    n_bins: int | None
    kendall: float
    spearman: float


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Several models on the same samples.

    `evaluations` by name, `rankings` per error and bin count, `pairs` (paired differences of squared errors), `flips`,
    `stability` per error (rankings across bin counts), `dominance` on the losses, `chain` (agreement of each error with
    its longest chain), and `verdict` in words.
    """

    names: tuple[str, ...]
    n_samples: int
    n_classes: int | None
    n_bins: tuple[int, ...]
    level: float
    evaluations: dict[str, Evaluation]
    rankings: tuple[Ranking, ...]
    pairs: tuple[Pair, ...]
    flips: tuple[Flip, ...]
    stability: dict[str, Stability]
    dominance: Dominance
    chain: tuple[ChainAgreement, ...]
    verdict: Verdict
    notes: tuple[str, ...]

    @property
    def error_names(self) -> tuple[str, ...]:
        """The errors measured, in order."""
        return self._first.error_names

    @property
    def headline(self) -> str:
        """The truthful error that the verdict speaks of."""
        return self._first.headline

    @property
    def _first(self) -> Evaluation:
        return self.evaluations[self.names[0]]

    def symbol(self, error: str) -> str:
        """The paper's name of an error."""
        return self._first.rows(error)[0].symbol

    def values(self, error: str) -> tuple[Array, tuple[int | None, ...]]:
        """Raw values (bin counts, models) of one error, and the bin counts; models in the order of `names`."""
        columns = [self.evaluations[name].rows(error) for name in self.names]
        return np.array([[row.value for row in rows] for rows in columns]).T, tuple(row.n_bins for row in columns[0])

    def pair(self, first: str, second: str, error: str | None = None, n_bins: int | None = None) -> Pair:
        """The paired difference of two models (the headline error and its first bin count unless named)."""
        for pair in self.pairs:
            wanted = pair.error == (error or self.headline) and (n_bins is None or pair.n_bins == n_bins)
            if wanted and (pair.first, pair.second) == (first, second):
                return pair
        raise ValueError(f"no pair {first!r}, {second!r} of {error or self.headline!r} at n_bins={n_bins}")

    def with_notes(self, notes: Sequence[str]) -> Comparison:
        """The same comparison with these notes after its own, such as which files the predictions were read from."""
        return replace(self, notes=(*self.notes, *check_notes(notes)))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; undefined and infinite numbers become None."""
        return {
            "names": list(self.names),
            "n_samples": self.n_samples,
            "n_classes": self.n_classes,
            "n_bins": list(self.n_bins),
            "level": self.level,
            "headline": self.headline,
            "errors": {
                name: {"symbol": e.symbol, "truthful": e.truthful, "reason": e.reason, "loss": e.associated_loss}
                for name, e in ERRORS.items()
                if name in self.error_names
            },
            "verdict": plain(self.verdict),
            "evaluations": plain(self.evaluations),
            "rankings": plain(self.rankings),
            "pairs": plain(self.pairs),
            "flips": plain(self.flips),
            "stability": plain(self.stability),
            "dominance": plain(self.dominance),
            "chain": plain(self.chain),
            "notes": list(self.notes),
        }

    def to_pandas(self, what: Literal["errors", "losses", "rankings", "pairs", "flips"] = "errors") -> Any:
        """One of the tables: errors (a row per model, error and bin count), losses, rankings, pairs or flips."""
        import pandas as pd

        rows: list[dict[str, Any]]
        if what == "errors":
            rows = [{"model": m} | asdict(row) for m, e in self.evaluations.items() for row in e.errors]
        elif what == "losses":
            rows = [{"model": m} | asdict(value) for m, e in self.evaluations.items() for value in e.losses]
        elif what == "rankings":
            rows = [
                {"error": r.error, "n_bins": r.n_bins} | dict(zip(self.names, r.ranks, strict=True))
                for r in self.rankings
            ]
        elif what == "pairs":
            rows = [_flat_pair(pair) for pair in self.pairs]
        elif what == "flips":
            rows = [asdict(flip) for flip in self.flips]
        else:
            raise ValueError(f"what must be errors, losses, rankings, pairs or flips, got {what!r}")
        return pd.DataFrame(rows)

    def leaderboard(self) -> list[dict[str, Any]]:
        """Models by their headline loss, best first, each with U and its interval per bin count, tests and direction.

        `pvalue` is the smallest of the model's calibration tests after Holm's correction, and `test` what they say.
        Where only l1 errors were measured there is no U, and the loss is the confidence loss.
        """
        board = []
        for name in self.names:
            found = self.evaluations[name]
            rows = found.rows(self.headline)
            board.append(
                {
                    "model": name,
                    "loss": found.loss("confidence_loss").value if rows[0].loss is None else rows[0].loss,
                    "U": {row.n_bins: (row.U, row.U_low, row.U_high) for row in rows if row.U is not None},
                    "pvalue": self.verdict.standings[name].pvalue,
                    "test": self.verdict.standings[name].words,
                    "direction": found.direction.word,
                    "gap": found.direction.gap,
                }
            )
        return sorted(board, key=lambda row: row["loss"])

    def __repr__(self) -> str:
        what = (
            f"{self.headline} ({self.symbol(self.headline)}): loss + U"
            if ERRORS[self.headline].norm == "l2"
            else "confidence loss"
        )
        heading = f"{len(self.names)} models, {self.n_samples} samples, {what}"
        width = max(len(name) for name in self.names)
        lines = [heading]
        for row in self.leaderboard():
            parts = ", ".join(_u_text(m, *u) for m, u in row["U"].items())
            test = "" if row["pvalue"] is None else f" (p = {row['pvalue']:.3g})"
            said = f"{row['test']}{test}, {row['direction']}"
            lines.append(f"  {row['model']:<{width}}  {row['loss']:.5g}  {parts}{'; ' if parts else ''}{said}")
        return "\n".join([*lines, *self.verdict.sentences, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        counts = [row.n_bins for row in self._first.rows(self.headline) if row.U is not None]
        head = "".join(
            f"<th>{t}</th>"
            for t in ("model", "loss", *(f"U, {bins_text(m)}" for m in counts), "calibration", "p", "direction")
        )
        body = "".join(_html_row(row) for row in self.leaderboard())
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in (*self.verdict.sentences, *self.notes))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{words}"


def _u_text(m: int | None, u: float, low: float | None, high: float | None) -> str:
    interval = "" if low is None or high is None else f" [{low:+.3g}, {high:+.3g}]"
    return f"U {u:+.3g}{interval}" + ("" if m is None else f" at {bins_text(m)}")


def _html_row(row: dict[str, Any]) -> str:
    cells = [row["model"], f"{row['loss']:.5g}"]
    cells += [_u_text(None, *u).removeprefix("U ") for u in row["U"].values()]
    cells += [row["test"], "" if row["pvalue"] is None else f"{row['pvalue']:.3g}", row["direction"]]
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _flat_pair(pair: Pair) -> dict[str, Any]:
    row = {"first": pair.first, "second": pair.second, "error": pair.error, "n_bins": pair.n_bins}
    for part in ("loss", "U", "D"):
        found = getattr(pair, part)
        row |= {f"{part}_{key}": getattr(found, key) for key in ("estimate", "low", "high", "pvalue")}
    return row | {"condition": pair.condition}


def compare(
    y_true: Any,
    models: Mapping[str, Any],
    *,
    n_bins: int | Sequence[int] | None = None,
    errors: Sequence[str] | None = None,
    labels: Any = None,
    pos_label: Any = 1,
    by: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
    resamples: int | None = None,
    seed: int = 0,
    diagram_bins: int = DIAGRAM_BINS,
) -> Comparison:
    """Compare models on the same samples: who predicts better (loss), who is miscalibrated (U), and how sure that is.

    `models` maps names to what `evaluate` takes as y_proba. If any model is TopPredictions(correct, confidence), all
    are reduced to their top class and only confidence errors apply. resamples=None plans the draws within about two
    seconds per error for all models together, at least 99 or none; the notes say what was left out.

    >>> import truecal as tc
    >>> y = [0, 1, 1, 0, 1, 1, 0, 1] * 5
    >>> good, flat = [.1, .8, .7, .2, .9, .6, .3, .8] * 5, [.6] * 40
    >>> result = tc.compare(y, {"good": good, "flat": flat}, n_bins=(2, 5), resamples=99)
    >>> result.dominance.chain_names
    ('good', 'flat')
    """
    inputs, notes = _read_models(y_true, models, labels, pos_label, sample_weight)
    first = next(iter(inputs.values()))
    subgroups = None
    if by is not None:
        for model in inputs.values():
            subgroups = read_subgroups(by, y_true, model)
    seconds = max(_LEAST_SECONDS, _SECONDS / len(inputs))
    settings = read_settings(first, n_bins, errors, level, resamples, seed, diagram_bins, len(inputs), seconds)
    clusters = None
    if groups is not None:
        from ..inference.options import check_groups

        checked = check_groups(groups, first.n_samples)
        clusters = None if checked is None else checked[0]
    evaluations, left_out = {}, {}
    for name, model in inputs.items():
        result, found = evaluate_inputs(model, settings, name, clusters)
        left_out[name] = found.left_out
        evaluations[name] = (
            result
            if subgroups is None
            else with_subgroups(result, model, settings, clusters, subgroups, n_bins is None)
        )
    return _assemble(evaluations, left_out, settings.n_bins, settings.level, notes)


def _read_models(
    y_true: Any, models: Any, labels: Any, pos_label: Any, sample_weight: Any
) -> tuple[dict[str, Inputs], list[str]]:
    """Validate every model, name the one that is wrong, and bring all to one kind."""
    if not isinstance(models, Mapping):
        raise TypeError(
            f"models must map names to predictions, for example {{'a': proba_a}}, got {type(models).__name__}"
        )
    if not models:
        raise ValueError("models is empty: expected at least one name with its predictions")
    found: dict[str, Inputs] = {}
    for key, predictions in models.items():
        name = str(key)
        if name in found:
            raise ValueError(f"two models are called {name!r}")
        try:
            found[name] = read_inputs(
                y_true, predictions, labels=labels, pos_label=pos_label, sample_weight=sample_weight
            )
        except (ValueError, TypeError) as error:
            raise type(error)(f"model {name!r}: {error}") from error
    notes = []
    tops = [name for name, model in found.items() if model.kind == "top_label"]
    if tops:
        found = {name: model.top_label() for name, model in found.items()}
        notes.append(
            f"only the top class is known for {', '.join(tops)}: only confidence errors and two losses are compared"
        )
    _refuse_different_samples(found)
    return found, notes


def _refuse_different_samples(found: Mapping[str, Inputs]) -> None:
    """Errors on different samples have no order: refuse other row counts, kinds and numbers of classes by name."""
    head, first = next(iter(found.items()))
    for name, model in found.items():
        if model.n_samples != first.n_samples:
            raise ValueError(
                f"models must predict the same samples: {head!r} has {first.n_samples} rows, {name!r} {model.n_samples}"
            )
        if (model.kind, model.n_classes) != (first.kind, first.n_classes):
            raise ValueError(
                f"models must predict the same classes: {head!r} is {first.kind} with {first.n_classes} classes, "
                f"{name!r} is {model.kind} with {model.n_classes}"
            )


def _assemble(
    evaluations: dict[str, Evaluation],
    left_out: dict[str, dict[str, LeftOut]],
    n_bins: tuple[int, ...],
    level: float,
    notes: list[str],
) -> Comparison:
    names = tuple(evaluations)
    first = evaluations[names[0]]
    rankings = tuple(_rankings(evaluations))
    pairs = tuple(_pairs(evaluations, left_out, level))
    turned = tuple(_flips(evaluations, pairs))
    order = dominance({name: [value.value for value in e.losses] for name, e in evaluations.items()})
    if len(first.losses) < 5:
        notes.append(f"dominance is by {len(first.losses)} losses: the others need the probabilities of all classes")
    for e in evaluations.values():
        notes += e.notes
    return Comparison(
        names=names,
        n_samples=first.n_samples,
        n_classes=first.n_classes,
        n_bins=n_bins,
        level=level,
        evaluations=evaluations,
        rankings=rankings,
        pairs=pairs,
        flips=turned,
        stability={error: stability(table, counts) for error, counts, table in _tables(evaluations) if len(counts) > 1},
        dominance=order,
        chain=tuple(
            ChainAgreement(error, m, *chain_correlation(values, order.chain))
            for error, counts, table in _tables(evaluations)
            for m, values in zip(counts, table, strict=True)
        ),
        verdict=give_verdict(evaluations, left_out, rankings, turned),
        notes=tuple(dict.fromkeys(notes)),
    )


def _tables(evaluations: Mapping[str, Evaluation]) -> Iterator[tuple[str, tuple[Any, ...], Array]]:
    """For each error: its bin counts, and the values (counts, models), those equal but for rounding made equal."""
    for error in next(iter(evaluations.values())).error_names:
        columns = [e.rows(error) for e in evaluations.values()]
        values = np.array([[r.value for r in rows] for rows in columns]).T
        yield error, tuple(row.n_bins for row in columns[0]), tied(values)


def _rankings(evaluations: Mapping[str, Evaluation]) -> Iterator[Ranking]:
    names = tuple(evaluations)
    for error, counts, table in _tables(evaluations):
        for m, values in zip(counts, table, strict=True):
            order = np.argsort(values, kind="stable")
            places = tuple(ranks(values).tolist())
            member = ERRORS[error]
            yield Ranking(error, member.symbol, member.truthful, m, places, tuple(names[i] for i in order))


def _pairs(
    evaluations: Mapping[str, Evaluation], left_out: Mapping[str, Mapping[str, LeftOut]], level: float
) -> Iterator[Pair]:
    """Paired differences of every squared error, from the leave-one-out values of the models."""
    from ..inference.paired import paired_part

    for error in next(iter(left_out.values())):
        for a, b in combinations(evaluations, 2):
            for c, row in enumerate(evaluations[a].rows(error)):
                loss, u, total = (
                    paired_part(left_out[a][error], left_out[b][error], c, what, level)
                    for what in ("loss", "U", "score")
                )
                other = evaluations[b].rows(error)[c]
                cells = _cells(row, evaluations[a].n_classes)
                condition = _condition(loss, row, other, evaluations[a].n_samples, cells) if row.truthful else None
                yield Pair(a, b, error, row.n_bins, loss, u, total, condition)


def _cells(row: ErrorValue, n_classes: int | None) -> int | None:
    """Into how many cells the rows fall: the bins, of which full errors have so many within each top class."""
    by_class = row.n_bins is not None and isinstance(ERRORS[row.error].binning, ArgmaxQuantile)
    return row.n_bins * (n_classes or 1) if row.n_bins is not None and by_class else row.n_bins


def _condition(gap: Part, first: ErrorValue, second: ErrorValue, n: int, cells: int | None) -> Condition:
    """Whether U of the better model and what the worse could gain by recalibration stay below the loss gap."""
    better, worse = (first, second) if gap.estimate <= 0 else (second, first)
    share = 1.0 if cells is None or 2 * cells >= n else cells / (n - cells)

    def claim(of_better: float | None, of_worse: float | None) -> float:
        """What the gap has to exceed, with U at these values; infinite where there is none."""
        if of_better is None or of_worse is None:
            return float("inf")
        return max(0.0, of_better) + share * max(0.0, of_worse)

    smallest, largest = sorted(abs(end) for end in (gap.low, gap.high))
    beyond_noise = not gap.low <= 0 <= gap.high
    if beyond_noise and claim(better.U_high, worse.U_high) <= smallest:
        return "holds"
    if beyond_noise and claim(better.U, worse.U) <= abs(gap.estimate):
        return "plausible"
    return "fails" if largest < claim(better.U_low, worse.U_low) < float("inf") else "undecided"


def _flips(evaluations: Mapping[str, Evaluation], pairs: Sequence[Pair]) -> Iterator[Flip]:
    names = tuple(evaluations)
    totals: dict[tuple[str, str, str], list[Part]] = {}
    for pair in pairs:
        totals.setdefault((pair.error, pair.first, pair.second), []).append(pair.D)
    for error, counts, table in _tables(evaluations):
        for i, j in flips(table):
            lower = tuple(m for m, row in zip(counts, table, strict=True) if row[i] < row[j])
            higher = tuple(m for m, row in zip(counts, table, strict=True) if row[i] > row[j])
            parts = totals.get((error, names[i], names[j]))
            beyond = None if parts is None else any(p.high < 0 for p in parts) and any(p.low > 0 for p in parts)
            yield Flip(error, names[i], names[j], lower, higher, beyond)


__all__ = ["Comparison", "Flip", "Pair", "Ranking", "TopPredictions", "compare"]
