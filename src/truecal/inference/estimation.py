"""estimate: accuracy, rates and losses on unlabelled rows, from the model's expectation and labelled rows.

Each quantity is a value z(y, p) of a row, and f(p) = Σ_y p_y z(y, p) is what the model itself expects of it. The
estimate is λ·mean f over the new rows + mean (z − λf) over the labelled ones (prediction-powered inference,
Angelopoulos et al. 2023), with λ = Cov(z, f)/((1 + n/N) Var f) between 0 and 1 (power tuning): where the model's own
word helps, the interval is shorter than that of the labelled rows alone, and where it does not, λ is near 0. The
labelled part has the interval that keeps its level when few labels surprise (truecal.inference.mean_losses); both parts
are joined as in the method of variance estimates recovery.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from scipy.special import chdtrc, kolmogorov, ndtri

from ..core.data import as_array, check_probabilities, check_reports, shown
from ..core.losses_by_label import mistakes, squares
from ..core.parameters import described
from ..core.result import Pictured, Result
from ..core.tables import Head, Table, Tabular
from ..core.types import Array, Groups
from ..core.words import p_text
from ..kinds import TopPredictions
from ..kinds.inputs import Inputs, read_inputs
from .checks import check_groups, check_level
from .mean_losses import float_columns, loss_values, mean_interval

ASSUMPTION = "Assumes that the labelled rows are a random draw from the same population as the new ones."
UNLIKE = 0.01
"""A p-value of the predictions' sameness at which a warning is given."""
FEWEST = 10

ByLabel = Callable[[Array], Array]
"""(n, k) values of each row for each label that could come, from distributions (n, k)."""


@final
@dataclass(frozen=True, repr=False, eq=False)
class Quantity(Result):
    """One estimate for the new rows with its interval; `naive` is what the model itself expects there.

    `labelled`, `labelled_low` and `labelled_high` are what the labelled rows say alone, and `power` is λ, how far the
    model's own word was used: 0 not at all, 1 as it stands.
    """

    name: str
    value: float
    low: float
    high: float
    naive: float
    labelled: float
    labelled_low: float
    labelled_high: float
    power: float

    def __repr__(self) -> str:
        return (
            f"{self.name} {self.value:.4g} [{self.low:.4g}, {self.high:.4g}]; "
            f"naive {self.naive:.4g}, labelled rows alone {self.labelled:.4g} "
            f"[{self.labelled_low:.4g}, {self.labelled_high:.4g}]"
        )


@final
@dataclass(frozen=True, repr=False, eq=False)
class Estimate(Tabular, Pictured):
    """Estimates for unlabelled rows; `shift_pvalue` tests whether the predictions of both samples are alike."""

    quantities: tuple[Quantity, ...]
    n_labelled: int
    n_new: int
    level: float
    shift_pvalue: float
    assumption: str = ASSUMPTION
    notes: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """Why the assumption looks wrong, or nothing."""
        if not self.shift_pvalue <= UNLIKE:
            return ""
        return (
            f"the predictions of the two samples differ ({p_text(self.shift_pvalue)}): the labelled rows are not a "
            "random sample of the same population, and the intervals may miss the true values"
        )

    def __getitem__(self, name: str) -> Quantity:
        for quantity in self.quantities:
            if quantity.name == name:
                return quantity
        raise KeyError(f"{shown(name)} was not estimated; expected one of {', '.join(q.name for q in self.quantities)}")

    @property
    def headline(self) -> str:
        """How many rows there are."""
        return f"{self.n_new} new rows, {self.n_labelled} labelled ones, {self.level:.0%} intervals"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The assumption, and a warning where it looks wrong."""
        return (self.assumption, *([f"warning: {self.warning}"] if self.warning else []))

    def rows(self) -> list[dict[str, Any]]:
        """One row per quantity."""
        return [quantity.to_dict() for quantity in self.quantities]

    def table(self) -> Table:
        """Each quantity with its interval, the naive one, and that of the labelled rows alone."""
        heads = [Head("", False), Head("estimate"), Head("interval"), Head("naive"), Head("labelled rows alone")]
        rows = []
        for q in self.quantities:
            alone = f"{q.labelled:.4f} [{q.labelled_low:.4f}, {q.labelled_high:.4f}]"
            rows.append([q.name, f"{q.value:.4f}", f"[{q.low:.4f}, {q.high:.4f}]", f"{q.naive:.4f}", alone])
        return heads, rows


@described(
    "An Estimate.",
    y_true="The labels of the labelled rows.",
    y_proba="The predictions of the labelled rows.",
    p_new="The predictions of the rows without labels, in the same form.",
    cost="What decisions cost, (classes, decisions): the decision of least expected cost is taken. For two classes "
    "(cost of a false positive, cost of a false negative) will do.",
)
def estimate(
    y_true: Any,
    y_proba: Any,
    p_new: Any,
    *,
    cost: Any = None,
    labels: Any = None,
    pos_label: Any = 1,
    groups: Any = None,
    level: float = 0.95,
) -> Estimate:
    """Estimate accuracy, positive rate, Brier score and expected cost on rows that nobody labelled.

    The model's own expectation over `p_new` is corrected by how far it was off on the labelled rows, as much as that
    helps (prediction-powered, power-tuned). **The labelled rows must be a random draw from the same population as the
    new ones**; the result tests whether the predictions of both samples look alike, and warns if they do not. The
    naive mean of the confidence stands beside each estimate.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(.5, .5, 20_300)
    >>> y = rng.random(20_300) < 1 / (1 + (1 / p - 1) ** .5)             # over-confident
    >>> found = tc.estimate(y[:300], p[:300], p[300:])
    >>> accuracy = found["accuracy"]
    >>> accuracy.low < ((p > .5) == y)[300:].mean() < accuracy.high < accuracy.naive
    True
    """
    level = check_level(level)
    inputs = read_inputs(y_true, y_proba, labels=labels, pos_label=pos_label)
    inputs.check_one_label("estimate")
    new = _read_new(p_new, inputs)
    clusters = check_groups(groups, inputs.n_samples, y_true=y_true)
    return estimate_of(inputs, new, level, cost, clusters)


def estimate_of(inputs: Inputs, new: Array, level: float, cost: Any = None, groups: Groups | None = None) -> Estimate:
    """The estimates from validated predictions."""
    if inputs.n_samples < FEWEST:
        raise ValueError(f"y_true must have at least {FEWEST} labelled rows, got {inputs.n_samples}")
    tables = _tables(inputs, cost)
    quantities = tuple(_quantity(name, table, inputs, new, level, groups) for name, table in tables.items())
    return Estimate(quantities, inputs.n_samples, len(new), level, _same(inputs.reports, new))


def _read_new(p_new: Any, inputs: Inputs) -> Array:
    if inputs.kind.over_classes:
        new = check_probabilities(as_array(p_new, "p_new"), "p_new")
        if new.shape[1] != inputs.n_classes:
            raise ValueError(f"p_new must have {inputs.n_classes} columns as y_proba has, got {new.shape[1]}")
        return new
    if isinstance(p_new, TopPredictions):
        p_new = p_new.confidence
    array = as_array(p_new, "p_new")
    if array.ndim == 2 and array.shape[1] == 2 and inputs.kind.one_event:
        array = check_probabilities(array, "p_new")[:, 1]
    return check_reports(array, "p_new")


def _tables(inputs: Inputs, cost: Any) -> dict[str, ByLabel]:
    if inputs.kind.top_only:
        if cost is not None:
            raise ValueError("cost cannot be used: only the top class of these predictions is known")
        return {"accuracy": lambda p: np.broadcast_to([0.0, 1.0], p.shape)}
    tables: dict[str, ByLabel] = {"accuracy": lambda p: 1 - mistakes(p)}
    half = 1.0
    if inputs.kind.one_event:
        tables["positive rate"] = lambda p: np.broadcast_to([0.0, 1.0], p.shape)
        half = 0.5
    tables["Brier score"] = lambda p: half * squares(p)
    if cost is not None:
        matrix = _costs(cost, inputs.n_classes or 2)
        tables["expected cost"] = lambda p: matrix.T[(p @ matrix).argmin(axis=1)]
    return tables


def _costs(cost: Any, classes: int) -> Array:
    matrix = np.asarray(as_array(cost, "cost"), dtype=np.float64)
    if matrix.shape == (2,) and classes == 2:
        matrix = np.array([[0.0, matrix[0]], [matrix[1], 0.0]])  # rows are classes, columns decisions
    if matrix.ndim != 2 or matrix.shape[0] != classes or not np.isfinite(matrix).all():
        raise ValueError(f"cost must be finite numbers of shape ({classes}, decisions), got shape {matrix.shape}")
    return matrix


def _quantity(name: str, table: ByLabel, inputs: Inputs, new: Array, level: float, groups: Groups | None) -> Quantity:
    n, N = inputs.n_samples, len(new)
    columns = float_columns(inputs.reports)
    each = table(columns)
    value, own = each[np.arange(n), inputs.y.astype(np.intp)], np.einsum("ij,ij->i", columns, each)
    p = float_columns(new)
    expected = np.einsum("ij,ij->i", p, table(p))
    power = _power(value, own, expected, n, N)

    def corrected(p: Array) -> Array:
        found = table(p)
        return np.asarray(found - power * np.einsum("ij,ij->i", p, found)[:, None])

    alone = mean_interval(_bounded(inputs, table), None, groups, level)
    part = mean_interval(_bounded(inputs, corrected), None, groups, level)
    z = float(-ndtri((1 - level) / 2))
    mean, spread = float(expected.mean()), float(expected.std(ddof=1)) if N > 1 else 0.0
    more = z * power * spread / np.sqrt(N)
    estimate = part.estimate + power * mean
    low, high = (
        estimate - np.hypot(part.estimate - part.low, more),
        estimate + np.hypot(part.high - part.estimate, more),
    )
    least, most = float(each.min()), float(each.max())
    if name != "expected cost":
        least, most = 0.0, 2.0 if name == "Brier score" and inputs.kind.over_classes else 1.0
    ends = [float(np.clip(x, least, most)) for x in (estimate, low, high)]
    others = [float(np.clip(x, least, most)) for x in (alone.estimate, alone.low, alone.high)]
    return Quantity(name, ends[0], ends[1], ends[2], mean, others[0], others[1], others[2], power)


def _bounded(inputs: Inputs, table: ByLabel) -> Any:
    return replace(loss_values(inputs.y, inputs.reports, None, table), least=-np.inf)


def _power(value: Array, own: Array, expected: Array, n: int, N: int) -> float:
    """Return the weight λ of the model's own expectation that gives the least variance, between 0 and 1."""
    both = float(np.append(own, expected).var())
    if both <= 1e-15:
        return 0.0
    covariance = float(((value - value.mean()) * (own - own.mean())).mean())
    return float(np.clip(covariance / ((1 + n / N) * both), 0.0, 1.0))


def _same(first: Array, second: Array) -> float:
    """The p-value of both samples' predictions having one distribution: Kolmogorov-Smirnov of the confidence, or of the
    one probability, and χ² of the top classes, twice the smaller."""
    if first.ndim == 1:
        return _kolmogorov(first, second)
    tops = [np.bincount(x.argmax(axis=1), minlength=first.shape[1]) for x in (first, second)]
    return min(1.0, 2 * min(_kolmogorov(first.max(axis=1), second.max(axis=1)), _chi_square(*tops)))


def _kolmogorov(first: Array, second: Array) -> float:
    every = np.concatenate([first, second])
    one, two = (np.searchsorted(np.sort(x), every, side="right") / len(x) for x in (first, second))
    size = np.sqrt(len(first) * len(second) / (len(first) + len(second)))
    distance = float(np.abs(one - two).max())
    return float(kolmogorov(distance * (size + 0.12 + 0.11 / size)))


def _chi_square(first: Array, second: Array) -> float:
    both = first + second
    rare = both * min(first.sum(), second.sum()) / both.sum() < 5  # classes that few rows have are taken together
    cells = np.array([[*counts[~rare], counts[rare].sum()] for counts in (first, second)], dtype=np.float64)
    cells = cells[:, cells.sum(axis=0) > 0]
    if cells.shape[1] < 2:
        return 1.0
    wanted = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / cells.sum()
    return float(chdtrc(cells.shape[1] - 1, (np.square(cells - wanted) / wanted).sum()))
