"""Comparison: several models on the same samples, their rankings, flips, dominance order and paired differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from ..baselines import ERRORS
from ..core.data import shown
from ..core.extras import require
from ..core.result import html_text, on_one_line, plain, table_html
from ..core.tables import Head, ranked_lines
from ..core.types import Array, Groups
from ..core.words import count_text
from ..evidence.evidence import Evidence
from ..evidence.memory import copies_text
from ..evidence.values import ErrorValue
from ..inference.mean_losses import IntervalEstimate
from ..inference.paired import spread_part
from ..kinds import COMPOSED
from .assembly import judged
from .columns import Place, Row, columns_at, record, texts
from .diagram import MOST_SHOWN, reliability_svg
from .evaluation import Evaluation
from .measurement import Measurement
from .ranking import Dominance, dominance, flips, ranks, tied
from .same_order import Condition, OrderAt, SameOrder, gap_squared, order_at, recalibrated_gap
from .verdict import Verdict, give_verdict, loss_title

By = Literal["value", "score", "loss"]


@dataclass(frozen=True)
class Ranking:
    """Ranks of all models by the value of one error at one bin count, or by its score or loss, which have no bins: 1 is
    the lowest, ties share."""

    error: str
    symbol: str
    truthful: bool
    n_bins: int | None
    ranks: tuple[float, ...]
    order: tuple[str, ...]
    by: By = "value"


@dataclass(frozen=True)
class Pair:
    """First minus second under one notion of calibration at one bin count: the mean loss and the squared gap.

    `order` says whether the paper's theorem keeps the models in the order of their losses at this bin count (see
    `Comparison.same_order`), and `condition` is its answer: "applies", "does not apply" or "cannot be told".
    """

    first: str
    second: str
    error: str
    n_bins: int | None
    loss: IntervalEstimate
    gap_sq: IntervalEstimate
    order: OrderAt

    @property
    def condition(self) -> Condition:
        """Whether the theorem applies at this bin count."""
        return self.order.condition

    @property
    def lower_loss(self) -> str | None:
        """The model with the smaller loss, if that is beyond noise."""
        if not self.loss.beyond_noise:
            return None
        return self.first if self.loss.estimate < 0 else self.second

    def turned(self) -> Pair:
        """The same pair the other way round."""
        loss, gap_sq = self.loss.turned(), self.gap_sq.turned()
        return replace(self, first=self.second, second=self.first, loss=loss, gap_sq=gap_sq)


@dataclass(frozen=True)
class Flip:
    """Two models that change places with the bin count."""

    error: str
    first: str
    second: str
    first_lower_at: tuple[int, ...]
    second_lower_at: tuple[int, ...]


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(Measurement):
    """Several models on the same samples.

    `evaluations` by name, `rankings` per error and bin count (by value, and by score and loss where there is one),
    `pairs` (paired differences of losses and gaps), `flips`, `dominance` on the losses, and `verdict` in words.
    """

    names: tuple[str, ...]
    n_samples: int
    n_classes: int | None
    level: float
    evaluations: dict[str, Evaluation]
    rankings: tuple[Ranking, ...]
    pairs: tuple[Pair, ...]
    flips: tuple[Flip, ...]
    dominance: Dominance
    verdict: Verdict
    notes: tuple[str, ...]

    @property
    def error_names(self) -> tuple[str, ...]:
        """The errors measured, in order."""
        return self._first.error_names

    @property
    def headline(self) -> str:
        """The truthful error whose loss orders the models."""
        return self._first.headline

    @property
    def _first(self) -> Evaluation:
        return self.evaluations[self.names[0]]

    def symbol(self, error: str) -> str:
        """The paper's name of an error."""
        return self._first.rows(error)[0].symbol

    def values(self, error: str, by: By = "value") -> tuple[Array, tuple[int | None, ...]]:
        """(bin counts, models) of one error, its score or its loss, and the bin counts; models as in `names`."""
        return _values(self.evaluations, error, by)

    def pair(self, first: str, second: str, error: str | None = None, n_bins: int | None = None) -> Pair:
        """The paired difference of two models, whichever way round (the headline error unless named)."""
        for pair in self.pairs:
            if pair.error != (error or self.headline) or (n_bins is not None and pair.n_bins != n_bins):
                continue
            if (pair.first, pair.second) == (first, second):
                return pair
            if (pair.first, pair.second) == (second, first):
                return pair.turned()
        raise ValueError(f"no pair {first!r}, {second!r} of {error or self.headline!r} at n_bins={n_bins}")

    def same_order(self, first: str, second: str, error: str | None = None) -> SameOrder:
        """Whether a theorem of the paper keeps the errors of two models in one order at every number of bins.

        >>> import truecal as tc
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> u = rng.random(5000)
        >>> result = tc.compare(rng.random(5000) < u, {"true": u, "flat": np.full(5000, .5)}, n_bins=100, n_resamples=9)
        >>> result.same_order("true", "flat").condition
        'applies'
        """
        pair = self.pair(first, second, error)
        flipped = pair.loss.estimate > 0
        better, worse = (second, first) if flipped else (first, second)
        loss = pair.loss if flipped else pair.loss.turned()
        near, far = (gap_squared(self.evaluations[name].row(pair.error)) for name in (better, worse))
        pairs = (p for p in self.pairs if p.error == pair.error and {p.first, p.second} == {first, second})
        symbol = ERRORS[pair.error].symbol
        return SameOrder(
            better, worse, symbol, recalibrated_gap(loss, near, far), tuple([p.order for p in pairs]), self.level
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; undefined and infinite numbers become None."""
        errors = {
            name: {
                "symbol": e.symbol,
                "truthful": e.truthful,
                "reason": e.reason,
                "loss": COMPOSED[name].associated_loss if name in COMPOSED else None,
            }
            for name, e in ERRORS.items()
            if name in self.error_names
        }
        more = {"headline": self.headline, "errors": errors, "leaderboard": plain(self.leaderboard())}
        return super().to_dict() | more

    def to_pandas(
        self, what: Literal["leaderboard", "errors", "losses", "rankings", "pairs", "flips"] = "leaderboard"
    ) -> Any:
        """One of the tables: leaderboard (a row per model), errors (per model, error and bin count), losses ..."""
        pd = require("pandas", "pandas")
        rows: list[dict[str, Any]]
        if what == "leaderboard":
            rows = self.leaderboard()
        elif what in ("errors", "losses"):
            rows = [{"model": m} | asdict(row) for m, e in self.evaluations.items() for row in getattr(e, what)]
        elif what == "rankings":
            rows = [
                {"error": r.error, "by": r.by, "n_bins": r.n_bins} | dict(zip(self.names, r.ranks, strict=True))
                for r in self.rankings
            ]
        elif what == "pairs":
            rows = [_flat_pair(pair) for pair in self.pairs]
        elif what == "flips":
            rows = [asdict(flip) for flip in self.flips]
        else:
            raise ValueError(f"what must be leaderboard, errors, losses, rankings, pairs or flips, got {shown(what)}")
        return pd.DataFrame(rows)

    def rows_of_columns(self) -> list[Row]:
        """What columns are read from, lowest loss first."""
        order = sorted(self.names, key=lambda name: self.evaluations[name].ranking_loss)
        eces = [self.evaluations[name].ece for name in order]
        by_ece = [None] * len(order) if None in eces else ranks(tied(eces)).tolist()
        found = zip(order, by_ece, strict=True)
        return [replace(self.evaluations[name].as_row, ece_rank=place) for name, place in found]

    def leaderboard(self, *, sort: Literal["loss", "score"] = "loss") -> list[dict[str, Any]]:
        """Models by their loss, lowest first: rank, the ranks that the data allow, name, and every column of data.

        `rank_low` is 1 more than the number of models whose loss is significantly lower, and `rank_high` leaves out
        those whose loss is significantly higher, both corrected over all pairs. `pvalue` is that of the model's
        calibration test, corrected over the models. With sort="score" the lines are in the order of the scores.
        """
        if sort not in ("loss", "score"):
            raise ValueError(f"sort must be 'loss' or 'score', got {shown(sort)}")
        rows = self.rows_of_columns()
        places = ranks(tied([row.model.ranking_loss for row in rows])).tolist()
        heads = [
            {"rank": place, "rank_low": low, "rank_high": high, "model": row.model.name}
            for place, row in zip(places, rows, strict=True)
            for low, high in [self.verdict.ranks.get(row.model.name, (place, place))]
        ]
        found = [head | record(row) for head, row in zip(heads, rows, strict=True)]
        return (
            found if sort == "loss" else sorted(found, key=lambda row: np.inf if row["score"] is None else row["score"])
        )

    @property
    def title(self) -> str:
        """How many models and samples, and what they are ordered by."""
        by = loss_title(self._first)
        return f"{len(self.names)} models, {count_text(self.n_samples)} samples, lowest {by} first"

    def table(self, *places: Place) -> tuple[list[Head], list[list[str]]]:
        """The heads and rows of the table of models."""
        rows, board = self.rows_of_columns(), self.leaderboard()
        columns = columns_at(rows, *(places or ("table",)))
        heads = [Head("rank"), Head("model", False), *(Head(column.title, column.right) for column in columns)]
        cells = zip(board, texts(rows, columns), strict=True)
        return heads, [[rank_text(row), row["model"], *line] for row, line in cells]

    def explain(self) -> str:
        """Which model predicts best, and what its numbers mean, in sentences for people who do not read tables."""
        best = self.evaluations[self.verdict.best[0]] if self.verdict.best else self._first
        return "\n".join([self.verdict.predictive, f"What to know of {best.name}:", best.explain()])

    def __repr__(self) -> str:
        heads, rows = self.table()
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([self.title, "", *ranked_lines(heads, rows), "", *self.verdict.sentences, *notes])

    def _repr_html_(self) -> str:
        heads, rows = self.table("table", "wide")
        body = table_html(rows, [head.title for head in heads])
        words = "".join(f"<p>{html_text(sentence)}</p>" for sentence in (*self.verdict.sentences, *self.notes))
        shown = [row.model for row in self.rows_of_columns()[:MOST_SHOWN]]
        pictures = "".join(reliability_svg(found) for found in shown)
        return f'{body}{words}<div style="overflow-x: auto; white-space: nowrap">{pictures}</div>'


def rank_text(row: Mapping[str, Any]) -> str:
    """The ranks that the data allow, such as "1" or "2-4"."""
    low, high = row["rank_low"], row["rank_high"]
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def _flat_pair(pair: Pair) -> dict[str, Any]:
    row = {"first": pair.first, "second": pair.second, "error": pair.error, "n_bins": pair.n_bins}
    for part in ("loss", "gap_sq"):
        found = getattr(pair, part)
        row |= {f"{part}_{key}": getattr(found, key) for key in ("estimate", "low", "high", "pvalue", "note")}
    return row | {"condition": pair.condition}


def make_comparison(
    evaluations: dict[str, Evaluation],
    evidence: dict[str, Evidence],
    clusters: Groups | None,
    level: float,
    notes: list[str],
) -> Comparison:
    """The comparison of several measured models."""
    evidence = {on_one_line(name): found for name, found in evidence.items()}
    evaluations = judged({on_one_line(name): found for name, found in evaluations.items()}, level)
    names = tuple(evaluations)
    first = evaluations[names[0]]
    tables = _tables(evaluations)
    rankings = tuple(_rankings(names, tables))
    turned = tuple(_flips(names, tables))
    shared = set.intersection(*({value.name for value in e.losses} for e in evaluations.values()))
    losses = {name: [value.value for value in e.losses if value.name in shared] for name, e in evaluations.items()}
    order = dominance(losses)
    if first.about.top_only and first.sampling is None:
        notes.append(f"dominance is by {len(first.losses)} losses: the others need the probabilities of all classes")
    repeated = [found.copies for found in evidence.values() if found.copies]
    if repeated:  # a row that is a copy is one under every model
        notes.append(copies_text(min(repeated), first.n_samples))
    for name, e in evaluations.items():
        own = copies_text(evidence[name].copies, e.n_samples)
        notes += [note for note in e.notes if note != own]
    pairs = tuple(_pairs(evaluations, evidence, level, clusters))
    return Comparison(
        names=names,
        n_samples=first.n_samples,
        n_classes=first.n_classes,
        level=level,
        evaluations=evaluations,
        rankings=rankings,
        pairs=pairs,
        flips=turned,
        dominance=order,
        verdict=give_verdict(evaluations, evidence, clusters, rankings, turned, pairs),
        notes=tuple(dict.fromkeys(notes)),
    )


Table = tuple[str, By, tuple[Any, ...], Array]


def _tables(evaluations: Mapping[str, Evaluation]) -> list[Table]:
    """For each error by value, and by score and loss if truthful: its bin counts, and (counts, models) with near-ties
    equal."""
    first, found = next(iter(evaluations.values())), list[Table]()
    for error in first.error_names:
        ways: tuple[By, ...] = ("value", "score") if first.row(error).ranks else ("value",)
        ways += ("loss",) if error == first.headline else ()
        for by in ways:
            table, counts = _values(evaluations, error, by)
            found.append((error, by, counts, tied(table)))
    return found


def _values(evaluations: Mapping[str, Evaluation], error: str, by: By) -> tuple[Array, tuple[int | None, ...]]:
    """(bin counts, models) of one error, its score or its loss, and the bin counts."""
    if by == "loss":
        return np.array([[e.ranking_loss for e in evaluations.values()]]), (None,)
    if by == "score":
        scores = [e.row(error).score for e in evaluations.values()]
        return np.array([[np.nan if score is None else score for score in scores]]), (None,)
    columns = [e.rows(error) for e in evaluations.values()]
    table = np.array([[row.value for row in rows] for rows in columns], dtype=np.float64).T
    return table, tuple([row.n_bins for row in columns[0]])


def _rankings(names: Sequence[str], tables: Sequence[Table]) -> list[Ranking]:
    found = []
    for error, by, counts, table in tables:
        member, named = ERRORS[error], np.array(names, dtype=object)
        orders = named[np.argsort(table, axis=-1, kind="stable")].tolist()
        for m, order, places in zip(counts, orders, ranks(table).tolist(), strict=True):
            found.append(Ranking(error, member.symbol, member.truthful, m, tuple(places), tuple(order), by))
    return found


def _pairs(
    evaluations: Mapping[str, Evaluation], evidence: Mapping[str, Evidence], level: float, groups: Any
) -> Iterator[Pair]:
    """Paired differences of every notion of calibration that has spreads."""
    first = next(iter(evidence.values()))
    for error, spreads in first.spreads.items():
        for a, b in combinations(evaluations, 2):
            one, two = evidence[a], evidence[b]
            loss = one.loss_difference(error, two, level, groups)
            if loss is None:
                continue
            differ = one.differing(error, two, groups)
            for m in spreads:
                if m not in one.spreads[error] or m not in two.spreads[error]:
                    continue
                gap = spread_part(one.spreads[error][m], two.spreads[error][m], level, differ)
                rows = [next(r for r in evaluations[name].rows(error) if r.n_bins == m) for name in (a, b)]
                yield Pair(a, b, error, m, loss, gap, _order(loss, rows, [evaluations[x].row(error) for x in (a, b)]))


def _order(loss: IntervalEstimate, rows: Sequence[ErrorValue], headlines: Sequence[ErrorValue]) -> OrderAt:
    """The theorem at one bin count, from the rows of both models there and at the headline's."""
    flipped = loss.estimate > 0
    near, far = map(gap_squared, headlines[::-1] if flipped else headlines)
    return order_at(loss if flipped else loss.turned(), rows[flipped], near, far)


def _flips(names: Sequence[str], tables: Sequence[Table]) -> Iterator[Flip]:
    for error, _, counts, table in tables:
        for i, j in flips(table) if len(counts) > 1 else ():
            lower = tuple(m for m, row in zip(counts, table, strict=True) if row[i] < row[j])
            higher = tuple(m for m, row in zip(counts, table, strict=True) if row[i] > row[j])
            yield Flip(error, names[i], names[j], lower, higher)
