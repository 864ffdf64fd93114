"""From the result of the second query to streams: the same tables and blocks, read by the same code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from ...core.cut_score import SCORE_CELLS
from ...core.data import shown
from ...core.properties import Property
from ...core.sample import Totals
from ...core.table import BinTable
from ...core.types import Array
from ...core.words import IS_OUTCOME
from ...evidence.stream_losses import LossSums
from ...evidence.stream_table import Blocks, StreamTable, edges_of
from ...results.assembly import judge_subgroups
from ...results.comparison import Comparison
from ...results.evaluation import Evaluation
from ...sums.tabulate import refuse_exponent
from ..stream import Stream, compare_streams, evaluation_of
from .expressions import FAULTS, loss_columns
from .query_plan import Counted, QueryPlan
from .statements import SUMS, WEIGHTED, QueryPart, column_values, of_rows, texts

NULL_BANDS = "null bands need the rows, which stay where they are: they are left out"
NO_ID = "no intervals and no test: pass id=, a column of row ids, whose hash puts rows into blocks"
MOST_SUBGROUPS = 10_000


@final
@dataclass(frozen=True, eq=False)
class QuerySums:
    """What the second query gave: for each part its fields, each (subgroups, blocks, cells)."""

    plan: QueryPlan
    parts: tuple[QueryPart, ...]
    fields: tuple[Mapping[str, Array], ...]
    subgroups: tuple[tuple[str, ...], ...]

    @staticmethod
    def read(table: Any, plan: QueryPlan) -> QuerySums:
        """The result of a query as an Arrow table; rows that cannot be measured raise an error with their number."""
        parts = plan.parts()
        names = ["part", "cell", "block", *SUMS, *(WEIGHTED if plan.weighted else ()), *of_rows()]
        keys = [f"by_{i}" for i in range(len(plan.by))]
        if missing := [name for name in [*names, *keys, "example"] if name not in table.column_names]:
            raise ValueError(f"the sums lack the column {shown(missing[0])}; expected the result of the second query")
        columns = {name: column_values(table, name) for name in names}
        real = columns["part"] >= 0
        columns = {name: values[real] for name, values in columns.items()}
        whole = np.isin(columns["part"], [i for i, part in enumerate(parts) if part.view == "confidence"])
        _refuse_faults(
            columns, whole, [text for text, there in zip(texts(table, "example"), real, strict=True) if there]
        )
        found = [[text for text, there in zip(texts(table, key), real, strict=True) if there] for key in keys]
        subgroups, group = _subgroups(found, len(columns["part"]))
        return QuerySums(plan, parts, _arrays(columns, plan, parts, group, len(subgroups)), subgroups)

    def of(self, chosen: Sequence[int] | None = None) -> QuerySums:
        """The sums of some subgroups together, by default of all."""

        def joined(name: str, values: Array) -> Array:
            picked = values if chosen is None else values[list(chosen)]
            if name == "heaviest":
                return picked.max(axis=0)[None]  # type: ignore[no-any-return]  # an array
            return (picked.min(axis=0) if name == "least" else picked.sum(axis=0))[None]  # type: ignore[no-any-return]  # an array or a tensor

        fields = tuple({name: joined(name, values) for name, values in part.items()} for part in self.fields)
        return replace(self, fields=fields, subgroups=((),))

    # -- as streams -------------------------------------------------------------------------------------------------

    def stream(self, number: int) -> Stream:
        """The stream of one model, as if it had counted the rows."""
        model = self.plan.models[number]
        own = {p.view: (p, f) for p, f in zip(self.parts, self.fields, strict=True) if p.model == number}
        rows = int(own["confidence"][1]["n"].sum())
        stream = model.stream(self.plan.blocks, rows, self._losses(model, own))
        for key, (property, rule) in model.tables().items():
            views = [own[view] for view in model.views_of(property.kind)]
            stream.tallies[key] = self._tally(model, property, rule, views)
        return stream

    def _tally(
        self, model: Counted, property: Property, rule: Any, views: Sequence[tuple[QueryPart, Mapping[str, Array]]]
    ) -> StreamTable:
        weighted = self.plan.weighted
        edges = edges_of(rule, property.bounds, np.dtype(model.dtype))
        cells = edges.shape[-1] - 1
        both = np.atleast_2d(edges).astype(np.float64)
        found: dict[str, Array] = {}
        for field in (*SUMS, *(name for name in WEIGHTED if weighted and name != "heaviest")):
            each = [
                _coarse(fields[field][0], part, both[j if len(both) > 1 else 0])
                for j, (part, fields) in enumerate(views)
            ]
            found[field] = np.stack(each, axis=1)  # (blocks, views, cells)
        count = found["weight" if weighted else "n"]
        loss = found["loss" if weighted else "residual_sq"].sum(axis=(1, 2))
        weight, outcome = count[:, 0].sum(axis=1), found["outcome"][:, 0].sum(axis=1)
        wrong = weight - outcome if property.picks_outcome else np.zeros(len(weight))
        wrong_sq = float(wrong.sum())
        if weighted and property.picks_outcome:
            wrong_sq = float((found["weight_sq"] - found["outcome_sq"])[:, 0].sum())
        if weighted:
            refuse_exponent(int(np.frexp(views[0][1]["heaviest"].max())[1]))
        totals = Totals(
            rows=int(found["n"][:, 0].sum()),
            weight=float(weight.sum()),
            weight_sq=float(found["weight_sq"][:, 0].sum()) if weighted else float(weight.sum()),
            largest=float(views[0][1]["heaviest"].max()) if weighted else 1.0,
            wrong=float(wrong.sum()),
            wrong_sq=wrong_sq,
            residual_sq=float(loss.sum()) if weighted else 0.0,
        )
        sums: dict[str, Any] = {
            "count": count.sum(axis=0),
            "outcome": found["outcome"].sum(axis=0),
            "residual": found["residual"].sum(axis=0),
            "residual_sq": found["residual_sq"].sum(axis=0),
            "tie_variance": np.zeros((len(views), cells)),
            "weight_sq": found["weight_sq"].sum(axis=0) if weighted else None,
        }
        table = BinTable(property.kind, rule, totals=totals, bounds=property.bounds, edges=edges, **sums)
        kept = self.plan.blocks and rule != SCORE_CELLS
        blocks = Blocks(found["residual"], np.stack([weight, wrong, loss])) if kept else None
        return StreamTable.of(table, blocks)

    def _losses(self, model: Counted, own: Mapping[str, tuple[QueryPart, Mapping[str, Array]]]) -> LossSums | None:
        if not model.losses:
            return None
        fields = own["confidence"][1]
        names = loss_columns()
        by_block = {name: fields[name][0].sum(axis=1) for name in (*names, "infinite")}
        weight = fields["weight" if self.plan.weighted else "n"][0].sum(axis=1)
        by_block["log_loss"] = np.where(by_block["infinite"] > 0, np.inf, by_block["log_loss"])
        least = float(fields["least"].min())
        sums = np.stack([*(by_block[name] for name in names), weight])
        return LossSums(sums, int(by_block["infinite"].sum()), least > 0)

    # -- as results -------------------------------------------------------------------------------------------------

    def evaluation(self, number: int, level: float, seed: int) -> Evaluation:
        """One model, with its subgroups."""
        whole, name = self.of(), self.plan.models[number].name
        found = evaluation_of(whole.stream(number), level, name, seed)
        for key, chosen in self._chosen().items():
            part = self.of(chosen).stream(number)
            found.subgroups[key] = evaluation_of(part, level, key, seed)
        if len(found.subgroups) > 1:
            words = f"tests and directions of subgroups are corrected for their number, {len(found.subgroups)}"
            found = found.with_notes([words])
        return found.with_notes([*([] if self.plan.blocks else [NO_ID]), NULL_BANDS])

    def _chosen(self) -> dict[str, list[int]]:
        """The subgroups by name: the values of one column, or "column=value" of several."""
        found: dict[str, list[int]] = {}
        for i, name in enumerate(self.plan.by):
            self._refuse_outcome(i)
            for group, values in enumerate(self.subgroups):
                key = values[i] if len(self.plan.by) == 1 else f"{name}={values[i]}"
                found.setdefault(key, []).append(group)
        return {key: found[key] for key in sorted(found)}

    def _refuse_outcome(self, i: int) -> None:
        """Subgroups that are the outcomes under other names are refused, as in memory."""
        values = sorted({group[i] for group in self.subgroups})
        of = {key: [g for g, group in enumerate(self.subgroups) if group[i] == key] for key in values}
        chosen = [(p, f) for p, f in zip(self.parts, self.fields, strict=True) if p.model == 0]
        outcomes = [f for p, f in chosen if p.view not in ("confidence",)] or [f for _, f in chosen]
        came = np.array([[float(f["outcome"][of[key]].sum()) for f in outcomes] for key in values])
        if len(outcomes) == 1:
            field = "weight" if self.plan.weighted else "n"
            rest = np.array([float(outcomes[0][field][of[key]].sum()) for key in values]) - came[:, 0]
            came = np.column_stack([rest, came])
        seen = came > 0
        if len(values) > 1 and (seen.sum(axis=1) == 1).all() and (seen.sum(axis=0) <= 1).all():
            raise ValueError(f"by {IS_OUTCOME}")

    def comparison(self, level: float, seed: int) -> Comparison:
        """All models."""
        evaluations = {m.name: self.evaluation(i, level, seed) for i, m in enumerate(self.plan.models)}
        if self.plan.by:
            judge_subgroups(evaluations)
        whole = self.of()
        streams = {model.name: whole.stream(i) for i, model in enumerate(self.plan.models)}
        return compare_streams(streams, level, evaluations)

    def result(self, level: float, seed: int) -> Evaluation | Comparison:
        """The Evaluation of one model or the Comparison of several."""
        if len(self.plan.models) > 1:
            return self.comparison(level, seed)
        found = self.evaluation(0, level, seed)
        judge_subgroups({found.name: found})
        return found


def _refuse_faults(columns: Mapping[str, Array], whole: Array, examples: Sequence[str | None]) -> None:
    """Rows that cannot be measured were counted in cells below 0 of the parts that look at whole rows: say how many, of
    which kind, and name one."""
    cell = np.where(whole, columns["cell"], 0.0)
    if not (cell < 0).any():
        return
    first = columns["part"][cell < 0].min()  # the same rows may be bad for every model
    words, total = [], 0
    for number, what in FAULTS.items():
        mine = np.flatnonzero((cell == -number) & (columns["part"] == first)).tolist()
        rows = int(columns["n"][mine].sum())
        if rows:
            named = sorted(text for i in mine if (text := examples[i]) is not None)
            words.append(f"in {rows} {what}" + (f", such as the row with id {shown(named[0])}" if named else ""))
            total += rows
    raise ValueError(f"{total} row{'s' * (total > 1)} cannot be measured: {'; '.join(words)}")


def _subgroups(columns: Sequence[Sequence[str | None]], rows: int) -> tuple[tuple[tuple[str, ...], ...], Array]:
    """The distinct combinations of subgroups, and that of every row of the sums."""
    if not columns:
        return ((),), np.zeros(rows, dtype=np.intp)
    keys = [tuple(value or "" for value in row) for row in zip(*columns, strict=True)]
    known = {key: i for i, key in enumerate(sorted(set(keys)))}
    if len(known) > MOST_SUBGROUPS:
        raise ValueError(f"by has {len(known)} combinations of subgroups, at most {MOST_SUBGROUPS} are allowed")
    return tuple(known), np.array([known[key] for key in keys], dtype=np.intp)


def _arrays(
    columns: Mapping[str, Array], plan: QueryPlan, parts: Sequence[QueryPart], group: Array, groups: int
) -> tuple[Mapping[str, Array], ...]:
    """(subgroups, blocks, cells) of every field of every part; rows that are twice, missing or no sums are refused."""
    part, cell, block = (columns[name] for name in ("part", "cell", "block"))
    blocks, found = max(plan.blocks, 1), []
    if not len(part):
        raise ValueError("expected at least one row, the table has none")
    if not np.isin(part, np.arange(len(parts))).all():
        raise ValueError(f"the sums have parts that are none of the {len(parts)} of their query")
    for number, one in enumerate(parts):
        mine = part == number
        beyond = 0 if one.view == "confidence" else 1  # cells by arithmetic: 0 is one below the first, 1 + ε above
        shape = (groups, blocks, len(one.cuts) + 1 + 2 * beyond)
        places = (group[mine], block[mine], cell[mine] + beyond)
        for name, values, most in zip(("subgroup", "block", "cell"), places, shape, strict=True):
            if not ((values >= 0) & (values < most) & (values % 1 == 0)).all():
                last = most - 1 - (2 * beyond if name == "cell" else 0)
                raise ValueError(f"part {number} of the sums has a {name} outside 0 to {last}")
        place = np.ravel_multi_index([values.astype(np.intp) for values in places], shape)
        if len(np.unique(place)) < len(place):
            raise ValueError(f"part {number} of the sums has a cell twice")
        names = [*SUMS, *(WEIGHTED if plan.weighted else ())]
        if one.view == "confidence" and plan.models[one.model].losses:
            names += of_rows()
        fields = {}
        for name in names:
            values = columns[name][mine]
            if not np.isfinite(values).all():
                raise ValueError(f"part {number} of the sums has a value in column {name} that is not finite")
            whole = np.full(int(np.prod(shape)), 1.0 if name == "least" else 0.0)
            whole[place] = values
            fields[name] = _inside(whole.reshape(shape), np.maximum if name == "heaviest" else np.add, beyond)
        found.append(fields)
    rows = {float(fields["n"].sum()) for fields in found}
    if len(rows) > 1 or not all(n > 0 and n % 1 == 0 for n in rows):
        raise ValueError(
            f"the parts of the sums are of different numbers of rows, {shown(sorted(rows))}: some are missing"
        )
    return tuple(found)


def _inside(values: Array, join: Any, beyond: int) -> Array:
    """The cells beside the outer two joined with these."""
    if not beyond:
        return values
    cells = values[..., 1:-1].copy()
    for outer, inner in ((0, 0), (-1, -1)):
        cells[..., inner] = join(cells[..., inner], values[..., outer])
    return cells


def _coarse(values: Array, part: QueryPart, edges: Array) -> Array:
    """(blocks, cells) sums of a view over the cells of one rule, from those of its finer partition."""
    cuts = np.array([*part.cuts, np.inf])
    cell = np.searchsorted(edges[1:-1], cuts, side="left")
    out = np.zeros((len(values), len(edges) - 1))
    np.add.at(out.T, cell, values.T)
    return out
