"""segments: find where predictions are off, with tests of all segments corrected for how many there are.

A segment's statistics are its sum of residuals and, for one probability per row, the score of the slope in logit q =
a + b·logit u about its own mean, each over its standard deviation under calibration. Labels are drawn from the
predictions, all segments are summed in the same draws, and the familywise p-value of a segment is the share of draws
whose largest statistic over all segments is at least its own (Westfall and Young 1993). It needs no independence
between segments, which overlap. A variance of one surprise is added to each, or tiny expected counts would set the
largest statistic.

With clusters a statistic is divided by the root of the sum over clusters of their squared sums, and instead of labels
the signs of whole clusters are drawn (Rademacher): under the null "right on average over clusters" these have mean 0.

Findings: the segment with the most evidence, then the one with the most evidence after the rows of the first are
repaired (by the offset and slope of their logits that fit best), and so on, among segments that keep half of their gap
or slope. The other significant segments overlap with a finding and add little to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import betaincinv

from ..core.arrays import on_cpu
from ..core.data import check_positive_int, shown
from ..core.parameters import described
from ..core.result import Pictured, Result, clean_lines, on_one_line
from ..core.tables import Head, Table, Tabular
from ..core.types import Array, Groups
from ..core.words import p_text
from ..kinds.inputs import Inputs, Progress, one_to_one, read_inputs
from ..sums.errors import NAMED
from .checks import check_draws, check_groups, check_level, p_of_draws
from .direction import NO_DIRECTION
from .features import Feature, Grouping, group_rows, read_features
from .repair import fit_line, with_line
from .segment_forms import SegmentForms, squares_by_segment
from .sign_flips import FEWEST_BLOCKS
from .view_sums import over

DRAWS, FEWEST_DRAWS = 999, 199
MOST_FINDINGS, SHOWN = 20, 3
_WORK = 4e10  # additions of all draws: with more the default number of draws is smaller
_ROUNDING = 1e-9
_LEFT = 0.5  # a segment is a separate finding if the findings before leave so much of its gap or slope


@final
@dataclass(frozen=True, repr=False, eq=False)
class Segment(Result):
    """One segment: rows, mean prediction, observed frequency and their difference `gap` in points.

    [low, high] covers the gaps of all segments together at the level of the result. `pvalue` is familywise. `finding`
    is the number of the finding that the segment belongs to, None where it is not significant. `of` is the class that
    the numbers are about, where they are about one.
    """

    name: str
    of: str
    rows: int
    mean_prediction: float
    observed: float
    gap: float
    low: float
    high: float
    direction: str
    pvalue: float
    finding: int | None = None
    noun: str = "class"
    """What `of` names."""

    @property
    def about(self) -> str:
        """ " (class cat)", where the numbers are about one class."""
        return f" ({self.noun} {self.of})" if self.of else ""

    @property
    def text(self) -> str:
        """The segment in one line, without its p-value."""
        size = f"{abs(self.gap):.1f} points {self.direction}"
        if self.low <= 0 <= self.high:  # what is clear, if anything, is the spread
            size = f"mean difference {self.gap:+.1f} points"
            size = size if self.direction == NO_DIRECTION else f"{self.direction}, {size}"
        return (
            f"{self.name}{self.about}: {size} [{self.low:+.1f}, {self.high:+.1f}], {self.rows} rows, "
            f"predicted {self.mean_prediction:.1%}, observed {self.observed:.1%}"
        )

    def __repr__(self) -> str:
        return f"{self.text}; {p_text(self.pvalue)}"


@final
@dataclass(frozen=True, repr=False, eq=False)
class Finding(Result):
    """A significant segment, and the significant ones that overlap with it and add little to it."""

    segment: Segment
    overlapping: tuple[str, ...]

    def __repr__(self) -> str:
        more = f" ({len(self.overlapping)} overlapping)" if self.overlapping else ""
        return f"{self.segment!r}{more}"


@final
@dataclass(frozen=True, repr=False, eq=False)
class Segments(Tabular, Pictured):
    """Every segment, most evidence first, and the findings; p-values are corrected for `compared` segments."""

    segments: tuple[Segment, ...]
    findings: tuple[Finding, ...]
    features: tuple[str, ...]
    n_samples: int
    compared: int
    level: float
    n_resamples: int
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """How many segments were looked at, and how many findings there are."""
        found = len(self.findings)
        words = "no segment is significantly miscalibrated" if not found else f"{found} finding{'s' * (found > 1)}"
        what = f"{self.compared} segments of {len(self.features)} feature{'s' * (len(self.features) > 1)}"
        return f"{what}, {self.n_samples} rows: {words}"

    def lines(self, most: int = SHOWN) -> list[str]:
        """The first findings, one line each."""
        lines = []
        for i, finding in enumerate(self.findings[:most], start=1):
            also = len(finding.overlapping)
            more = f" ({also} overlapping segment{'s' * (also > 1)})" if also else ""
            lines.append(f"{i}. {finding.segment.text}, {p_of_draws(finding.segment.pvalue, self.n_resamples)}{more}")
        if rest := len(self.findings) - most:
            lines += [f"{rest} more finding{'s' * (rest > 1)}"] if rest > 0 else []
        return lines

    def rows(self) -> list[dict[str, Any]]:
        """One row per segment, most evidence first."""
        return [segment.to_dict() for segment in self.segments]

    def tables(self) -> list[Table]:
        """The findings, where there are any."""
        return [self.table()] if self.findings else []

    def table(self) -> Table:
        """One row per finding."""
        rows = []
        for finding in self.findings:
            s = finding.segment
            cells = [s.name + s.about, str(s.rows), f"{s.mean_prediction:.1%}", f"{s.observed:.1%}"]
            cells += [f"{s.gap:+.1f} [{s.low:+.1f}, {s.high:+.1f}]", s.direction]
            p = p_of_draws(s.pvalue, self.n_resamples).removeprefix("p ")
            rows.append([*cells, p, str(len(finding.overlapping))])
        names = ("rows", "predicted", "observed", "gap in points", "direction", "p", "overlapping")
        return [Head("finding", False), *map(Head, names)], rows

    def __repr__(self) -> str:
        lines = [*self.lines(), *(f"note: {note}" for note in self.notes)]
        return clean_lines("\n".join([self.headline, *(f"  {line}" for line in lines)]))


@described(
    "A Segments result.",
    error='"binary", "confidence" or, for several classes, "classwise". Default: the first two.',
    pairs="Whether pairs of features are looked at as well.",
    bins="The number of quantile bins of a numeric feature.",
    min_rows="The smallest segment.",
    n_resamples="The number of draws. Default: 999, or fewer where rows and segments are very many.",
)
def segments(
    y_true: Any,
    y_proba: Any,
    features: Any,
    *,
    error: str | None = None,
    pairs: bool = True,
    bins: int = 5,
    min_rows: int = 50,
    labels: Any = None,
    pos_label: Any = 1,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
    n_resamples: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Segments:
    """For whom is the model off? Every segment of the features, with p-values corrected for how many there are.

    Segments are the values of categorical columns, quantile bins of numeric ones, and their pairs, of at least
    `min_rows` rows, enumerated without looking at labels. Each has rows, mean prediction, observed frequency, the gap
    in points with an interval, a direction, and a familywise p-value: if all segments are calibrated, one of them has
    p ≤ .05 in at most 5% of samples, however many there are and however they overlap. Significant segments that overlap
    are joined into findings. Several classes are checked by their confidence, or with error="classwise" class by class.
    Rows must be independent, or `groups` name their clusters, of which at least 12 are needed.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> region, age = rng.choice(["north", "south", "west"], 4000), rng.integers(18, 80, 4000)
    >>> chances = rng.uniform(.1, .8, 4000)
    >>> y = rng.random(4000) < np.where((region == "north") & (age > 60), chances - .1, chances)
    >>> found = tc.segments(y, chances, {"region": region, "age": age}, n_resamples=199)
    >>> [finding.segment.name for finding in found.findings], found.findings[0].segment.direction
    (['region = north & age > 67'], 'too high')
    """
    inputs = read_inputs(y_true, on_cpu(y_proba), labels=labels, pos_label=pos_label, sample_weight=sample_weight)
    names = None if labels is None else [on_one_line(label) for label in labels]
    return segments_of(
        inputs,
        features,
        error=error,
        pairs=pairs,
        bins=check_positive_int(bins, "bins"),
        min_rows=check_positive_int(min_rows, "min_rows"),
        level=check_level(level),
        draws=None if n_resamples is None else check_draws(n_resamples, seed)[0],
        seed=check_draws(1, seed)[1],
        classes=names,
        progress=progress,
        clusters=check_groups(groups, inputs.n_samples, y_true=y_true),
    )


def segments_of(
    inputs: Inputs,
    features: Any,
    *,
    error: str | None = None,
    pairs: bool = True,
    bins: int = 5,
    min_rows: int = 50,
    level: float = 0.95,
    draws: int | None = None,
    seed: int = 0,
    classes: Any = None,
    progress: Progress | None = None,
    clusters: Groups | None = None,
) -> Segments:
    """The segments of validated predictions."""
    if error is None and inputs.kind.row_signs:
        clusters = (np.arange(inputs.n_samples), inputs.n_samples) if clusters is None else clusters
        classes = inputs.kind.view_names(inputs.thresholds, None)
    else:
        inputs.check_one_label("segments")
    if clusters is not None and clusters[1] < FEWEST_BLOCKS:
        raise ValueError(f"segments needs at least {FEWEST_BLOCKS} groups, got {clusters[1]}")
    columns = read_features(features, inputs.n_samples, bins, min_rows)
    _refuse_outcomes(columns, inputs)
    groups = group_rows(columns, inputs.n_samples, pairs, min_rows)
    forms = _forms(inputs, error, groups, clusters)
    if draws is None:
        work = float(forms.rows) * len(groups.joints) * forms.columns
        draws = max(FEWEST_DRAWS, min(DRAWS, int(_WORK / work)))
    largest = forms.largest(groups, np.random.default_rng(seed), draws, progress)
    names = tuple(column.name for column in columns)
    return _found(forms, groups, largest, level, names, classes)


def _refuse_outcomes(columns: tuple[Feature, ...], inputs: Inputs) -> None:
    for column in columns:
        if any(one_to_one(column.code, outcome) for outcome in inputs.kind.outcomes(inputs.y)):
            raise ValueError(
                f"feature {shown(column.name)} is the outcome under another name: given the outcome, every model looks "
                "miscalibrated; leave it out"
            )


def _forms(inputs: Inputs, error: str | None, groups: Grouping, clusters: Groups | None) -> SegmentForms:
    allowed = inputs.kind.segment_errors
    name = error or allowed[0]
    if name not in allowed:
        raise ValueError(f"error must be {' or '.join(map(repr, allowed))} for these predictions, got {shown(error)}")
    sample = inputs.sample(name)
    u = sample.reports.astype(np.float64).reshape(sample.rows, -1)
    proba = None
    property = NAMED[name].property
    if sample.views > 1 and not inputs.kind.row_signs:
        assert sample.distributions is not None
        proba = np.clip(sample.distributions.astype(np.float64), 0.0, None)
        proba /= proba.sum(axis=1, keepdims=True)
        u = property.sample(sample.labels, proba).reports if sample.labels is not None else u
    outcomes = np.ascontiguousarray(sample.outcome(slice(None)).T)
    about = (proba, property, inputs.kind.one_event, clusters)
    return SegmentForms.of(groups, sample.row_weights, u, outcomes, *about)


def _found(
    forms: SegmentForms,
    groups: Grouping,
    largest: Array,
    level: float,
    features: tuple[str, ...],
    classes: Any,
) -> Segments:
    draws, views = len(largest), forms.reports.shape[1]
    ordered = np.sort(largest)
    rank = int(np.ceil(level * (draws + 1) - 1e-9))
    critical = ordered[rank - 1] if rank <= draws else np.inf

    def pvalues(statistic: Array) -> Array:
        below = np.searchsorted(ordered, statistic - _ROUNDING * np.maximum(1.0, statistic), side="left")
        return np.asarray((1 + draws - below) / (1 + draws))

    residuals = forms.observed()
    raw, strength = forms.strengths(groups)
    p = pvalues(strength)
    W = np.maximum(groups.sums(forms.weights[:, None]), np.finfo(float).tiny)  # rows of a segment may not count
    mean, came = (groups.sums(values * forms.weights[:, None]) / W for values in (forms.reports, forms.outcomes))
    gap = mean - came
    squares = groups.sums(np.square(residuals)) - 2 * gap * groups.sums(residuals * forms.weights[:, None])
    squares += gap**2 * groups.sums(np.square(forms.weights)[:, None])
    if forms.clusters is not None:
        size = groups.by_cluster(forms.weights, forms.clusters)
        each = [groups.by_cluster(column, forms.clusters) for column in residuals.T]
        squares = np.column_stack(
            [squares_by_segment(one - size.multiply(g[:, None])) for one, g in zip(each, gap.T, strict=True)]
        )
    one = groups.sums(np.square(forms.weights)[:, None]) / groups.rows[:, None]
    least = np.square(forms.level_sd) if forms.clusters is None else 0.0  # of clusters it holds the gap as well
    sd = np.sqrt(np.maximum(least, squares + one))
    half = critical * sd / W
    low, high = np.maximum(gap - half, mean - 1), np.minimum(gap + half, mean)
    least, most = _shares_within(came, over(W**2, one * groups.rows[:, None]) / forms.design, (1 - level) / came.size)
    low, high = np.minimum(low, mean - most), np.maximum(high, mean - least)
    words = _words(forms, groups, residuals, raw, gap, sd / W, critical)
    found, home = _findings(forms, groups, raw, p <= 1 - level + 1e-12, critical)
    called = list(map(str, range(views + 1) if classes is None else classes))
    if forms.proba is not None and forms.claim.in_order:  # "3 or below"
        called = [forms.claim.view_name(j, called) for j in range(views)]
    titles = called[:views] if views > 1 else [""]
    noun = forms.claim.noun if forms.proba is None else "class"
    order = sorted(np.ndindex(p.shape), key=lambda at: -strength[at])
    made = {
        at: Segment(
            name=groups.names[at[0]],
            of=titles[at[1]],
            rows=int(groups.rows[at[0]]),
            mean_prediction=float(mean[at]),
            observed=float(came[at]),
            gap=100 * float(gap[at]),
            low=100 * float(low[at]),
            high=100 * float(high[at]),
            direction=words(at),
            pvalue=float(p[at]),
            finding=None if home[at] < 0 else int(home[at]) + 1,
            noun=noun,
        )
        for at in order
    }
    overlapping: list[list[str]] = [[] for _ in found]
    for at in order:
        if home[at] >= 0 and at != found[home[at]]:
            overlapping[home[at]].append(made[at].name)
    findings = tuple(Finding(made[at], tuple(also)) for at, also in zip(found, overlapping, strict=True))
    return Segments(tuple(made.values()), findings, features, forms.rows, p.size, level, draws)


def _shares_within(share: Array, rows: Array, alpha: float) -> tuple[Array, Array]:
    """Clopper and Pearson's limits of shares of so many rows, which need not be a whole number.

    Where predictions are sharp and wrong their own variance says nothing of how far off they may be."""
    came, rest = share * rows, (1 - share) * rows
    with np.errstate(invalid="ignore"):
        low = np.where(came > 0, betaincinv(came, rest + 1, alpha / 2), 0.0)
        return low, np.where(rest > 0, betaincinv(came + 1, rest, 1 - alpha / 2), 1.0)


def _words(
    forms: SegmentForms, groups: Grouping, residuals: Array, raw: Array, gap: Array, se: Array, critical: float
) -> Any:
    """The direction of a segment. Outcomes may vary more than the predictions say, so the larger of the two deviations
    must show it."""
    level = np.abs(gap) >= critical * se
    spread = np.zeros(len(gap), dtype=bool)
    if forms.x is not None:
        own, x = np.square(residuals[:, 0]), forms.x
        sums = groups.sums(np.column_stack([own, own * x, own * x * x]))
        seen = sums[:, 2] - 2 * forms.mean * sums[:, 1] + forms.mean**2 * sums[:, 0]
        sd = np.sqrt(np.maximum(np.square(forms.spread_sd), np.maximum(seen, 0.0)))
        spread = (sd > 0) & (np.abs(raw[:, -1]) * forms.spread_sd >= critical * np.where(sd > 0, sd, 1.0))
    high, low = ("over-confident", "under-confident") if forms.claim.picks_outcome else ("too high", "too low")

    def word(at: tuple[int, ...]) -> str:
        parts = []
        if level[at]:
            parts.append(high if gap[at] > 0 else low)
        if spread[at[0]]:  # residual = u − z: too extreme predictions have residuals of the sign of their logits
            parts.append("over-confident" if raw[at[0], -1] > 0 else "under-confident")
        return " and ".join(parts) or NO_DIRECTION

    return word


def _findings(
    forms: SegmentForms, groups: Grouping, raw: Array, significant: Array, critical: float
) -> tuple[list[tuple[int, int]], Array]:
    """The findings, (segment, view) each, and for each segment and view the number of its finding or −1."""
    home, views = np.full(significant.shape, -1), int(significant.shape[1])
    found: list[tuple[int, int]] = []
    shares: list[Array] = []
    now = forms
    while significant.any() and len(found) < MOST_FINDINGS:
        left, _ = now.strengths(groups)
        kept = left * raw > 0  # what a repair has taken too far is no finding
        kept[:, :views] &= np.abs(left[:, :views] * now.level_sd) >= _LEFT * np.abs(raw[:, :views] * forms.level_sd)
        kept[:, views:] &= np.abs(left[:, views:]) >= _LEFT * np.abs(raw[:, views:])
        left = np.where(kept & (np.abs(raw) >= critical), np.abs(left), 0.0)
        each = left[:, :views] if forms.x is None else np.maximum(left[:, :views], left[:, views:])
        each = np.where(significant, each, 0.0)
        for at in found:
            each[at] = 0.0
        segment, view = (int(i) for i in np.unravel_index(int(each.argmax()), each.shape))
        if not each[segment, view] >= critical * (1 - _ROUNDING):
            break
        inside = groups.rows_of(segment)
        now = now.moved(groups, _repaired(now, inside, view))
        overlap = groups.sums(inside[:, None].astype(np.float64))[:, 0]
        shares.append(overlap / (groups.rows + inside.sum() - overlap))
        found.append((segment, view))
    for at in zip(*np.nonzero(significant), strict=True):
        same = [i for i, one in enumerate(found) if one[1] == at[1]] or list(range(len(found)))
        if same:
            home[at] = max(same, key=lambda i: shares[i][at[0]])
    for i, at in enumerate(found):
        home[at] = i
    return found, home


def _repaired(forms: SegmentForms, inside: Array, view: int) -> Array:
    """The reports with the offset and slope of logits that the rows of a segment need."""
    reports = forms.reports.copy()
    u, z = reports[inside, view], forms.outcomes[inside, view]
    slope = forms.reports.shape[1] == 1
    u = np.clip(u, 0.0, 1.0)
    reports[inside, view] = with_line(u, *fit_line(z, u, slope, True))
    return reports
