"""The two queries: how predictions are distributed, then the sums of every cell and block.

Both are unions of group-bys, one for each view: a class, the confidence, or the one probability there is. A group-by of
one class reads two or three columns, so that an engine that stores columns reads each about once. All errors of a view
share one partition, cut at the edges of all of them, and are told apart when the sums are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ...core.sample import Bounds
from ...core.types import Array
from .expressions import Row, engine, loss_columns

GRID = 4096
"""The cells of the first query: between 0 and 1, finer towards both ends."""
SUMS = ("n", "outcome", "residual", "residual_sq")
WEIGHTED = ("weight", "weight_sq", "heaviest", "outcome_sq", "loss")
_DIGITS = 15  # a decimal of so many digits is the same double in every engine


def of_rows() -> tuple[str, ...]:
    """The columns of what is summed over whole rows."""
    return (*loss_columns(), "infinite", "least")


@final
@dataclass(frozen=True)
class QueryPart:
    """One group-by of a query: a view of one model, cut at some edges."""

    model: int
    view: str
    cuts: tuple[float, ...] = ()
    """The edges inside (0, 1), increasing."""


# -- the first query: where predictions are -------------------------------------------------------------------------


def first_query(rows: Sequence[Row], parts: Sequence[QueryPart]) -> Any:
    """Rows by part and grid cell: what quantile edges are made from. It names no label."""
    found = []
    for number, part in enumerate(parts):
        view = rows[part.model].view(part.view, 0, labels=False)
        view = _grid_cells(view.select("u"))
        sums = view.group_by("cell").aggregate(n=view.count())
        found.append(sums.select(part=engine().literal(number, "int64"), cell=sums.cell.cast("int64"), n=sums.n))
    return _union(found)


def _grid_cells(view: Any) -> Any:
    """⌊G·t⌋ with t = ½(2u)^¼ below ½, and the same from the other end above; −1 where u is NULL."""
    ibis, most = engine(), GRID // 2
    inside = ibis.cases(
        ((view.u > 0) & (view.u <= 0.5), view.u), ((view.u > 0.5) & (view.u < 1), 1.0 - view.u), else_=0.0
    )
    view = view.mutate(inside=inside)
    view = view.mutate(low=((view.inside * 2.0).sqrt().sqrt() * float(most)).floor().cast("int64"))
    low = ibis.ifelse(view.low < most, view.low, most - 1)
    return view.mutate(cell=ibis.cases((view.u.isnull(), -1), (view.u <= 0.5, low), else_=GRID - 1 - low))


def grid_edges() -> Array:
    """The edges of the cells, rounded to 12 digits: the second query is a text that people read."""
    t = np.arange(GRID // 2 + 1) / GRID
    low = (2 * t) ** 4 / 2
    both = np.concatenate([low, 1 - low[-2::-1]])
    return np.array([float(f"{edge:.12g}") for edge in both])


@final
@dataclass(frozen=True, eq=False)
class Histogram:
    """The distributions of several views by grid cell, from which edges between bins of about equal size are made."""

    counts: tuple[Array, ...]

    def edges(self, n_bins: int, bounds: Bounds) -> Array:
        """(views, n_bins + 1): a value that many rows share may be several edges in a row."""
        grid, rows = grid_edges(), []
        for count in self.counts:
            ends = np.cumsum(count)
            wanted = np.arange(1, n_bins) * ends[-1] / n_bins
            after = np.minimum(np.searchsorted(ends, wanted), GRID - 1)
            below = np.concatenate([[0], ends])[after]
            nearer = np.where(ends[after] - wanted < wanted - below, after + 1, after)
            rows.append(np.concatenate([[bounds[0]], np.clip(grid[nearer], *bounds), [bounds[1]]]))
        return np.stack(rows)

    def tied(self, edges: Array) -> bool:
        """A note on ties: a cell of the grid holds equal and near predictions."""
        return False


def histograms(table: Any, parts: Sequence[QueryPart]) -> tuple[list[Array], list[int]]:
    """What the first query gave: for each part the rows of each cell, and for each model its number of rows."""
    found = [np.zeros(GRID) for _ in parts]
    rows = [0] * (1 + max(part.model for part in parts))
    part, cell, n = (column_values(table, name) for name in ("part", "cell", "n"))
    for i in range(len(parts)):
        mine = part == i
        inside = mine & (cell >= 0) & (cell < GRID)
        np.add.at(found[i], cell[inside].astype(np.intp), n[inside])
        rows[parts[i].model] = int(n[mine].sum())
    return found, rows


# -- the second query: sums -----------------------------------------------------------------------------------------


def second_query(rows: Sequence[Row], parts: Sequence[QueryPart], blocks: int, about: str | None = None) -> Any:
    """Sums by part, cell, block and subgroup; with `about`, one row more that holds this text."""
    found = [_sums(rows[part.model], number, part, blocks) for number, part in enumerate(parts)]
    if about is not None:
        found.insert(0, _about(rows[0], found[0], about))
    return _union(found)


def _sums(row: Row, number: int, part: QueryPart, blocks: int) -> Any:
    ibis = engine()
    view, whole = row.view(part.view, blocks), part.view == "confidence"
    weighted, keys = row.columns.weight is not None, [f"by_{i}" for i in range(len(row.columns.by))]
    even = engine_name(row.source) == "polars" and _is_even(part.cuts, row.dtype)
    cell = _even(view.u, part.cuts, row.dtype) if even else _search(view.u, part.cuts)
    cell = cell.fill_null(0).clip(0, len(part.cuts)) if even and whole else cell  # there a negative cell is a fault
    view = view.mutate(cell=ibis.ifelse(view.fault > 0, -view.fault, cell) if whole else cell, r=view.u - view.z)
    kept = [*keys, "cell", *(["block"] if blocks else [])]
    r, z, n = view.r, view.z, view.count()
    sums: dict[str, Any] = {"n": n}
    if weighted:
        w, x = view.w, view.w * view.r
        sums |= {"outcome": (w * z).sum(), "residual": x.sum(), "residual_sq": (x * x).sum(), "weight": w.sum()}
        sums |= {
            "weight_sq": (w * w).sum(),
            "heaviest": w.max(),
            "outcome_sq": (w * w * z).sum(),
            "loss": (x * r).sum(),
        }
    else:
        sums |= {"outcome": z.sum(), "residual": r.sum(), "residual_sq": (r * r).sum()}
    if whole and row.losses:
        least = ibis.ifelse(view.p0 < view.p1, view.p0, view.p1) if row.kind.one_event else view.least
        summed = {name: view[name] for name in (*loss_columns(), "infinite")}
        if weighted:  # a row that does not count may have an infinite loss
            used = view.w > 0
            summed |= {name: view.w * summed[name] for name in loss_columns()}
            summed["infinite"], least = ibis.ifelse(used, view.infinite, 0.0), ibis.ifelse(used, least, 1.0)
        sums |= {name: values.sum() for name, values in summed.items()} | {"least": least.min()}
    if whole and row.columns.id is not None:
        sums["example"] = ibis.ifelse(view.fault > 0, view.id, ibis.null(view.id.type())).min()
    table = view.group_by(kept).aggregate(**sums)
    return _columns(table, number, keys, blocks, weighted)


def _columns(table: Any, number: int, keys: Sequence[str], blocks: int, weighted: bool) -> Any:
    """The same columns for every part, so that they can be put below each other."""
    ibis = engine()
    there = set(table.columns)
    found = {"part": ibis.literal(number, "int64"), "cell": table.cell.cast("int64")}
    found["block"] = table.block.cast("int64") if blocks else ibis.literal(0, "int64")
    found |= {name: table[name].cast("string") for name in keys}
    found["n"] = table.n.cast("int64")
    for name in (*SUMS[1:], *(WEIGHTED if weighted else ()), *of_rows()):
        found[name] = table[name].cast("float64") if name in there else ibis.null("float64")
    found["example"] = table.example.cast("string") if "example" in there else ibis.null("string")
    return table.select(**found)


def _about(row: Row, like: Any, text: str) -> Any:
    """One row whose column `example` holds a text, as part −1."""
    ibis = engine()
    values = {name: ibis.null(kind) for name, kind in like.schema().items()}
    values |= {"part": ibis.literal(-1, "int64"), "example": ibis.literal(text, "string")}
    one = row.source.limit(1)
    return one.select(**values)


def _union(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else engine().union(*parts, distinct=False)


def engine_name(table: Any) -> str:
    """The name of the engine, empty for a table without one."""
    backends, _ = table._find_backends()
    return str(backends[0].name) if backends else ""


def exactly(value: float) -> Any:
    """A double as an expression. Engines read decimals of up to 15 digits alike; a longer one is cast from its text."""
    ibis = engine()
    if len(f"{value:.17g}") > 2 and float(f"{value:.{_DIGITS}g}") != value:
        return ibis.literal(repr(value)).cast("float64")
    return ibis.literal(float(f"{value:.{_DIGITS}g}"), "float64")


def _search(u: Any, cuts: Sequence[float]) -> Any:
    """The number of cuts below u, by halving: an engine looks at log₂ of them."""
    ibis = engine()

    def between(low: int, high: int) -> Any:
        if low == high:
            return ibis.literal(low, "int64")
        middle = (low + high) // 2
        return ibis.ifelse(u <= exactly(cuts[middle]), between(low, middle), between(middle + 1, high))

    return between(0, len(cuts))


def _even(u: Any, cuts: Sequence[float], dtype: str) -> Any:
    """The same for cuts j/m, by arithmetic: of the cut nearest to u, whether u is above it.

    For an engine that takes every branch of a choice for every row. Cuts are compared as the edges that they are, in
    the type of the predictions. At 0 and beyond 1 the cell is outside by one, which is put right when sums are read.
    """
    m = len(cuts) + 1
    nearest = (u * float(m) + 0.5).try_cast("int64")  # NULL for NaN, which is counted as a fault elsewhere
    edge = nearest / float(m)
    edge = edge.cast("float32").cast("float64") if dtype == "float32" else edge
    return nearest - (u <= edge).cast("int64")  # one type: Polars joins no parts whose cells are of two


def _is_even(cuts: Sequence[float], dtype: str) -> bool:
    """Whether the cuts are j/m in the type of the predictions, also where an engine multiplies by 1/m."""
    m = len(cuts) + 1
    j = np.arange(1, m)
    return m > 2 and all(np.array_equal(cuts, x.astype(dtype).astype(np.float64)) for x in (j / m, j * (1 / m)))


# -- what came back -------------------------------------------------------------------------------------------------


def column_values(table: Any, name: str) -> Array:
    """A column of an Arrow table as numbers, NULL as NaN."""
    column = table.column(name).combine_chunks()
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def texts(table: Any, name: str) -> list[str | None]:
    """A column of an Arrow table as texts."""
    return [None if value is None else str(value) for value in table.column(name).to_pylist()]
