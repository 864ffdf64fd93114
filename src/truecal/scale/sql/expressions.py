"""Which columns of a table hold what, and the numbers of a row as expressions of its engine.

Everything is cast to double precision before it is subtracted or added. An expression says what it means in every
engine: no function is used that engines define differently, and comparisons hold for NaN whether an engine puts it
above all numbers or beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ...core.data import HALF_ROW_SUM_TOLERANCE, ROW_SUM_TOLERANCE, shown
from ...core.extras import require
from ...core.losses import LOSSES
from ...core.properties import Binary, Confidence
from ...core.words import IS_OUTCOME
from ...evidence.stream_losses import summed_losses
from ...kinds import BINARY, CLASSES, TOP_LABEL, Kind

_LOW, _MOST = (1 << 30) - 1, 1e150
_FEW_TERMS = 64
"""So many single-precision probabilities sum to 1 within 1e-5 as they are: enough to check that they do."""
_STEPS = (1640531527, 1103515245)
"""Odd multipliers below 2^31: a product of 30 bits with one of them stays below 2^61 in any engine."""

FAULTS = {
    1: "the label is NULL",
    2: "a prediction is NULL",
    3: "a prediction is NaN or outside [0, 1]",
    4: "the predictions do not sum to 1",
    5: "the label is none of the classes",
    6: "the weight is NULL, NaN, negative or above 1e150",
    7: "the array has another number of classes",
    8: "the subgroup is NULL",
}
"""What can be wrong with a row, by number. The first that applies is counted."""


def engine() -> Any:
    """Ibis; a missing one raises an error with the extra to install."""
    return require("ibis", "sql")


def loss_columns() -> tuple[str, ...]:
    """The columns of the losses that no table holds; infinite rows of the cross-entropy are counted beside it."""
    return tuple(["log_loss" if name == "cross_entropy" else name for name in summed_losses()])


@final
@dataclass(frozen=True)
class ModelColumns:
    """The columns of one model: one probability, one per class, an array of them, or a class and its confidence."""

    proba: tuple[str, ...] = ()
    array: str | None = None
    confidence: str | None = None
    predicted: str | None = None
    correct: str | None = None

    @staticmethod
    def read(given: Any, schema: Mapping[str, Any]) -> ModelColumns:
        """A column, a list of columns, or a mapping with "confidence" and "predicted" or "correct"."""
        if isinstance(given, Mapping):
            unknown = set(given) - {"confidence", "predicted", "correct"}
            if unknown or "confidence" not in given or ("predicted" in given) == ("correct" in given):
                raise ValueError(
                    "predictions of the top class are 'confidence' with 'predicted' (a class, beside the label) or "
                    f"'correct' (true or false), got {shown(dict(given))}"
                )
            named: dict[str, Any] = {name: column_of(name, column, schema) for name, column in given.items()}
            return ModelColumns(**named)
        names = [given] if isinstance(given, str) else given
        if not isinstance(names, Sequence) or not names:
            raise TypeError(f"proba must be a column or a list of columns, got {shown(given)}")
        columns = tuple(column_of("proba", name, schema) for name in names)
        if len(set(columns)) < len(columns):
            raise ValueError(f"proba names a column twice: {shown(list(columns))}")
        if len(columns) == 1 and schema[columns[0]].is_array():
            return ModelColumns(array=columns[0])
        return ModelColumns(proba=columns)


def column_of(what: str, name: Any, schema: Mapping[str, Any]) -> str:
    """The name of a column that the table has."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be the name of a column, got {shown(name)}")
    if name not in schema:
        raise ValueError(f"{what}: the table has no column {shown(name)}; expected one of {', '.join(schema)}")
    return name


@final
@dataclass(frozen=True)
class Columns:
    """What is read of every row, beside the predictions of the models."""

    label: str | None
    id: str | None = None
    weight: str | None = None
    by: tuple[str, ...] = ()
    labels: tuple[Any, ...] | None = None
    pos_label: Any = 1

    def check(self, schema: Mapping[str, Any], engine: str) -> None:
        """All columns are there, and have types that can be read by this engine."""
        for what in ("label", "id", "weight"):
            if (name := getattr(self, what)) is not None:
                column_of(what, name, schema)
        for name in self.by:
            column_of("by", name, schema)
        if self.id is not None and not (schema[self.id].is_integer() or schema[self.id].is_string()):
            raise TypeError(f"id must be a column of whole numbers or text, {shown(self.id)} holds {schema[self.id]}")
        if self.id is not None and engine == "sqlite" and schema[self.id].is_string():
            raise TypeError("id must be a column of whole numbers: SQLite has no hash of text; or leave out id")
        if self.weight is not None and not schema[self.weight].is_numeric():
            raise TypeError(f"weight must be a column of numbers, {shown(self.weight)} holds {schema[self.weight]}")
        if self.label is not None and self.label in self.by:
            raise ValueError(f"by {IS_OUTCOME}")


TOP, EVENT = Confidence.kind, Binary.kind
"""The names of the views that are not the number of a class."""


@final
@dataclass(frozen=True, eq=False)
class Row:
    """The numbers of a row of one model, as expressions over one table.

    `table` has the columns that the expressions name. `views` by name: TOP, EVENT, or the number of a
    class; each is a function that makes (table, report, outcome), so that a query reads only what one view needs.
    """

    kind: Kind
    classes: int
    dtype: str
    columns: Columns
    model: ModelColumns
    source: Any
    losses: bool = True
    """Whether losses that no table holds are summed: cross-entropy and the spherical score."""

    @staticmethod
    def of(source: Any, columns: Columns, model: ModelColumns, classes: int | None, losses: bool) -> Row:
        """The rows of a table; `classes` is the length of an array of probabilities."""
        schema = source.schema()
        if model.confidence is not None:
            kind: Kind = TOP_LABEL
            number, types = 1, [schema[model.confidence]]
        elif model.array is not None:
            if classes is None or classes < 2:
                raise ValueError("an array column needs the number of its classes, at least 2: pass n_classes=")
            kind, number, types = CLASSES, classes, [schema[model.array].value_type]
        else:
            kind, number = (BINARY, 2) if len(model.proba) == 1 else (CLASSES, len(model.proba))
            types = [schema[name] for name in model.proba]
        if number == 2:
            kind = BINARY
        for dtype in types:
            if not dtype.is_numeric():
                raise TypeError(f"predictions must be columns of numbers, got {dtype}")
        if columns.label is None and model.correct is None:
            raise ValueError("label= is missing: the column of the labels")
        single = all(dtype.is_floating() and dtype.nbytes <= 4 for dtype in types)
        return Row(
            kind, number, "float32" if single else "float64", columns, model, source, losses and kind.class_losses
        )

    # -- what every query selects -----------------------------------------------------------------------------------

    def select(self, table: Any, blocks: int, **more: Any) -> Any:
        """The expressions in `more`, with block, weight and subgroups of the row."""
        found = dict(more)
        if blocks:
            found["block"] = block_of(table[self.columns.id], blocks)
        if self.columns.weight is not None:
            found["w"] = _double(table[self.columns.weight])
        found |= {f"by_{i}": table[name] for i, name in enumerate(self.columns.by)}
        return table.select(**found)

    def reports(self, table: Any) -> list[Any]:
        """The probabilities of the classes, or the one there is: in their own type, where all have the same floating
        one, so that the largest is found before anything is cast."""
        if self.model.array is not None:
            array = table[self.model.array]
            fits = array.length() == self.classes
            found = [engine().ifelse(fits, array[j], engine().null(array[0].type())) for j in range(self.classes)]
        else:
            found = [table[name] for name in self.model.proba or (self.model.confidence,)]
        same = len({column.type().copy(nullable=True) for column in found}) == 1 and found[0].type().is_floating()
        return found if same else [_double(column) for column in found]

    def label(self, table: Any) -> Any:
        """The number of the class that came; whether the positive one came, as 0 or 1."""
        ibis = engine()
        if self.kind.top_only:
            if self.model.correct is not None:
                return _whole(table[self.model.correct])
            label, predicted = table[self.columns.label], table[self.model.predicted]
            return ibis.ifelse(label == predicted, 1, ibis.ifelse(label != predicted, 0, ibis.null("int8")))
        label = table[self.columns.label]
        if self.columns.labels is not None:
            return ibis.cases(
                *((label == name, j) for j, name in enumerate(self.columns.labels)),
                else_=ibis.ifelse(label.isnull(), ibis.null("int64"), -1),
            )
        if self.kind.one_event and self.columns.pos_label not in (0, 1):
            return ibis.ifelse(label == self.columns.pos_label, 1, ibis.ifelse(label.notnull(), 0, ibis.null("int8")))
        label = _whole(label)
        return 1 - label if self.kind.one_event and self.columns.pos_label == 0 else label

    @property
    def outcomes(self) -> int:
        """How many labels there may be."""
        return self.classes if self.kind.of_classes else 2

    # -- one view ---------------------------------------------------------------------------------------------------

    def view(self, name: str, blocks: int, labels: bool = True) -> Any:
        """A table of the report u and the outcome z of one view, with block, weight and subgroups; without labels, of
        the report alone."""
        if name == TOP:
            return self._top(blocks, labels)
        table = self.source
        j = 1 if name == EVENT else int(name)
        reports = self.reports(table)
        report = _double(reports[min(j, len(reports) - 1)])
        if j == 0 and len(reports) == 1:
            report = self._rounded(1.0 - report)
        if not labels:
            return table.select(u=report)
        return self.select(table, blocks, u=report, z=_flag(self.label(table) == j))

    def _rounded(self, value: Any) -> Any:
        """As predictions of this type hold it."""
        return value.cast("float32").cast("float64") if self.dtype == "float32" else value

    def _top(self, blocks: int, labels: bool) -> Any:
        """The report and outcome of the top class, and what is summed of whole rows: fault, losses, least chance."""
        ibis, table = engine(), self.source
        reports = {f"p{j}": report for j, report in enumerate(self.reports(table))}
        if self.kind.top_only:
            rows = self.select(table, blocks, **reports, **self._checked(table)) if labels else table.select(**reports)
            rows = rows.mutate(p0=_double(rows.p0)).mutate(u=lambda t: t.p0)
            return rows.mutate(z=_flag(rows.y == 1), fault=self._fault(rows)) if labels else rows
        rows = self.select(table, blocks, **reports, **self._checked(table)) if labels else table.select(**reports)
        if self.kind.one_event:  # the column of the positive class counts, the other one is checked
            given = [_double(rows[name]) for name in reports]
            sums = {"total": _total(given), "least": ibis.least(*given)} if len(given) > 1 else {}
            rows = rows.mutate(p1=given[-1], p0=self._rounded(1.0 - given[-1]), **sums)
            rows = rows.mutate(u=ibis.greatest(rows.p0, rows.p1))
        else:
            p = [rows[name] for name in reports]
            few = self.classes <= _FEW_TERMS and not self.half
            total = _double(_total(p)) if few else _total([_double(x) for x in p])
            rows = rows.mutate(highest=ibis.greatest(*p), least=_double(ibis.least(*p)), total=total)
            rows = rows.mutate(u=_double(rows.highest))
        if not labels:
            return rows.select("u")
        p = [rows[f"p{j}"] for j in range(self.classes)]
        highest = rows.u if self.kind.one_event else rows.highest
        top = ibis.cases(*((p[j] == highest, j) for j in range(self.classes - 1)), else_=self.classes - 1)
        checked = {"z": _flag(top == rows.y), "fault": self._fault(rows)}
        if not self.losses:
            return rows.mutate(**checked)
        own = ibis.cases(*((rows.y == j, p[j]) for j in range(self.classes - 1)), else_=p[-1])
        squares = _total([_double(x) * _double(x) for x in p])
        rows = rows.mutate(**checked, own=_double(own), squares=squares)
        chance, norm = (ibis.ifelse(x > 0, x, 1.0) for x in (rows.own, rows.squares))
        formulas = [loss.streamed for name, loss in LOSSES.items() if loss.streamed and name != "cross_entropy"]
        others = {name: formula(rows.own, norm) for name, formula in zip(loss_columns()[1:], formulas, strict=True)}
        return rows.mutate(log_loss=-chance.ln(), **others, infinite=_flag(~(rows.own > 0)))

    def _checked(self, table: Any) -> dict[str, Any]:
        """What a fault is looked for in: the label, the id for an example, and columns that may be NULL."""
        found = {"y": self.label(table)}
        if self.columns.id is not None:
            found["id"] = table[self.columns.id]
        if self.model.array is not None:
            found["length"] = table[self.model.array].length()
        if self.model.predicted is not None:
            found["predicted"] = table[self.model.predicted].isnull()
        return found

    def _fault(self, rows: Any) -> Any:
        """The number of what is wrong with a row, 0 where nothing is."""
        ibis = engine()
        slack = 8 * float(np.finfo(self.dtype).eps)
        found = []
        if self.model.array is not None:
            found.append((rows.length.notnull() & (rows.length != self.classes), 7))
        if self.model.predicted is not None:
            found.append((rows.predicted, 2))
        found.append((rows.y.isnull(), 1))
        if self.kind.top_only or len(self.model.proba) == 1:
            report = rows.p0 if self.kind.top_only else rows.p1
            found += [(report.isnull(), 2), (~((report >= -slack) & (report <= 1 + slack)), 3)]
        else:
            most = HALF_ROW_SUM_TOLERANCE if self.half else ROW_SUM_TOLERANCE
            found += [
                (rows.total.isnull(), 2),
                (~((rows.total.abs() <= 1e300) & (rows.least >= -slack) & (rows.u <= 1 + slack)), 3),
                (~((rows.total - 1.0).abs() <= most), 4),
            ]
        found.append((~((rows.y >= 0) & (rows.y < self.outcomes)), 5))
        if self.columns.weight is not None:
            found.append((rows.w.isnull() | ~((rows.w >= 0) & (rows.w <= _MOST)), 6))
        found += [(rows[f"by_{i}"].isnull(), 8) for i in range(len(self.columns.by))]
        return ibis.cases(*found, else_=0)

    @property
    def half(self) -> bool:
        """Whether predictions are of half precision."""
        schema = self.source.schema()
        types = [schema[name] for name in self.model.proba] or [schema[self.model.array].value_type]
        return all(dtype.is_floating() and dtype.nbytes == 2 for dtype in types)


def block_of(id: Any, blocks: int) -> Any:
    """The block of a row: a hash of its id, the same in every engine where the id is a whole number.

    Two multiplications of 30 bits, of which the middle ones are kept; text is first hashed by the engine.
    """
    x = id.hash() if id.type().is_string() else id.cast("int64")
    x = ((x & _LOW) + ((x & (_LOW << 30)) >> 30)) & _LOW
    x = ((x * _STEPS[0]) >> 15) & _LOW
    x = ((x * _STEPS[1]) >> 15) & _LOW
    return x & (blocks - 1) if blocks & (blocks - 1) == 0 else x % blocks


def number_of_block(id: Any, blocks: int) -> Any:
    """The same of an array of whole numbers."""
    x = np.asarray(id, dtype=np.int64)
    x = ((x & _LOW) + ((x & (_LOW << 30)) >> 30)) & _LOW
    for step in _STEPS:
        x = ((x * step) >> 15) & _LOW
    return x % blocks


def _double(column: Any) -> Any:
    return column if column.type().is_float64() else column.cast("float64")


def _flag(condition: Any) -> Any:
    """1 or 0 in double precision: the literal 1.0 is a decimal in some engines."""
    return engine().ifelse(condition, 1, 0).cast("float64")


def _whole(column: Any) -> Any:
    """Labels as whole numbers: those that are none keep being none."""
    kind = column.type()
    if kind.is_boolean():
        return engine().ifelse(column, 1, engine().ifelse(column.isnull(), engine().null("int8"), 0))
    if not kind.is_integer():
        raise TypeError(
            f"labels must be whole numbers, true or false, or one of labels=; the column of label= holds {kind}"
        )
    return column


def _total(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
