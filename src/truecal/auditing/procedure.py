"""tc.audit: search for a gain of misreporting under a metric, and return the verdict."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import numpy as np

from truecal.core.data import check_positive_int, check_seed, shown
from truecal.core.parameters import described
from truecal.results.evaluate import check_progress

from .expectations import Proof, prove, simplest
from .lasting import ROWS, Lasting, at_300_rows
from .metric import (
    ArrayKind,
    BinaryForm,
    CallForm,
    Convention,
    InputKind,
    Meter,
    Metric,
    OutcomeKind,
    OutOfTimeError,
    find_form,
    measure_noise,
    name_of,
)
from .outcome import AuditReport, Verdict
from .search import Found, climb, examine_between, examine_framed, examine_grid, examine_small

Budget = Literal["quick", "default", "thorough"] | int
BUDGETS = {"quick": 8_000, "default": 60_000, "thorough": 600_000}
"""Calls of the metric."""
MOST_CLASSES = 20
DEFAULT_CLASSES: dict[OutcomeKind, tuple[int, ...]] = {
    "classes": (2, 3),
    "ordered": (2, 3),
    "labels": (2, 4),
    "numbers": (2, 3),
}
EXPLAINED = 1500
"""Calls after a conviction that look for other ways of lying, so that findings can name them."""
_SHARES = {"small": 0.35, "framed": 0.2, "grid": 0.3, "climb": 0.1}


@described("An AuditReport.", outcomes='What classes are to the metric: "classes", "ordered", "labels" or "numbers".')
def audit(
    metric: Callable[..., Any],
    *,
    classes: Iterable[int] | None = None,
    outcomes: OutcomeKind = "classes",
    convention: Convention = "y_true_first",
    higher_is_better: bool = False,
    metric_options: Mapping[str, Any] | None = None,
    binary: BinaryForm = "auto",
    array: ArrayKind = "auto",
    input: InputKind = "probabilities",
    budget: Budget = "default",
    seconds: float | None = 100.0,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> AuditReport:
    """Can a forecaster lower the metric's expected value by predicting anything but the truth?

    A world fixes the true chances μ of every row; labels are independent draws from them. The gain of a lie u is
    E_μ[metric(y, μ)] − E_μ[metric(y, u)], summed over all outcomes y. One gain beyond rounding proves that the metric
    can be gamed; that none was found proves nothing beyond the worlds and lies that were tried, and the verdict says
    which. Truthful errors: arXiv 2510.06388; the procedure: docs/auditing.md.

    metric(y_true, y_proba) gives one number; with convention="preds_first" it takes predictions first. Options go in
    `metric_options`. Two classes come as an (n, 2) matrix or as the second column (`binary`), arrays of numpy or torch
    (`array`); by default each is found by trying. input="logits" passes log-probabilities. `outcomes` is what the
    classes of a world are to the metric: with "labels" it gets 0/1 tables and the probability of each label (4 classes
    are the sets of 2 labels), with "numbers" the numbers 0, 1, ... and their chances of at most each threshold 0, 1,
    ..., with "ordered" classes. `budget` counts calls of the metric; after `seconds` it is not called any more,
    whatever is left to do, so that only budgets that end in time give the same search on every machine (None: no
    limit). A metric that is not deterministic gets no verdict.

    >>> import truecal as tc
    >>> report = tc.audit(tc.ERRORS["binary_l1"], budget=1000)
    >>> report.verdict, report.proof.rows
    ('gamed', 1)
    >>> tc.audit(tc.brier, budget=1000).verdict
    'certified'
    """
    if not callable(metric):
        raise TypeError(f"metric must be a callable such as metric(y_true, y_proba), got {shown(metric)}")
    check_progress(progress)
    wanted = _form(convention, array, binary, input, higher_is_better, outcomes)
    classes = DEFAULT_CLASSES[outcomes] if classes is None else classes
    meter = Meter(_calls(budget), _seconds(seconds), progress)
    call = partial(metric, **_options(metric_options)) if metric_options else metric
    with _quiet():
        numbers = _classes(classes)
        if outcomes == "labels" and any(k & (k - 1) for k in numbers):
            raise ValueError(f"classes must be 2, 4, 8 ... for outcomes='labels', all sets of labels, got {numbers}")
        auditor = _Auditor(call, _metrics(call, numbers, wanted, meter), meter, check_seed(seed))
        return auditor.run(name_of(metric), dict(metric_options or {}))


# -- arguments ---------------------------------------------------------------------------------------------------------


def _form(convention: Any, array: Any, binary: Any, input: Any, higher_is_better: Any, outcomes: Any) -> CallForm:
    _one_of(convention, "convention", ("y_true_first", "preds_first"))
    _one_of(array, "array", ("auto", "numpy", "torch"))
    _one_of(binary, "binary", ("auto", "matrix", "column"))
    _one_of(input, "input", ("probabilities", "logits"))
    if not isinstance(higher_is_better, (bool, np.bool_)):
        raise TypeError(f"higher_is_better must be True or False, got {shown(higher_is_better)}")
    _one_of(outcomes, "outcomes", tuple(DEFAULT_CLASSES))
    return CallForm(convention, array, binary, input, bool(higher_is_better), outcomes)


def _one_of(value: Any, name: str, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}")


def _calls(budget: Any) -> int:
    if isinstance(budget, str):
        _one_of(budget, "budget", tuple(BUDGETS))
        return BUDGETS[budget]
    return check_positive_int(budget, "budget", 10**9)


def _seconds(seconds: Any) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= 1e9:
        raise ValueError(f"seconds must be a positive number or None, got {shown(seconds)}")
    return float(seconds)


def _classes(classes: Any) -> list[int]:
    if isinstance(classes, (int, np.integer)) and not isinstance(classes, bool):
        classes = [classes]
    try:
        numbers = sorted({check_positive_int(k, "classes", MOST_CLASSES) for k in classes})
    except TypeError as problem:
        raise TypeError(f"classes must be whole numbers such as (2, 3), got {shown(classes)}") from problem
    if not numbers or numbers[0] < 2:
        raise ValueError(f"classes must be whole numbers of at least 2, got {shown(classes)}")
    return numbers


def _options(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"metric_options must map names to values, got {shown(given)}")
    return dict(given)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings of the metric about strange inputs."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _metrics(call: Callable[..., Any], classes: list[int], wanted: CallForm, meter: Meter) -> dict[int, Metric | str]:
    """Return for each number of classes the metric with its form, or why it has none."""
    found = {k: find_form(call, k, wanted, meter) for k in classes}
    if all(isinstance(form, str) for form in found.values()):
        said = "; ".join(f"{k} classes: {form}" for k, form in found.items())
        order = "before predictions" if wanted.convention == "y_true_first" else "after predictions"
        raise ValueError(f"the metric returned no number for any sample, with labels {order}: {said}")
    return {k: form if isinstance(form, str) else Metric(call, form, meter) for k, form in found.items()}


# -- the audit ---------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Auditor:
    call: Callable[..., Any]
    answers: Mapping[int, Metric | str]
    meter: Meter
    seed: int

    @property
    def metrics(self) -> dict[int, Metric]:
        return {k: metric for k, metric in self.answers.items() if isinstance(metric, Metric)}

    def run(self, name: str, options: dict[str, Any]) -> AuditReport:
        found = Found()
        reason = ""
        with suppress(OutOfTimeError):
            for k, metric in self.metrics.items():
                reason = reason or measure_noise(metric, k, self.seed)
        self.meter.begin()
        proof = None if reason else self._search(found)
        self.meter.allow_all()
        lasting = None if proof is None else at_300_rows(self.metrics[proof.classes], proof, self.meter.left)
        if not reason and proof is None:
            reason = self._nothing_seen(found)
        verdict: Verdict = "gamed" if proof else "no verdict" if reason else "no gain found"
        if verdict == "no gain found" and {each.classes for each in found.certificates} == set(self.metrics):
            verdict = "certified"
        return AuditReport(
            metric=name,
            options=options,
            verdict=verdict,
            reason=reason,
            lasting=lasting,
            proof=proof,
            findings=() if proof is None else found.rewarded,
            certificates=tuple(found.certificates),
            searched=tuple(found.searched),
            forms={k: metric.form for k, metric in self.metrics.items()},
            unseen=tuple(self._unseen(found)) if not reason else (),
            notes=tuple(self._notes(found, proof, lasting)),
            calls=self.meter.calls,
            seed=self.seed,
        )

    def _nothing_seen(self, found: Found) -> str:
        """Why a search without a proof has no verdict: no calls or time, no value, or a metric that exited."""
        if any(part.worlds for part in found.searched):
            return next((metric.exited for metric in self.metrics.values() if metric.exited), "")
        if not found.searched:
            return f"the {'time limit' if self.meter.late else 'budget'} allowed no search"
        refusal = next((m.refusal for m in self.metrics.values() if m.refusal), "it gave NaN or infinity")
        raise ValueError(f"the metric returned no finite value for any case that was tried: {refusal}")

    def _unseen(self, found: Found) -> Iterator[int]:
        """The numbers of classes that were asked for and not looked at."""
        seen = {part.classes for part in found.searched if part.worlds}
        return (k for k in self.answers if k not in seen)

    def _notes(self, found: Found, proof: Proof | None, lasting: Lasting | None) -> Iterator[str]:
        for k, answer in self.answers.items():
            if isinstance(answer, str):
                yield f"{k} classes were not tested: {answer}"
            elif answer.refusal is not None:
                yield f"with {k} classes some samples had no value: {answer.refusal}"
        for k in found.blind:
            yield f"with {k} classes all values are closer to each other than a gain that would be seen: no certificate"
        if proof is not None and all(value in (0, 1) for value in proof.world.ravel()):
            yield "the proof has no uncertain row: the gain may come from clipping or a bug"
        if proof is not None and lasting is None:
            yield f"no lie was tried at {ROWS} rows: the metric has no value there, or a limit was reached"
        if self.meter.shortened or self.meter.late:
            yield "the time limit ended the search early: another run may search more"

    def _search(self, found: Found) -> Proof | None:
        """Search from small to large, and stop where a part convicts, except among named lies, which explain.

        Lies about worlds without anything uncertain are the last resort.
        """
        with suppress(OutOfTimeError):
            self._small(found)
            for part in (self._framed, self._grid, self._climb):
                if not found.convicted:
                    part(found)
        return self._smallest(found) if found.lies else None

    def _small(self, found: Found) -> None:
        """One row, two rows and so on, each with every number of classes, as far as outcomes can be listed."""
        last = self.meter.calls + self._share("small")
        most = 27 if self.meter.limit < 20_000 else 81 if self.meter.limit < 200_000 else 256
        sizes = [(n, k) for n in range(1, 7) for k in self.metrics if k**n <= most]
        for n, k in sizes:
            if found.convicted:
                if found.explained is None:
                    found.explained = self.meter.calls + EXPLAINED
                    self.meter.allow(0.25)  # a metric may be slowest with the fewest rows
                last = found.explained = min(last, found.explained)
            calls = min(last - self.meter.calls, self._share("small") // 4)
            examine_small(found, self.metrics[k], n, self.seed, calls, k)

    def _framed(self, found: Found) -> None:
        for k, metric in self.metrics.items():
            examine_framed(found, metric, k, self.seed, self._share("framed") // len(self.metrics))
        if 2 in self.metrics:  # fewer rows make a plainer proof
            examine_between(found, self.metrics[2], self.seed)

    def _grid(self, found: Found) -> None:
        for k, metric in self.metrics.items():
            examine_grid(found, metric, k, self._share("grid") // len(self.metrics))

    def _climb(self, found: Found) -> None:
        climb(found, self._share("climb"))

    def _share(self, part: str) -> int:
        return int(_SHARES[part] * self.meter.limit)

    def _smallest(self, found: Found) -> Proof:
        """The proof with the fewest rows, then classes; the largest gain among those. A world that has something to
        predict comes before any that has not, a lie that has a name before any that has none. Single rows are told
        truthfully where half of the gain allows it."""
        best = min(found.lies, key=lambda lie: (not lie.plain, lie.certain, lie.rows, lie.world.shape[1], -lie.gain))
        lie = best.lie
        if best.kind not in ("pool", "uniform"):  # these are plain as they are
            lie = simplest(best.metric, best.frame, best.world, lie)
        return prove(best.metric, best.frame, best.world, lie, best.kind)
