"""Checks of a metric beside the audit: determinism, order of rows, bad input. The page shows those that fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from truecal.auditing.metric import ALIKE, ROWS, CallForm, Labels, Meter, Metric, said
from truecal.auditing.worlds import Matrix, drawn


@final
@dataclass(frozen=True)
class Check:
    """One check: whether it passed, and what was seen."""

    name: str
    passed: bool
    detail: str


@final
@dataclass(frozen=True, eq=False)
class _Sample:
    metric: Metric
    y: Labels
    rows: Matrix
    tied: Matrix
    rng: np.random.Generator

    def value(self, y: Labels | None = None, rows: Matrix | None = None) -> float:
        return float(self.metric(self.y if y is None else y, self.rows if rows is None else rows))

    @property
    def given(self) -> NDArray[Any]:
        """The predictions in the metric's form."""
        result: NDArray[Any] = self.metric.form.predictions(self.rows)
        return result

    @property
    def column(self) -> bool:
        return self.given.ndim == 1


def check_contracts(call: Callable[..., Any], forms: Mapping[int, CallForm], seed: int) -> list[Check]:
    """Every check, on samples of every number of classes; a check passes when it passes on all.

    An order of classes cannot be renamed, and probabilities of labels have no sum: those checks are left out.
    """
    outcomes = {form.outcomes for form in forms.values()}
    left = {"class_names"} if outcomes != {"classes"} else set()
    left |= {"refuses_bad_rows"} if outcomes & {"labels", "numbers"} else set()
    meter = Meter(1, None)
    samples = [_sample(Metric(call, form, meter), k, seed) for k, form in forms.items()]
    made = []
    for name, check in CHECKS.items():
        if name not in left:
            answers = [check(sample) for sample in samples]
            detail = next((text for passed, text in answers if not passed), answers[0][1])
            made.append(Check(name, all(passed for passed, _ in answers), detail))
    return made


def _sample(metric: Metric, k: int, seed: int) -> _Sample:
    rng = np.random.default_rng([seed, k])
    rows = drawn(rng, ROWS, k, 2.0, parts=1 << 16)
    return _Sample(metric, np.arange(ROWS) % k, rows, np.repeat(rows[:3], ROWS // 3, axis=0), rng)


def _same(values: list[float]) -> tuple[bool, str]:
    """Whether values that should be one are, but for rounding."""
    spread, size = max(values) - min(values), max(map(abs, values))
    if not math.isfinite(spread):
        return all(np.array_equal([v], values[:1], equal_nan=True) for v in values), f"values {values[0]:.6g}, …"
    if spread <= ALIKE * size:
        return True, "the same value" if spread == 0 else f"the same value up to {spread:.1e}"
    return False, f"values from {min(values):.6g} to {max(values):.6g}"


def _finite(s: _Sample) -> tuple[bool, str]:
    found = [s.value(), s.value(rows=s.tied), s.value(s.rng.permutation(s.y))]
    bad = [v for v in found if not math.isfinite(v)]
    return (not bad, "finite numbers" if not bad else s.metric.refusal or f"value {bad[0]}")


def _deterministic(s: _Sample) -> tuple[bool, str]:
    found = [s.value() for _ in range(4)] + [s.value(rows=s.tied) for _ in range(4)]
    passed, detail = _same(found[:4])
    again, also = _same(found[4:])
    return passed and again, detail if not passed else also


def _leaves_input(s: _Sample) -> tuple[bool, str]:
    """The metric is called with arrays that are looked at afterwards."""
    form = s.metric.form
    kept: list[Any] = []

    def call(*arguments: Any) -> Any:
        kept.extend(arguments)
        return s.metric.call(*arguments)

    watched = Metric(call, form, s.metric.meter)
    watched.attempt(s.y, s.given)
    y, given = kept if form.convention == "y_true_first" else kept[::-1]
    pairs = (("labels", y, form.labels(s.y, s.given)), ("predictions", given, s.given))
    changed = [name for name, a, b in pairs if not np.array_equal(a, b)]
    return not changed, f"changes the {' and '.join(changed)} it is given" if changed else "arrays stay as they were"


def _row_order(s: _Sample, rows: Matrix | None = None) -> tuple[bool, str]:
    rows = s.rows if rows is None else rows
    shuffles = [np.arange(ROWS), np.arange(ROWS)[::-1], *(s.rng.permutation(ROWS) for _ in range(3))]
    return _same([s.value(s.y[order], rows[order]) for order in shuffles])


def _row_order_ties(s: _Sample) -> tuple[bool, str]:
    """The order of rows with equal predictions and different labels."""
    return _row_order(s, s.tied)


def _class_names(s: _Sample) -> tuple[bool, str]:
    if s.column:
        return True, "does not apply to one probability per row"
    k = s.rows.shape[1]
    best = np.sort(s.rows, axis=1)
    keep = best[:, -1] > best[:, -2]
    orders = [np.arange(k), np.arange(k)[::-1], np.roll(np.arange(k), 1)]
    return _same([s.value(np.argsort(o)[s.y[keep]], s.rows[keep][:, o]) for o in orders])


def _refuses(s: _Sample, y: Labels, given: NDArray[Any]) -> tuple[bool, str]:
    """Whether bad input raises, or gives NaN or infinity; a number that looks like any other is worse than none."""
    answer = s.metric.attempt(y, given)
    if isinstance(answer, Exception):
        return True, f"raises {said(answer)}"
    if not math.isfinite(answer):
        return True, f"gives {float(answer):.6g}"
    return False, f"gives {float(answer):.6g} and raises nothing"


def _with(s: _Sample, value: float) -> NDArray[Any]:
    given = s.given.astype(float)
    given[(2,) + (0,) * (given.ndim - 1)] = value
    return given


def _not_distributions(s: _Sample) -> tuple[bool, str]:
    if s.metric.form.input == "logits":
        return True, "does not apply to logits"
    given = s.given.astype(float)
    given[2] = 1.3 if s.column else 0.9  # one probability above one, or a row of them whose sum is not one
    return _refuses(s, s.y, given)


def _single_class(s: _Sample) -> tuple[bool, str]:
    value = s.metric.attempt(np.zeros_like(s.y), s.given)
    if isinstance(value, Exception):
        return False, f"raises {said(value)}"
    return math.isfinite(value), f"value {float(value):.6g}"


CHECKS: dict[str, Callable[[_Sample], tuple[bool, str]]] = {
    "finite": _finite,
    "deterministic": _deterministic,
    "leaves_input_alone": _leaves_input,
    "row_order": _row_order,
    "row_order_with_ties": _row_order_ties,
    "class_names": _class_names,
    "refuses_nan": lambda s: _refuses(s, s.y, _with(s, math.nan)),
    "refuses_infinite": lambda s: _refuses(s, s.y, _with(s, math.inf)),
    "refuses_bad_rows": _not_distributions,
    "refuses_empty": lambda s: _refuses(s, s.y[:0], s.given[:0]),
    "single_class": _single_class,
}
"""Every check by its name."""
