"""decision_curve: at which thresholds a model is worth acting on, and for whom one model is better than another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, final

import numpy as np

from ..core.data import as_array, shown
from ..core.parameters import described
from ..core.result import Pictured, on_one_line
from ..core.sample import unit_weights
from ..core.tables import Head, Table, Tabular
from ..core.types import Array
from ..core.words import p_text
from ..inference.acting import MOST_POINTS, Acting, Contrast, Way, best_use, critical, familywise, largest, pointwise
from ..inference.checks import check_draws, check_groups, check_level
from ..inference.mean_losses import IntervalEstimate
from ..inference.thresholds import check_share
from ..kinds.inputs import Inputs
from .compare import read_models
from .ranking import Dominance, dominance

Range = tuple[float, float]
"""The first and the last threshold of a run of thresholds."""


@final
@dataclass(frozen=True, eq=False)
class Band:
    """A curve over thresholds: its interval at each threshold, and a band that holds at all of them at once."""

    estimate: Array
    low: Array
    high: Array
    band_low: Array
    band_high: Array


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """One model: net benefit, mean L_t, and the share of rows that it acts on, over thresholds.

    `useful` are the ranges of thresholds at which acting on the model is better than acting on everybody and better
    than acting on nobody, at all of them at once.
    """

    name: str
    net_benefit: Band
    loss: Band
    acted: Array
    useful: tuple[Range, ...]

    @property
    def sentence(self) -> str:
        """At which thresholds the model is worth acting on."""
        if not self.useful:
            return f"{self.name}: no gain over acting on everybody or on nobody can be told at any threshold"
        where = f"for thresholds {_ranges(self.useful)}; elsewhere no gain can be told"
        return f"{self.name}: better than acting on everybody and on nobody {where}"


@final
@dataclass(frozen=True, eq=False)
class CurveDifference:
    """Net benefit of the first model less that of the second, with a band over all thresholds and pairs of models.

    `pvalues` are familywise: over all thresholds and pairs. At thresholds in `alike` no row is decided differently.
    """

    first: str
    second: str
    difference: Band
    pvalues: Array
    alike: Array
    better: tuple[Range, ...]
    worse: tuple[Range, ...]
    everywhere: str | None
    """The model that is better for every decision maker, where there is one."""

    @property
    def pvalue(self) -> float:
        """The smallest p-value over thresholds, corrected over all of them and over pairs."""
        return float(self.pvalues.min())

    @property
    def sentence(self) -> str:
        """For whom the first model is better."""
        a, b = self.first, self.second
        if self.alike.all():
            return f"{a} and {b} lead to the same decisions at every threshold"
        better, worse = self.better, self.worse
        if not better:
            a, b, better, worse = b, a, worse, ()
        if not better:
            return f"no difference between {b} and {a} can be told at any threshold ({p_text(self.pvalue)})"
        if self.everywhere is not None:
            low, high = better[0][0], better[-1][1]
            asked = f"between {low:.4g} and {high:.4g}" if high > low else f"of {low:.4g}"
            return f"{a} is better than {b} for every decision maker with a threshold {asked}"
        less = f", worse for {_ranges(worse)}" if worse else ""
        return f"{a} is better than {b} for thresholds {_ranges(better)}{less}; elsewhere no difference can be told"


@final
@dataclass(frozen=True, eq=False)
class BestUse:
    """Acting on a share of the rows, those with the highest predictions: at least `threshold`.

    `found` is the share of all events that are among them, and `right` the share of them that are events.
    """

    name: str
    share: float
    threshold: float
    found: IntervalEstimate
    right: IntervalEstimate

    @property
    def sentence(self) -> str:
        """What acting on that share finds."""
        found, right = (f"{x.estimate:.1%} [{x.low:.1%}, {x.high:.1%}]" for x in (self.found, self.right))
        return (
            f"{self.name}: acting on the {100 * self.share:.4g}% of rows with the highest predictions (at least "
            f"{self.threshold:.4g}) finds {found} of the events; {right} of these rows are events"
        )


@final
@dataclass(frozen=True, repr=False, eq=False)
class DecisionCurve(Tabular, Pictured):
    """Net benefit and mean L_t of models over thresholds, with bands, differences, and what they show.

    Who acts where the prediction is at least t loses t by a false alarm and 1 − t by a miss: L_t. Net benefit is
    prevalence − mean L_t/(1 − t), and the integral of 2 L_t over t is the Brier score.
    """

    thresholds: Array
    curves: tuple[Curve, ...]
    act_on_all: Band
    differences: tuple[CurveDifference, ...]
    uses: tuple[BestUse, ...]
    prevalence: float
    n_samples: int
    n_resamples: int
    level: float
    notes: tuple[str, ...] = ()
    derived = ("sentences",)

    def __getitem__(self, name: str) -> Curve:
        found = {curve.name: curve for curve in self.curves}
        if name not in found:
            raise KeyError(f"no model is called {shown(name)}; expected one of {', '.join(found)}")
        return found[name]

    @cached_property
    def dominance(self) -> Dominance:
        """The order of the models on these rows: mean L_t no larger at any threshold, and smaller at one."""
        return dominance({curve.name: curve.loss.estimate for curve in self.curves})

    @property
    def sentences(self) -> tuple[str, ...]:
        """At which thresholds each model is worth acting on, and for whom one model is better than another."""
        pairs, uses = (pair.sentence for pair in self.differences), (use.sentence for use in self.uses)
        return (*(curve.sentence for curve in self.curves), *pairs, *uses)

    @property
    def last_used(self) -> float:
        """The last threshold at which a model acts on 1% of the rows: pictures of net benefit end there."""
        used = np.any([curve.acted >= 0.01 for curve in self.curves], axis=0)
        return float(self.thresholds[used][-1] if used.any() else self.thresholds[-1])

    @property
    def headline(self) -> str:
        """How many rows and thresholds there are."""
        t = self.thresholds
        of = f"{len(t)} thresholds from {t[0]:.4g} to {t[-1]:.4g}" if len(t) > 1 else f"threshold {t[0]:.4g}"
        return f"{self.n_samples} rows, events {self.prevalence:.1%}, {of}, {self.level:.0%} bands of net benefit"

    def rows(self) -> list[dict[str, Any]]:
        """One row per model and threshold; "act on all" is the first model."""
        t, all_rows = self.thresholds, self.act_on_all
        # as net benefit = prevalence − (1 − prevalence)·t/(1 − t), t·(1 − prevalence) is:
        ends = (all_rows.estimate, all_rows.high, all_rows.low, all_rows.band_high, all_rows.band_low)
        loss = Band(*(t * (1 - t) * (1 - net) for net in ends))
        found = []
        for curve in (Curve("act on all", all_rows, loss, np.ones(len(t)), ()), *self.curves):
            columns = {"threshold": t, "cost_ratio": t / (1 - t), "acted": curve.acted}
            for name, band in (("net_benefit", curve.net_benefit), ("loss", curve.loss)):
                columns |= {name if end == "estimate" else f"{name}_{end}": x for end, x in vars(band).items()}
            rows = np.column_stack([*columns.values()]).tolist()
            found += [{"model": curve.name, **dict(zip(columns, row, strict=True))} for row in rows]
        return found

    def table(self, thresholds: Sequence[float] | None = None) -> Table:
        """Titles and texts: net benefit with its simultaneous band, at some thresholds."""
        heads = [Head("threshold"), Head("act on all"), *(Head(curve.name) for curve in self.curves)]
        texts = []
        for j in self._chosen(thresholds):
            bands = [curve.net_benefit for curve in self.curves]
            cells = [f"{fixed(b.estimate[j])} [{fixed(b.band_low[j])}, {fixed(b.band_high[j])}]" for b in bands]
            texts.append([f"{self.thresholds[j]:.4g}", fixed(self.act_on_all.estimate[j]), *cells])
        return heads, texts

    def _chosen(self, thresholds: Sequence[float] | None) -> list[int]:
        """Those nearest to the given ones; by default round ones, or nine in equal steps."""
        t = self.thresholds
        if thresholds is not None:
            return [int(np.argmin(np.abs(t - one))) for one in thresholds]
        round_ones = [j for j, one in enumerate(t.tolist()) if np.isclose([0.05, *np.arange(1, 10) / 10], one).any()]
        if len(t) <= 12 or len(round_ones) < 4:
            return sorted({round(j) for j in np.linspace(0, len(t) - 1, min(len(t), 9)).tolist()})
        return round_ones


def fixed(value: float) -> str:
    """A number with four decimals."""
    return f"{value:.4f}".replace("-", "−")


def _ranges(ranges: Sequence[Range]) -> str:
    """Ranges of thresholds in words."""
    some = [f"{low:.4g} to {high:.4g}" if high > low else f"{low:.4g}" for low, high in ranges]
    return some[0] if len(some) == 1 else f"{', '.join(some[:-1])} and {some[-1]}"


def _runs(holds: Array, thresholds: Array) -> tuple[Range, ...]:
    """Runs of thresholds at which something holds."""
    steps = np.flatnonzero(np.diff(np.concatenate([[0], holds.astype(int), [0]])))
    return tuple((float(thresholds[i]), float(thresholds[j - 1])) for i, j in steps.reshape(-1, 2).tolist())


@described(
    "A DecisionCurve.",
    y_proba="Probabilities as in `evaluate`, or a mapping of names to those of several models.",
    thresholds="Increasing thresholds strictly between 0 and 1. Default: 0.01 to 0.99 in steps of 0.01.",
    of='The class whose event is acted on, for several classes; or "confidence", the default for them: act on the top '
    "class where its probability is at least the threshold.",
    prevalence="The share of events in the population that is acted on, where that of these rows is another one. The "
    "predictions are taken as they are.",
    resource="The share of rows that can be acted on: adds what acting on those with the highest predictions finds.",
)
def decision_curve(
    y_true: Any,
    y_proba: Any,
    *,
    thresholds: Any = None,
    of: Any = None,
    prevalence: float | None = None,
    resource: float | None = None,
    labels: Any = None,
    pos_label: Any = 1,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
    n_resamples: int = 1999,
    seed: int = 0,
) -> DecisionCurve:
    """Is a model worth acting on, at which thresholds, and which of several models is better for whom?

    Who acts where the prediction is at least t accepts (1 − t)/t false alarms for one event that is found. Net benefit
    is the share of rows that are events acted on, less t/(1 − t) for each false alarm. The curves have intervals at
    each threshold and bands that hold at all of them; models are compared on the same rows, with p-values corrected
    over thresholds and pairs.

    References
    ----------
    Vickers, Elkin 2006, doi 10.1177/0272989X06295361; Ehm, Gneiting, Jordan, Krüger 2016, doi 10.1111/rssb.12154.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.beta(1, 3, 2000)
    >>> y = rng.random(2000) < risk
    >>> found = tc.decision_curve(y, {"risk": risk, "rounded": risk.round(1)}, thresholds=[.1, .2, .3])
    >>> found.sentences[0]
    'risk: better than acting on everybody and on nobody for thresholds 0.1 to 0.3; elsewhere no gain can be told'
    """
    level, (draws, seed) = check_level(level), check_draws(n_resamples, seed)
    models = y_proba if isinstance(y_proba, Mapping) else {"model": y_proba}
    inputs, notes = read_models(y_true, models, {"labels": labels, "pos_label": pos_label}, sample_weight)
    events = {on_one_line(name): events_of(model.on_host(), of, labels) for name, model in inputs.items()}
    first = next(iter(inputs.values())).on_host()
    clusters = check_groups(groups, first.n_samples, y_true=y_true)
    weights = unit_weights(first.weights).get("weights", np.ones(first.n_samples))
    t = _check_thresholds(thresholds, len(events))
    for name, (y, _) in events.items():
        if len(values := np.unique(y[weights > 0])) == 1:
            what = "has the event" if values[0] else "is without the event"
            of_model = f" of {name}" if len(events) > 1 and of is not None else ""
            raise ValueError(f"y_true needs rows with the event and rows without it: every row{of_model} {what}")
    outcomes, predictions = ([pair[i] for pair in events.values()] for i in (0, 1))
    w = weights
    if prevalence is not None:
        prevalence = check_share(prevalence, "prevalence")
        if not all(np.array_equal(outcomes[0], other) for other in outcomes):
            raise ValueError("prevalence cannot be used: whether the top class is right differs between the models")
        notes.append(f"the events are weighted to a prevalence of {prevalence:.4g}; predictions are taken as they are")
        share = float(w @ outcomes[0]) / float(w.sum())
        w = w * np.where(outcomes[0], prevalence / share, (1 - prevalence) / (1 - share))
    uses = []
    if resource is not None:
        part = check_share(resource, "resource")
        uses = [BestUse(name, part, *best_use(*one, part, w, clusters, level)) for name, one in events.items()]
    acting = Acting.of(outcomes, predictions, t, weights, clusters, prevalence)
    names, pairs = list(events), list(combinations(range(len(events)), 2))
    ways: list[tuple[Way, Way]] = [("all", "none"), *pairs]
    ways += [way for k in range(len(names)) for way in ((k, "none"), ("perfect", k), (k, "all"))]
    contrasts = {way: Contrast(acting, *way) for way in ways}
    maxima = dict(zip(contrasts, largest(list(contrasts.values()), draws, seed).T, strict=True))

    def band(way: tuple[Way, Way], family: Array | None = None, scale: Array | float = 1.0) -> Band:
        worst = critical(maxima[way] if family is None else family, level)
        ends = [end * scale for z in (pointwise(level), worst) for end in contrasts[way].interval(z)]
        return Band(contrasts[way].estimate * scale, *ends)

    curves = []
    for k, name in enumerate(names):
        over = np.maximum(maxima[k, "none"], maxima[k, "all"])
        gains = (band((k, "none"), over).band_low > 0) & (band((k, "all"), over).band_low > 0)
        acted = np.array([w[predictions[k] >= one].sum() for one in t.tolist()]) / w.sum()
        curves.append(Curve(name, band((k, "none")), band(("perfect", k), None, 1 - t), acted, _runs(gains, t)))
    family = np.max([maxima[pair] for pair in pairs], axis=0) if pairs else np.zeros(draws)
    differences = []
    for a, b in pairs:
        contrast, between = contrasts[a, b], band((a, b), family)
        better, worse, alike = between.band_low > 0, between.band_high < 0, contrast.alike
        whole = a if (better | alike).all() and better.any() else b if (worse | alike).all() and worse.any() else None
        everywhere = None if whole is None else names[whole]
        runs = (_runs(better, t), _runs(worse, t))
        pvalues = familywise(contrast.beyond(), family)
        differences.append(CurveDifference(names[a], names[b], between, pvalues, alike, *runs, everywhere))
    about = (float(w @ outcomes[0]) / float(w.sum()), first.n_samples, draws, level, tuple(notes))
    return DecisionCurve(t, tuple(curves), band(("all", "none")), tuple(differences), tuple(uses), *about)


def events_of(inputs: Inputs, of: Any, labels: Any) -> tuple[Array, Array]:
    """Per row, whether the event happened and its predicted probability."""
    inputs.check_one_label("decision_curve")
    confident = isinstance(of, str) and of == "confidence"
    if inputs.kind.one_event and not confident:
        if of is not None:
            raise ValueError(f"of={shown(of)} cannot be used: there is one event; pos_label says which label it is")
        return inputs.y.astype(bool), inputs.reports
    if inputs.kind.top_only or of is None or confident:
        top = inputs.top_label()
        return top.y.astype(bool), top.reports
    classes: list[Any] = list(range(inputs.n_classes or 0)) if labels is None else [str(label) for label in labels]
    wanted = of if labels is None else str(of)
    if isinstance(of, bool) or wanted not in classes:
        raise ValueError(f'of must be "confidence" or one of the classes {shown(classes)}, got {shown(of)}')
    column = classes.index(wanted)
    return inputs.y == column, inputs.reports[:, column]


def _check_thresholds(thresholds: Any, models: int) -> Array:
    t = np.atleast_1d(as_array(np.arange(1, 100) / 100 if thresholds is None else thresholds, "thresholds"))
    if t.ndim != 1 or not len(t) or t.dtype.kind not in "iuf":
        raise ValueError(f"thresholds must be numbers strictly between 0 and 1, got {shown(thresholds)}")
    t = t.astype(np.float64)
    bad = ~((t > 0) & (t < 1))
    if bad.any():
        raise ValueError(
            f"thresholds must lie strictly between 0 and 1, got {t[bad][0]:.4g}: at 0 everybody is acted on, at 1 a "
            "false alarm costs infinitely more than a miss"
        )
    if (np.diff(t) <= 0).any():
        raise ValueError("thresholds must increase")
    if len(t) * models > MOST_POINTS:
        raise ValueError(f"{models} models can be compared at {MOST_POINTS // models} thresholds, got {len(t)}")
    return t
