"""Choose a recalibration map by its log loss, or any other loss or error, on rows that it was not fitted on."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc
from sklearn.base import clone

from truecal.core.data import as_array, check_same_length, shown
from truecal.core.extras import require
from truecal.core.labels import check_labels
from truecal.core.losses import LOSSES, Loss
from truecal.core.parameters import described
from truecal.core.result import Result
from truecal.kinds.named_errors import get_error
from truecal.recalibration.base import Recalibrator, blocks
from truecal.recalibration.guard import Guard, judge, unseen
from truecal.recalibration.temperature import Identity
from truecal.sums.errors import CalibrationError

Metric = Callable[[Any, Any], Any]
LARGE = 0.1  # the share of the selection rows from which reuse is refused
CHANCE = 1e-5  # the probability below which chance is no explanation


@dataclass(frozen=True)
class Score:
    """One candidate on the selection data: the value it was chosen by, lower is better, and its gap in points."""

    name: str
    value: float
    gap: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Result):
    """The chosen map, fitted, and the scores of all candidates on the selection data, best first.

    `guard` is the gain of the best candidate over no map; where that is not more than its standard error, `best` is no
    map, unless the guard was switched off. The score of the chosen map is optimistic, because the map was chosen on
    these rows. Measure it on a test set.
    """

    name: str
    best: Recalibrator
    scores: tuple[Score, ...]
    error: str
    truthful: bool
    n_samples: int
    guard: Guard | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the fitted map itself is not among them."""
        return {key: value for key, value in super().to_dict().items() if key != "best"}

    def to_pandas(self) -> Any:
        """One row per candidate, best first."""
        pd = require("pandas", "pandas")
        return pd.DataFrame(self.to_dict()["scores"]).set_index("name")

    def __repr__(self) -> str:
        kind = "truthful" if self.truthful else "not truthful"
        lines = [f"{self.name}, chosen by {self.error} ({kind}) on {self.n_samples} samples"]
        width = max(len(s.name) for s in self.scores)
        for s in self.scores:
            gap = "" if s.gap is None else f", gap {s.gap:.1f} points"
            lines.append(f"  {s.name:<{width}}  {s.value:.5g}{gap}")
        lines += [] if self.guard is None else [f"  {self.guard.sentence}"]
        return "\n".join([*lines, "  the first value is optimistic: the map was chosen on these rows"])


@described(
    "A Selection.",
    candidates="Estimators by name, or a sequence named by class; `Identity()` stands for no recalibration. They take "
    "logits or, made by `from_probabilities`, probabilities.",
    error="A name in `LOSSES` or `ERRORS`, a CalibrationError, or a callable (y_true, y_proba) -> float with an "
    "attribute `truthful`, which gets column indices for y_true. Default: log loss.",
    n_bins="The number of bins of the error. Default: the automatic one for squared errors.",
)
def select_recalibration(
    candidates: Mapping[str, Recalibrator] | Sequence[Recalibrator],
    logits_fit: Any,
    y_fit: Any,
    logits_select: Any = None,
    y_select: Any = None,
    *,
    error: str | CalibrationError | Metric = "cross_entropy",
    n_bins: int | None = None,
    allow_untruthful: bool = False,
    guard: bool = True,
) -> Selection:
    """Keep the candidate of least log loss on rows that it was not fitted on, or no map where it gains too little.

    Every candidate is fitted in five folds and judged on the rows that a fold leaves out; the best is then fitted to
    all rows. With `logits_select` it is fitted to `logits_fit` and judged on `logits_select`. The two parts must not
    share samples, and neither may be the data on which the result is evaluated. Selection rows that are among those
    fitted on (same X to float32, same y) more often than chance explains raise an error, or a warning where they are
    few. The best candidate is not kept unless its gain in log loss over no map exceeds one standard error. Candidates
    are cloned, never changed.

    Squared errors choose by their score, loss + gap², l1 errors by themselves. Under an error that is not truthful a
    worse map can win, so it raises unless allow_untruthful=True. A score that is not finite raises. The value of the
    chosen map is optimistic, because the map was chosen by it: measure it on a test set.

    >>> import numpy as np
    >>> import truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 3))
    >>> y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)       # the true temperature is 2
    >>> maps = [tc.recalibration.Identity(), tc.TemperatureScaling()]
    >>> tc.select_recalibration(maps, logits, y).name
    'TemperatureScaling'
    """
    named = _named(candidates)
    metric, label = _metric(error, n_bins)
    truthful = isinstance(metric, Loss) or bool(getattr(metric, "truthful", False))
    if not truthful and not allow_untruthful:
        reason = getattr(metric, "reason", "it does not declare that it is")
        raise ValueError(
            f"error {label} is not truthful ({reason}): it can prefer the worse map; "
            "choose a truthful one, such as 'classwise', or pass allow_untruthful=True"
        )
    if (logits_select is None) != (y_select is None):
        raise ValueError("logits_select and y_select belong together: give both or neither")
    if logits_select is None:
        p = {name: unseen(candidate, logits_fit, y_fit) for name, candidate in named.items()}
        X, y = logits_fit, y_fit
    else:
        refuse_reuse(logits_fit, y_fit, logits_select, y_select)
        fitted = {name: clone(candidate).fit(logits_fit, y_fit) for name, candidate in named.items()}
        p = {name: f.predict_proba(logits_select) for name, f in fitted.items()}
        X, y = logits_select, y_select
    codes = {name: check_labels(y, p[name].shape[1], c.labels, name="y_select") for name, c in named.items()}
    for key in named:
        check_same_length(logits_select=p[key], y_select=codes[key])
    scores = [_score(name, metric, label, codes[name], p[name]) for name in named]
    scores.sort(key=lambda s: s.value)  # stable: the first candidate wins a tie
    name, found = scores[0].name, None
    _finite(scores[0].value, name, label)
    if not isinstance(named[name], Identity):
        same = Identity(space=named[name].space, labels=named[name].labels).fit(X, y)
        found = judge(name, codes[name], same.predict_proba(X), p[name])
        if guard and not found.keeps:
            name = next((other for other in named if isinstance(named[other], Identity)), "identity")
            named = {name: Identity(space=same.space, labels=same.labels)}
    best = clone(named[name]).fit(logits_fit, y_fit)
    return Selection(name, best, tuple(scores), label, truthful, len(as_array(y, "y_select")), found)


def _named(candidates: Mapping[str, Recalibrator] | Sequence[Recalibrator]) -> dict[str, Recalibrator]:
    if isinstance(candidates, Mapping):
        named = dict(candidates)
    elif isinstance(candidates, (str, bytes)) or not isinstance(candidates, Sequence):
        raise TypeError(f"candidates must be estimators, or names with estimators, got {shown(candidates)}")
    else:
        names = [type(candidate).__name__ for candidate in candidates]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"candidates has several of {', '.join(sorted(twice))}: give a dict of name -> estimator")
        named = dict(zip(names, candidates, strict=True))
    if not named:
        raise ValueError("candidates is empty: expected at least one estimator")
    for name, candidate in named.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a candidate must be a string, got {name!r}")
        if not isinstance(candidate, Recalibrator):
            raise TypeError(f"candidate {name!r} must be a recalibration estimator, got {shown(candidate)}")
    return named


def _metric(error: str | CalibrationError | Metric, n_bins: int | None) -> tuple[Metric, str]:
    if isinstance(error, str) and error in LOSSES:
        if n_bins is not None:
            raise ValueError(f"n_bins cannot be used with the loss {error}, which has no bins")
        return LOSSES[error], error
    if not isinstance(error, (str, CalibrationError)):
        if not callable(error):
            raise TypeError(f"error must be a name in ERRORS, a CalibrationError or a callable, got {shown(error)}")
        if n_bins is not None:
            raise ValueError("n_bins cannot be used with a callable error: fix its bins inside it")
        return error, getattr(error, "__name__", type(error).__name__)
    metric = get_error(error, n_bins)
    if n_bins is None and metric.norm == "l2" and isinstance(error, str) and metric.binning.has_counts:
        metric = metric.with_bins("auto")
    if not metric.property.of_distributions:
        raise ValueError(f"error {metric.symbol} does not take one probability per class; use 'classwise'")
    if metric.binning.several:
        raise ValueError(f"n_bins must be one count to choose by, got {metric.binning.n_bins}")
    counts = metric.binning.n_bins
    name = f"{metric.symbol} at {counts} bins" if isinstance(counts, int) else metric.symbol
    return metric, f"the score of {name}" if metric.norm == "l2" else name


def _score(name: str, metric: Metric, label: str, codes: NDArray[Any], p: Any) -> Score:
    if isinstance(metric, CalibrationError) and metric.norm == "l2":
        gap: Any = metric.decompose(codes, p).gap
        return Score(name, _finite(metric(codes, p, scale="score"), name, label), gap)
    if isinstance(metric, Loss):  # infinite for a map that gave a label probability 0, which is then the last
        return Score(name, float(metric(codes, p)))
    return Score(name, _finite(metric(codes, p), name, label))


def _finite(value: Any, name: str, label: str) -> float:
    """Return a score as a finite number: NaN would win or lose by its place in the list, and infinities tie."""
    try:
        score = float(np.asarray(value).item())
    except (TypeError, ValueError):
        raise TypeError(f"error {label} of candidate {name!r} must be one number, got {shown(value)}") from None
    if not np.isfinite(score):
        raise ValueError(
            f"error {label} of candidate {name!r} is {score}: expected a finite number; "
            "leave that candidate out, or choose by an error that is bounded"
        )
    return score


# -- were the selection rows fitted on? rows are compared in any order and dtype ---------------------------------------


def refuse_reuse(logits_fit: Any, y_fit: Any, logits_select: Any, y_select: Any) -> None:
    """Raise where many selection rows (X and y) were fitted on, warn where few were."""
    x, y = [as_array(logits_fit, "logits_fit"), as_array(logits_select, "logits_select")], _codes(y_fit, y_select)
    if y is None or any(
        a.ndim != 2 or a.dtype.kind not in "biuf" or len(a) != len(b) for a, b in zip(x, y, strict=True)
    ):
        return  # not data that can be fitted: the fit will say why
    first, second = _keys(x, y)
    shared = sum((key in first) * count for key, count in second.items())
    if not shared:
        return
    n = len(y[1])
    by_chance = could_be_chance(first, second)
    same = len(y[0]) == n and np.array_equal(y[0], y[1]) and np.array_equal(x[0], x[1])
    message = (
        f"{shared} of the {n} selection rows are among the rows fitted on (same X, same y): a map judged on the labels "
        "it was fitted to looks better the more it overfits; split the validation data in two"
    )
    if same or (not by_chance and shared >= LARGE * n):
        raise ValueError(message)
    distinct = max(first.values()) == max(second.values()) == 1
    if not by_chance or distinct:
        warnings.warn(message, UserWarning, stacklevel=4)


def could_be_chance(first: Counter[int], second: Counter[int]) -> bool:
    """Whether rows coincide between the parts no more than they do within them.

    Of two equal rows of independent samples from one source, one lies in each part with probability 2ab / (a + b)², for
    parts of a and b rows: a binomial test over the rows that occur exactly twice. Reuse makes pairs across, ties of
    predictions of few values make pairs of both kinds.
    """
    a, b = first.total(), second.total()
    across = sum(count == 1 and second[key] == 1 for key, count in first.items())
    within = sum(count == 2 and key not in second for key, count in first.items())
    within += sum(count == 2 and key not in first for key, count in second.items())
    return not across or float(bdtrc(across - 1, across + within, 2 * a * b / (a + b) ** 2)) >= CHANCE


def _codes(y_fit: Any, y_select: Any) -> list[NDArray[Any]] | None:
    """The labels of both parts as numbers of one coding; None where they are not labels of one kind."""
    first, second = as_array(y_fit, "y_fit").ravel(), as_array(y_select, "y_select").ravel()
    if (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        return None
    codes = np.unique(np.concatenate([first, second]), return_inverse=True)[1]
    return [codes[: len(first)], codes[len(first) :]]


def _keys(x: list[NDArray[Any]], y: list[NDArray[Any]]) -> list[Counter[int]]:
    """Count equal rows, their values in the coarser of the two dtypes, float32 at most, in units of the largest."""
    half = np.float16 in (x[0].dtype, x[1].dtype)
    with np.errstate(invalid="ignore"):
        largest = max(float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in x)
    exponent = int(np.frexp(largest)[1])

    def key_rows(values: NDArray[Any], codes: NDArray[Any]) -> Counter[int]:
        seen: Counter[int] = Counter()
        for rows in blocks(*values.shape):
            part = values[rows]
            with np.errstate(over="ignore"):
                part = part.astype(np.float16 if half else part.dtype).astype(np.float64)
            part = np.ldexp(part, -exponent).astype(np.float32) + np.float32(0)  # + 0 makes -0 the same as 0
            seen.update(hash((row.tobytes(), code)) for row, code in zip(part, codes[rows].tolist(), strict=True))
        return seen

    return [key_rows(a, b) for a, b in zip(x, y, strict=True)]
