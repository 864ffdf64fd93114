"""Random calls of every public name: each ends in a result, or in one ValueError or TypeError that names an argument.

The tests run the same few thousand calls every time; `python -m tests.fuzz_api --cases 100000 --seed 7` runs as many as
wanted and prints each one that failed with the seed that repeats it.
"""

from __future__ import annotations

import inspect
import json
import re
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import truecal as tc

sys.path.insert(0, str(Path(__file__).parent))  # python -m tests.fuzz_api finds the module beside it
import fuzzing

Generator = np.random.Generator
Make = Callable[["World"], Any]

SECONDS, MEGABYTES = 20, 700
"""What no call may exceed; inputs have a few dozen rows."""

RESULTS = {
    *(
        "AuditReport",
        "CalibratedClassifier",
        "CalibrationTest",
        "Comparison",
        "ConsistencyBands",
        "Decomposition",
        "Dominance",
    ),
    *(
        "Evaluation",
        "Gap",
        "Interval",
        "MeanGap",
        "Monitor",
        "MonitorUpdate",
        "NullBand",
        "PairedDifference",
        "Selection",
    ),
    *("ERRORS", "LOSSES", "SCORERS", "BinTable", "Baseline", "Stream", "TopPredictions", "Outcomes"),
}
"""Public names that are not called: results, and tables that other calls use."""
PUBLIC: dict[str, Any] = {name: getattr(tc, name) for name in tc.__all__}
OTHERS = {
    "analysis": "Dominance MeanGap consistency_bands dominance mean_gap tabulate",
    "losses": "confidence_loss linear_loss spherical",
    "properties": "Outcomes",
    "recalibration": "CalibratedClassifier CanonicalRecalibration DirichletScaling HistogramBinning Identity "
    "MatrixScaling ScalingBinning Selection",
    "results": "AuditReport Baseline CalibrationTest ConsistencyBands Decomposition Gap Interval MonitorUpdate "
    "NullBand PairedDifference",
    "rules": "ArgmaxEdges ArgmaxQuantile Exact KdTree",
}
PUBLIC |= {name: getattr(getattr(tc, module), name) for module, names in OTHERS.items() for name in names.split()}
MAPS = tuple(
    name for name, value in PUBLIC.items() if hasattr(value, "predict_proba") and name != "CalibratedClassifier"
)
CALLED = tuple(name for name in PUBLIC if name not in RESULTS)


class World:
    """Small predictions of one kind, and the random numbers of one case."""

    def __init__(self, rng: Generator) -> None:
        self.rng = rng
        self.n = int(rng.choice([1, 2, 3, 5, 12, 40]))
        self.k = int(rng.choice([2, 3, 5]))
        self.binary = bool(rng.random() < 0.4)
        self.proba = rng.dirichlet(np.full(self.k, rng.choice([0.1, 1.0, 10.0])), self.n)
        if rng.random() < 0.2:
            self.proba = np.eye(self.k)[rng.integers(0, self.k, self.n)]
        if rng.random() < 0.2:
            self.proba = np.repeat(self.proba[:1], self.n, axis=0)
        self.y = rng.integers(0, self.k, self.n)

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def column(self) -> Any:
        return self.proba[:, 0]

    def outcomes(self) -> Any:
        return (self.y == 0).astype(int)


def _numbers(w: World) -> Any:
    return w.rng.uniform(-1, 1, w.n) * w.pick(1.0, 1e-3, 1e3, 1e-200, 1e200, 1e-310, 1e308)


def _weights(w: World) -> Any:
    return w.pick(
        None,
        None,
        np.ones(w.n),
        w.rng.random(w.n),
        w.rng.integers(0, 3, w.n),
        np.where(w.rng.random(w.n) < 0.5, 0.0, 1.0),
        10.0 ** w.rng.uniform(-300, 300, w.n),
        10.0 ** w.rng.uniform(-15, 15, w.n),
        np.full(w.n, w.pick(5e-324, 1e-320, 1e-160, 1e160, 1e308)),
        np.full(w.n, np.longdouble(w.pick("1e4000", "1e-4000", "1"))),
        [1.0] * w.n,
    )


def _rule(w: World) -> Any:
    m = w.pick(1, 2, 5, (2, 5), "auto", 10**8)
    return w.pick(
        *(tc.Quantile(m), tc.EqualWidth(m), tc.Edges([0, 0.3, 1]), tc.Edges([0.4, 0.5]), tc.rules.Exact(), tc.TwoBin()),
        *(
            tc.Poisson(w.pick(0.1, 1e-300, 1e300)),
            tc.rules.ArgmaxQuantile(m),
            tc.rules.KdTree(m),
        ),
        *(tc.Quantile(3, ties="row"), tc.Quantile(3, ties="together")),
    )


def _error(w: World) -> Any:
    fitting = [n for n, e in tc.ERRORS.items() if (e.property.kind == "binary") == w.binary and "linear" not in n]
    return w.pick(*fitting) if w.rng.random() < 0.8 else w.pick(*tc.ERRORS, "nope", 5, *tc.ERRORS.values())


def _candidates(w: World) -> Any:
    return w.pick(
        [tc.TemperatureScaling(), tc.recalibration.Identity()],
        {"a": tc.recalibration.VectorScaling()},
        [],
        {},
        ["x"],
        5,
    )


def _models(w: World) -> Any:
    one = w.column() if w.binary else w.proba
    top = tc.TopPredictions(w.outcomes() > 0, w.column())
    return w.pick({"a": one, "b": one[::-1]}, {"__proto__": one, "\n": one}, {"a": one, "t": top}, {}, {1: one}, [one])


GOOD: dict[str, Make] = {
    "metric": lambda w: w.pick(tc.brier, tc.ERRORS["binary_l1"], lambda y, p: 0.0),
    "measure": lambda w: w.pick("score", "brier", "ece", "classwise", tc.cross_entropy),
    "convention": lambda w: w.pick("y_true_first", "preds_first"),
    "budget": lambda w: w.pick(40, 300),
    "seconds": lambda w: w.pick(2.0, 5),
    "metric_options": lambda w: w.pick(None, {}),
    "array": lambda w: w.pick("auto", "numpy"),
    "binary": lambda w: w.pick("auto", "matrix", "column"),
    "input": lambda w: w.pick("probabilities", "logits"),
    "higher_is_better": lambda w: w.pick(False, True),
    "y_true": lambda w: w.outcomes() if w.binary else w.y,
    "y_proba": lambda w: w.column() if w.binary else w.proba,
    "a": lambda w: w.column() if w.binary else w.proba,
    "b": lambda w: w.column() if w.binary else w.proba[::-1],
    "correct": lambda w: w.outcomes() > 0,
    "confidence": World.column,
    "outcomes": _numbers,
    "reports": _numbers,
    "models": _models,
    "losses": lambda w: w.rng.random((w.n, w.k)),
    "candidates": _candidates,
    **dict.fromkeys(
        ("logits_fit", "logits_select", "X"), lambda w: w.rng.normal(size=(w.n, w.k)) * w.pick(1, 1e-310, 1e200)
    ),
    **dict.fromkeys(("y_fit", "y_select", "y"), lambda w: w.y),
    "sample_weight": _weights,
    "groups": lambda w: w.pick(None, None, w.rng.integers(0, 5, w.n), np.arange(w.n), [str(i % 4) for i in range(w.n)]),
    "by": lambda w: w.pick(None, None, w.rng.integers(0, 2, w.n), ["a\n", "b"] * (w.n // 2) + ["a"] * (w.n % 2)),
    "labels": lambda w: w.pick(None, None, None, range(w.k), [f"c{i}" for i in range(w.k)]),
    "pos_label": lambda w: w.pick(1, 1, 1, 0, "a"),
    "error": _error,
    "errors": lambda w: w.pick(None, None, ["binary"] if w.binary else ["classwise"], ["confidence_l1"], ["x"], []),
    "n_bins": lambda w: w.pick(None, "auto", 1, 2, 5, 15, (2, 5), [3], 10**8, np.int64(3), np.array([2, 4])),
    "diagram_bins": lambda w: w.pick(15, 1, 10**8, 10**12),
    "level": lambda w: w.pick(0.95, 0.5, 0.999, 1e-300, np.float32(0.9)),
    "n_resamples": lambda w: w.pick(19, 99, 39, 1),
    "seed": lambda w: w.pick(0, 1, 2**64, np.int64(3)),
    "strategy": lambda w: w.pick("quantile", "uniform", "two_bin", "poisson", "exact", "auto", "kd", _rule(w)),
    "cells": lambda w: w.pick("argmax", "kd", "exact", _rule(w)),
    "binning": _rule,
    "property": lambda w: w.pick(
        tc.Binary(),
        tc.Classwise(),
        tc.Full(),
        tc.Confidence(),
        tc.TopLabel(),
        tc.Linear(range(w.k)),
        tc.Linear(w.rng.normal(size=(w.k, 2))),
    ),
    "norm": lambda w: w.pick("l2", "l2", "l1"),
    "scale": lambda w: w.pick("raw", "loss", "bins", "score"),
    "ties": lambda w: w.pick("auto", "average", "together", "row"),
    "corrected": lambda w: w.pick("auto", True, False),
    "range": lambda w: w.pick(None, (0, 1), (-5.0, 5.0), (-1e308, 1e308), (0, 5e-324)),
    "phi": lambda w: w.pick(range(w.k), np.eye(w.k), _numbers(w)),
    "bounds": lambda w: w.pick(None, (0, 1), (-5.0, 5.0)),
    "values": lambda w: w.pick([0, 0.5, 1], [0, 1e-320, 1]),
    "theta": lambda w: w.pick(0.1, 1e300, 1e-320),
    "n_directions": lambda w: w.pick(1, 64, 10**9),
    "what": lambda w: w.pick("U", "loss", "error", "gap"),
    "classes": lambda w: w.pick(None, [0], [0, 1], 2, (2, 3)),
    "names": lambda w: w.pick(("a", "b"), ("\n", "__proto__")),
    "name": lambda w: w.pick("model", "__proto__", "\n", 5),
    "reference": lambda w: w.pick(None, None, (np.tile(w.y, 120), np.tile(w.proba, (120, 1))), (w.y, w.proba), 5),
    "alpha": lambda w: w.pick(0.05, 1e-300, np.float32(0.5)),
    "time": lambda w: w.pick(None, "today", 3, np.datetime64("2026-01-01")),
    "per_example": lambda w: w.pick(False, True),
    "allow_untruthful": lambda w: w.pick(False, True),
    "progress": lambda w: None,
    "sampler": lambda w: None,
    "features": lambda w: w.pick(
        None, {"a": w.rng.integers(0, 2, w.n)}, {"a": ["x"] * w.n, "b": w.rng.random(w.n)}, w.proba, 5, {}
    ),
    "p_new": lambda w: w.column() if w.binary else w.proba,
    "risk": lambda w: w.pick(0.05, 0.5, 1e-12, 1.0),
    "delta": lambda w: w.pick(0.05, 0.5, 1e-12, 0.0),
    "cost": lambda w: w.pick(None, (1, 5), np.eye(w.k), [1.0, np.inf]),
    "pairs": lambda w: w.pick(True, False),
    "bins": lambda w: w.pick(5, 1, 10**8),
    "min_rows": lambda w: w.pick(50, 1, 5, 10**9),
    "gap": lambda w: w.pick(2, 0.001, 99, 100),
    "power": lambda w: w.pick(0.8, 1e-9, 0.999999),
    "shape": lambda w: w.pick("any", "level", "x"),
    "path": lambda w: w.pick("no such file.json", __file__, 5.5),
    "advise": lambda w: w.pick(False, True),
    "space": lambda w: w.pick("logits", "probabilities"),
    "floor": lambda w: w.pick(None, 0.01),
}
"""For each argument, by its name, values that are or could be right."""

ARRAYS = {
    *(
        "y_true",
        "y_proba",
        "y_proba",
        "a",
        "b",
        "correct",
        "confidence",
        "outcomes",
        "reports",
        "losses",
        "sample_weight",
    ),
    *("groups", "by", "labels", "X", "y", "logits_fit", "y_fit", "logits_select", "y_select", "values"),
}


class _Odd:
    def __repr__(self) -> str:
        return "odd\nobject"


def _hostile_array(w: World, good: Any) -> Any:
    """The good array with one thing wrong, or something that is no array."""
    x = np.array(good) if good is not None and not isinstance(good, range) else np.arange(float(w.n))
    change = int(w.rng.integers(5))
    if change == 0:
        return w.pick(x[:0], x[None], x[..., None], x.ravel(), x.T, x[:-1], np.append(x, x), np.array(0.5), x[::-1])
    if change == 1:
        kinds = (np.float16, np.float32, np.longdouble, np.int8, np.uint64, bool, complex, object, str, "S4", "M8[s]")
        return _as(x, w.pick(*kinds))
    if change == 2:
        return _with_value(w, x)
    if change == 3:
        return _contained(w, x)
    return w.pick(
        *(None, 5, 0.5, "text", b"bytes", "a\nb", object(), _Odd(), {}, {"a": 1}, {1, 2}, (), [], [[]], [None] * w.n),
        *((i for i in range(3)), [[1], [1, 2]], [_Odd()] * w.n, [Decimal("0.5")] * w.n, [Fraction(1, 2)] * w.n),
        *(
            [10**400] * w.n,
            [float("nan")] * w.n,
            [1, "a"] * w.n,
            memoryview(b"abc"),
            len,
            np.datetime64("NaT"),
            slice(3),
        ),
    )


def _as(x: Any, dtype: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return x.astype(dtype)
        except (ValueError, TypeError):
            return x.astype(object)


def _with_value(w: World, x: Any) -> Any:
    """One entry, or all, replaced by a number that is out of place."""
    if x.dtype.kind not in "biuf" or not x.size:
        return x
    x = _as(x, np.float64)
    value = w.pick(np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e-320, -0.0, -1e-9, 1 + 1e-9, 2.0, -1.0, 0.5, 100.0)
    if w.rng.random() < 0.3:
        return np.full_like(x, value)
    x.flat[int(w.rng.integers(x.size))] = value
    return x


def _contained(w: World, x: Any) -> Any:
    """The same numbers in another container."""
    import scipy.sparse

    plain = _as(x, np.float64) if x.dtype.kind in "biuf" else np.zeros(len(x))
    masked = np.ma.masked_array(plain, mask=w.rng.random(plain.shape) < 0.3)
    options: list[Any] = [x.tolist(), tuple(x.tolist()), np.asfortranarray(x), masked, list(masked), x.astype(object)]
    options += [[np.ma.masked, *plain[1:]] if x.ndim == 1 else [masked[0]] * len(x)]
    options += [scipy.sparse.csr_matrix(np.atleast_2d(plain)), plain.view(np.recarray), np.repeat(x, 2, axis=0)[::2]]
    options += [make(sys.modules[library], plain) for library, make in FRAMES if library in sys.modules]
    return w.pick(*options)


FRAMES: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("pandas", lambda m, x: m.Series(x) if x.ndim == 1 else m.DataFrame(x)),
    ("pandas", lambda m, x: m.Series(x, dtype="Float64") if x.ndim == 1 else m.DataFrame(x)),
    ("polars", lambda m, x: m.Series(x) if x.ndim == 1 else m.DataFrame(x)),
    ("polars", lambda m, x: m.DataFrame(x).lazy()),
    ("torch", lambda m, x: m.tensor(x)),
    ("torch", lambda m, x: m.tensor(x, requires_grad=True).bfloat16()),
    ("pyarrow", lambda m, x: m.array(x) if x.ndim == 1 else m.array(x.tolist())),
)
"""Containers of other libraries, made where the library has been loaded."""


def _hostile_option(w: World) -> Any:
    return w.pick(
        *(None, 0, -1, 1, 2.5, True, "auto", "nope", "", "\n", [], (5, 5), (0,), {}, 2**70, 10**12, float("nan")),
        *(
            float("inf"),
            0.9999999999999999,
            1e-320,
            1e308,
            b"x",
            object(),
            _Odd(),
            np.array([1.5]),
            np.array(["a"]),
            len,
        ),
        *(np.float64("nan"), np.ma.masked, (float("nan"), 1), (1, 0), (None, None), ["x"] * 3, Decimal("0.5"), 1j),
    )


def arguments(name: str, w: World, parameters: Any) -> dict[str, Any]:
    """Arguments by name: the needed ones and some of the others, of which some are hostile."""
    chosen: dict[str, Any] = {}
    harm = w.pick(0, 0, 1, 1, 2) / max(1, len(parameters))
    for key, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.default is not parameter.empty and w.rng.random() < 0.6:
            continue
        value = GOOD[key](w) if key in GOOD else w.pick(1, None, 0.5, "x")
        hostile = w.rng.random() < harm * (1 if parameter.default is parameter.empty else 2)
        if hostile and key != "progress":  # what a callback of the caller raises is the caller's
            value = _hostile_array(w, value) if key in ARRAYS else _hostile_option(w)
        chosen[key] = value
    if "n_resamples" in parameters:
        chosen.setdefault("n_resamples", 39)  # a case is quick
    if "budget" in parameters:
        chosen.setdefault("budget", 40)
        chosen.setdefault("seconds", 5)
    return chosen


def call(name: str, w: World) -> Any:
    """One call of the public name with random arguments; a rule or an error is used as well, a map fitted."""
    target = PUBLIC[name]
    if name in MAPS:
        return _fitted(target, w)
    made = target(**arguments(name, w, inspect.signature(target).parameters))
    if isinstance(made, tc.CalibrationError):
        return made(*(arguments("", w, inspect.signature(made).parameters)[key] for key in ("y_true", "y_proba")))
    if isinstance(made, tc.Monitor):
        return made.update(**arguments("", w, inspect.signature(made.update).parameters))
    if hasattr(made, "with_bins") or hasattr(made, "sizes"):
        scalar = any(hasattr(made, family) for family in ("cuts", "cut", "form"))
        return tc.CalibrationError(tc.Classwise() if scalar else tc.Full(), made)(w.y, w.proba)
    return made


def _fitted(kind: Any, w: World) -> Any:
    options = inspect.signature(kind).parameters
    made = kind(**arguments("", w, options))
    given = arguments("", w, inspect.signature(made.fit).parameters)
    X = given["X"]
    proba = made.fit(**given).predict_proba(X)
    assert proba.shape == np.shape(X) and np.isfinite(proba).all(), "a map gives finite probabilities"
    return None


class Broken(AssertionError):
    """A case that ended as none should."""


def judge(name: str, result: Any) -> None:
    """A result is finite, or says as JSON and as text that it is not."""
    for each in result if isinstance(result, tuple) else (result,):
        if isinstance(each, float) and name != "gap" and not (np.isfinite(each) or name == "cross_entropy"):
            raise Broken(f"the result is {each}")
        if isinstance(each, np.ndarray) and np.isnan(each).any():
            raise Broken("the result has NaN")
        if hasattr(each, "to_dict"):
            json.dumps(each.to_dict(), allow_nan=False)
        if is_dataclass(each):
            repr(each)


def refused_well(error: Exception, names: set[str]) -> None:
    """One line, not endless, that has the name of an argument."""
    said = str(error)
    if (
        "Reshape your data" in said or "Complex data" in said
    ):  # scikit-learn's own words, which its checks of estimators look for
        return
    if not said.strip() or "\n" in said or len(said) > 1000:
        raise Broken(f"the message is {said[:300]!r}")
    if not names & set(re.findall(r"\w+", said)):
        raise Broken(f"the message names no argument: {said}")


SAID = {
    "model",
    "n_resamples",
    "logits",
    "probabilities",
    "predictions",
    "bins",
    "edges",
    "estimator",
    "y_proba",
    "reports",
}
"""Words that name an argument by what it holds."""


@contextmanager
def limits() -> Iterator[None]:
    """No more than so many seconds, nor so much more memory."""

    def late(*_: object) -> None:
        raise Broken(f"not done in {SECONDS} seconds")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > MEGABYTES * 1000:
        raise Broken(f"took more than {MEGABYTES} MB")


def attempt(seed: int, number: int) -> bool:
    """Case `number` of a seed, the same every time; whether it gave a result. Raises Broken."""
    name = CALLED[number % len(CALLED)]
    w = World(np.random.default_rng([seed, number]))
    names = {*inspect.signature(PUBLIC[name]).parameters, *GOOD, *SAID}
    with limits(), warnings.catch_warnings():
        warnings.simplefilter("error")
        if name in MAPS or name in ("calibrate", "select_recalibration"):
            warnings.simplefilter("ignore", UserWarning)  # a fit that did not converge says so
        try:
            judge(name, call(name, w))
        except (ValueError, TypeError) as error:
            refused_well(error, names)
            return False
    return True


def run(seed: int, numbers: range) -> Iterator[tuple[int, str]]:
    """The cases that fail, with what happened."""
    for number in numbers:
        try:
            attempt(seed, number)
        except Exception as error:  # whatever it was, it is the finding
            yield number, fuzzing.failure(f"{CALLED[number % len(CALLED)]}", error)


def main(given: list[str] | None = None) -> int:
    """Exit code 0 when every call ended as it should."""
    return fuzzing.main("fuzz_api", "Random calls of every public name.", 10_000, "calls", run, given)


if __name__ == "__main__":
    import importlib

    for library in ("pandas", "polars", "torch", "pyarrow"):
        importlib.import_module(library)
    sys.exit(main())
