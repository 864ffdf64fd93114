"""clinical: what papers on predicted risks report, with the names and in the order of TRIPOD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.data import as_array, shown
from ..core.parameters import described
from ..core.result import Pictured, Result, on_one_line
from ..core.tables import Head, Table, Tabular
from ..core.types import Array, Groups
from ..inference.checks import check_groups, check_level
from ..inference.risk_measures import TITLES, FlexibleCurve, RiskMeasure, flexible, simple_measures
from ..kinds.inputs import read_inputs
from .decision_curve import DecisionCurve, decision_curve, events_of, fixed

BINS = 20
PER_CENTRE = tuple(TITLES)[:4]


@final
@dataclass(frozen=True, eq=False)
class Centre(Result):
    """One group of rows, such as a hospital: O:E, intercept, slope and C statistic, where they are defined."""

    name: str
    n_samples: int
    n_events: int
    measures: tuple[RiskMeasure, ...]


@final
@dataclass(frozen=True, repr=False, eq=False)
class Clinical(Tabular, Pictured):
    """Measures of predicted risks with intervals, flexible calibration curves, and the decision curve.

    `risks` has the numbers of rows without and with the event in 20 ranges of the risk, at `edges`. With groups,
    intervals rest on them as clusters, and `centres` has the measures of each.
    """

    name: str
    measures: tuple[RiskMeasure, ...]
    curve: FlexibleCurve
    edges: Array
    risks: Array
    decisions: DecisionCurve
    centres: tuple[Centre, ...]
    n_samples: int
    n_events: int
    level: float

    def __getitem__(self, name: str) -> RiskMeasure:
        if name not in TITLES:
            raise KeyError(f"{name!r} is no measure; expected one of {', '.join(TITLES)}")
        return self.measures[list(TITLES).index(name)]

    @property
    def headline(self) -> str:
        """How many rows and events there are."""
        of = f", {len(self.centres)} centres" if self.centres else ""
        return f"{self.name}: {self.n_samples} rows, {self.n_events} events ({self.n_events / self.n_samples:.1%}){of}"

    def table(self) -> Table:
        """Titles and texts of the measures."""
        heads = [Head("measure", False), Head("value"), Head(f"{self.level:.0%} interval")]
        return heads, [[m.title, *_texts(m)] for m in self.measures]

    def centres_table(self) -> Table:
        """Titles and texts of the centres."""
        heads = [Head("centre", False), Head("rows"), Head("events"), *(Head(TITLES[name]) for name in PER_CENTRE)]
        rows = []
        for centre in self.centres:
            cells = [" ".join(_texts(m)).strip() for m in centre.measures] or [""] * len(PER_CENTRE)
            rows.append([centre.name, str(centre.n_samples), str(centre.n_events), *cells])
        return heads, rows

    def rows(self) -> list[dict[str, Any]]:
        """One row per measure, then those of centres."""
        parts = [("", self.measures), *((centre.name, centre.measures) for centre in self.centres)]
        return [
            {"centre": name, "measure": m.title, "value": m.value, "low": m.low, "high": m.high}
            for name, measures in parts
            for m in measures
        ]

    def tables(self) -> list[Table]:
        """The measures, and those of centres."""
        return [self.table(), *([self.centres_table()] if self.centres else [])]

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the decision curve shows."""
        return self.decisions.sentences


def _texts(measure: RiskMeasure) -> tuple[str, str]:
    """The value and its interval, where it has one."""
    if measure.low is None or measure.high is None:
        return "∞" if np.isinf(measure.value) else fixed(measure.value), ""
    return fixed(measure.value), f"[{fixed(measure.low)}, {fixed(measure.high)}]"


@described(
    "A Clinical.",
    y_proba="The predicted risk of each row, or (n, 2) probabilities.",
    groups="The centre of each row, such as its hospital: intervals rest on centres, and each has its own measures.",
    thresholds="Thresholds of the decision curve. Default: 0.01 to 0.99.",
    name="The name of the model.",
    of="The class whose risk is predicted, for several classes.",
)
def clinical(
    y_true: Any,
    y_proba: Any,
    *,
    groups: Any = None,
    thresholds: Any = None,
    of: Any = None,
    labels: Any = None,
    pos_label: Any = 1,
    name: str = "model",
    level: float = 0.95,
    seed: int = 0,
) -> Clinical:
    """What clinical papers report of predicted risks: calibration, discrimination, overall performance and utility.

    O:E ratio, calibration intercept (slope fixed at 1) and slope, C statistic, Brier score and scaled Brier score
    (IPA), ICI, E50, E90 and Emax, each with an interval; a loess curve and a restricted cubic spline with bands; the
    distribution of risks by outcome; the decision curve.

    References
    ----------
    Collins et al. 2024 (TRIPOD+AI), doi 10.1136/bmj-2023-078378.
    Van Calster et al. 2019, doi 10.1186/s12916-019-1466-7.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.beta(1, 3, 2000)
    >>> found = tc.clinical(rng.random(2000) < risk, risk)
    >>> round(found["oe_ratio"].value, 3), found["slope"].low < 1 < found["slope"].high
    (1.043, True)
    """
    level = check_level(level)
    inputs = read_inputs(y_true, y_proba, labels=labels, pos_label=pos_label).on_host()
    y, p = events_of(inputs, of, labels)
    p = p.astype(np.float64)
    if not isinstance(name, str):
        raise TypeError(f"name must be text, got {shown(name)}")
    if not p.sum() > 0:
        raise ValueError("y_proba is 0 in every row: there is no ratio of observed to expected events")
    clusters = check_groups(groups, inputs.n_samples, y_true=y_true)
    decisions = decision_curve(y, {name: p}, thresholds=thresholds, groups=groups, level=level, seed=seed)
    curve, distances = flexible(y, p, clusters, level, seed)
    measures = (*simple_measures(y, p, clusters, level), *distances)
    edges = np.linspace(0, 1, BINS + 1)
    risks = np.array([np.histogram(p[y == event], edges)[0] for event in (False, True)])
    centres = () if clusters is None else _centres(y, p, clusters, np.asarray(as_array(groups, "groups")), level)
    about = (measures, curve, edges, risks, decisions, centres, len(y), int(np.count_nonzero(y)), level)
    return Clinical(on_one_line(name), *about)


def _centres(y: Array, p: Array, groups: Groups, names: Array, level: float) -> tuple[Centre, ...]:
    found = []
    for number, name in enumerate(np.unique(names).tolist()):
        own, risks = y[groups[0] == number], p[groups[0] == number]
        events = int(np.count_nonzero(own))
        known = 0 < events < len(own) and risks.sum() > 0
        measures = simple_measures(own, risks, None, level)[: len(PER_CENTRE)] if known else []
        found.append(Centre(on_one_line(name), len(own), events, tuple(measures)))
    return tuple(found)
