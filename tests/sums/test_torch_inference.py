"""Whole models and intervals on tensors: the numbers of numpy, from sums made where the predictions are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import truecal
from closeness import assert_close
from on_device import OnDevice
from truecal.kinds import inputs

tc: Any = truecal


def sample(n: int = 600, k: int = 4, *, ties: bool = False, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.6] * k, n)
    y = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, k - 1)
    if ties:
        p = rng.multinomial(5, p) / 5
    return y, p.astype(np.float32) if k > 2 else p[:, 1].astype(np.float32)


@pytest.fixture
def stays(monkeypatch):
    """Predictions stay where they are, however few."""
    monkeypatch.setattr(inputs, "LEAST_ON_DEVICE", 0)


CASES = [(4, False, False), (4, True, True), (2, False, True), (2, True, False)]
KINDS = pytest.mark.parametrize(("k", "ties", "weighted"), CASES)


def arrays(k: int, ties: bool, weighted: bool) -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
    y, p = sample(k=k, ties=ties)
    w = np.random.default_rng(1).random(len(y)) if weighted else None
    here = {} if w is None else {"sample_weight": w}
    there = {} if w is None else {"sample_weight": OnDevice(w)}
    return y, p, here, there


@pytest.mark.slow
@KINDS
def test_gaps_and_intervals(k, ties, weighted):
    y, p, here, there = arrays(k, ties, weighted)
    for error in ("classwise", "confidence") if k > 2 else ("binary",):
        found = tc.gap(OnDevice(y), OnDevice(p), error=error, **there)
        assert_close(found, tc.gap(y, p, error=error, **here), 1.0)
        for what in ("U", "gap_sq", "loss", "score", "error"):
            options = {"error": error, "what": what, "n_bins": (3, 10)}
            found = tc.confidence_interval(OnDevice(y), OnDevice(p), **options, **there)
            assert_close(found, tc.confidence_interval(y, p, **options, **here), 1.0)


@pytest.mark.slow
@KINDS
def test_paired_differences(k, ties, weighted):
    y, p, here, there = arrays(k, ties, weighted)
    q = sample(k=k, seed=5)[1]
    found = tc.paired_difference(OnDevice(y), OnDevice(p), OnDevice(q), **there)
    assert_close(found, tc.paired_difference(y, p, q, **here), float(len(y)))
    assert_close(tc.paired_difference(y, OnDevice(p), q, **here), tc.paired_difference(y, p, q, **here), float(len(y)))


@KINDS
def test_evaluate(stays, k, ties, weighted):
    y, p, here, there = arrays(k, ties, weighted)
    found, wanted = tc.evaluate(OnDevice(y), OnDevice(p), **there), tc.evaluate(y, p, **here)
    for part in ("losses", "errors", "gaps", "direction", "notes"):
        assert_close(getattr(found, part), getattr(wanted, part), 100.0, where=part)  # gaps are in points
    for name, diagram in wanted.reliability.items():
        assert_close(found.reliability[name].to_dict(), diagram.to_dict(), 1.0)
    assert 0 < found.test.pvalue <= 1  # the draws are torch's


@pytest.mark.heavy
@pytest.mark.parametrize("option", ["by", "groups", "folds"])
def test_evaluate_with_parts_of_the_rows(stays, option):
    y, p = sample()
    parts = {option: np.arange(len(y)) % 5}
    found, wanted = tc.evaluate(OnDevice(y), OnDevice(p), **parts), tc.evaluate(y, p, **parts)
    assert_close(found.errors, wanted.errors, 1.0)
    for name, part in wanted.subgroups.items():
        assert_close(found.subgroups[name].errors, part.errors, 1.0)


def test_evaluate_label_distributions(stays):
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet([1.0] * 3, 200), rng.dirichlet([1.0] * 3, 200)
    found, wanted = tc.evaluate(OnDevice(y), OnDevice(p)), tc.evaluate(y, p)
    assert_close(found.errors, wanted.errors, 1.0)
    assert_close(found.losses, wanted.losses, 1.0)


@pytest.mark.slow
def test_compare(stays):
    y, p = sample()
    q = sample(seed=5)[1]
    found = tc.compare(OnDevice(y), {"one": OnDevice(p), "other": OnDevice(q)})
    mixed = tc.compare(y, {"one": OnDevice(p), "other": q})
    wanted = tc.compare(y, {"one": p, "other": q})
    assert_close(found.pairs, wanted.pairs, 1.0)
    assert_close(mixed.pairs, wanted.pairs, 1.0)
    assert found.rankings == wanted.rankings


@pytest.mark.parametrize("k", [2, 4])
def test_the_usual_ece(k):
    y, p = sample(k=k)
    assert_close(tc.ece(OnDevice(y), OnDevice(p)), tc.ece(y, p))


def test_few_predictions_are_measured_on_the_cpu():
    y, p = sample()
    assert_close(tc.evaluate(OnDevice(y), OnDevice(p)).test, tc.evaluate(y, p).test, 1.0)


def test_bad_predictions_are_named_as_on_the_cpu(stays):
    y, p = sample()
    p[7] *= 2
    for call in (tc.evaluate, tc.gap, tc.confidence_interval):
        with pytest.raises(ValueError, match=r"row 7 of .* sums to") as there:
            call(OnDevice(y), OnDevice(p))
        with pytest.raises(ValueError, match=r"row 7 of .* sums to") as here:
            call(y, p)
        assert str(there.value) == str(here.value)


UNUSUAL = {
    "float8": lambda p: p.to(torch.float8_e4m3fn),
    "sparse": lambda p: p.to_sparse(),
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("name", ["classwise_error", "confidence_error", "brier", "gap", "evaluate"])
def test_what_numpy_cannot_read_is_refused_alike(stays, kind, name):
    y, p = sample()
    odd = UNUSUAL[kind](torch.as_tensor(p))
    with pytest.raises(TypeError) as here:
        getattr(tc, name)(torch.as_tensor(y), odd)
    with pytest.raises(TypeError) as there:
        getattr(tc, name)(OnDevice(torch.as_tensor(y)), OnDevice(odd))
    assert str(there.value) == str(here.value)


@pytest.mark.slow
def test_deterministic_algorithms(stays):
    y, p = sample()
    w = np.random.default_rng(1).random(len(y))
    torch.use_deterministic_algorithms(True)
    try:
        found = tc.evaluate(OnDevice(y), OnDevice(p), sample_weight=OnDevice(w))
        tc.calibration_test(OnDevice(y), OnDevice(p))
    finally:
        torch.use_deterministic_algorithms(False)
    assert_close(found.errors, tc.evaluate(y, p, sample_weight=w).errors, 1.0)


@pytest.mark.parametrize("name", ["VectorScaling", "MatrixScaling", "HistogramBinning", "TemperatureScaling"])
def test_recalibration_takes_tensors(name):
    y, p = sample(k=3)
    z = np.log(np.maximum(p, 1e-6))
    kind = getattr(tc.recalibration, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here, there = kind().fit(z, y), kind().fit(OnDevice(z), OnDevice(y))
    found = there.predict_proba(OnDevice(z))
    assert isinstance(found, torch.Tensor)
    assert_close(found.numpy().astype(np.float64), here.predict_proba(z).astype(np.float64), 1.0, 1e-6)
    assert (there.predict(OnDevice(z)) == here.predict(z)).all()


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["classwise_error", "score", "brier", "gap", "ece"])
def test_public_calls_leave_a_compiled_graph(name):
    y, p = (torch.as_tensor(x) for x in sample(k=3))
    function = getattr(tc, name)

    def call(y: torch.Tensor, p: torch.Tensor) -> Any:
        return function(y, p * 1.0), (p + 1).sum()

    found, total = torch.compile(call, backend="eager")(y, p)
    assert_close(found, function(y, p), 1.0)
    assert_close(total.item(), (p + 1).sum().item(), 1.0, 1e-5)
