"""The torch backend on CPU tensors, which go its way when a sample is made of them, against numpy's numbers."""

from __future__ import annotations

import importlib
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import truecal
from closeness import assert_close
from on_device import OnDevice
from truecal.core.arrays import on_device
from truecal.core.averages import OnGrid
from truecal.core.dispatch import Dispatch
from truecal.core.vectors import ArgmaxEdges
from truecal.inference.device_draws import drawer
from truecal.inference.forms import ClassForms, ScalarForms
from truecal.sums import torch as backend
from worlds import bounded, is_multiclass, label_table, variants

tc: Any = truecal
torch_tables = importlib.import_module("truecal.sums.torch.device_tables")  # a function has its name in the package
VARIANTS = [(name, bounded(metric)) for name, metric in variants() if metric.property.kind != "survival"]
"""Censored times are read as arrays of numpy."""


def predictions(metric, n: int, *, ties: bool, seed: int = 0) -> tuple[Any, Any]:
    """Labels and predictions for a metric, with many equal predictions or none; k = 4."""
    rng = np.random.default_rng(seed)
    if metric.property.label_by_label:
        return label_table(rng, n, 4, ties)
    if is_multiclass(metric):
        p = rng.dirichlet([0.6] * 4, n)
        if ties:
            p = rng.multinomial(4, p) / 4
        return (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, 3), p
    if metric.property.kind == "distribution":
        u = rng.integers(0, 5, (n, 3)) / 4 if ties else rng.random((n, 3))
        return rng.integers(0, 4, n), np.sort(u, axis=1)
    u = rng.integers(0, 5, n) / 4 if ties else rng.random(n)
    y = (rng.random(n) < u).astype(float if metric.property.kind == "linear" else int)
    return y, u


def on_tensors(metric, y, p, w=None, dtype=torch.float64):
    """The sample of the same arrays as tensors: what predictions on a GPU become."""
    weights = None if w is None else torch.as_tensor(w)
    return backend.read(metric.property, torch.as_tensor(y), torch.as_tensor(p).to(dtype), weights)


def assert_same_parts(metric, here, there):
    """The raw error, and for squared errors loss, U, gap and score."""
    np.testing.assert_allclose(metric.of(there), metric.of(here), rtol=1e-9, atol=1e-14)
    if metric.norm == "l2":
        for ours, theirs in zip(metric.parts(there), metric.parts(here), strict=True):
            np.testing.assert_allclose(ours[:-1], theirs[:-1], rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(ours.gap, theirs.gap, rtol=1e-8, atol=1e-4)  # 100 times the root of rounding


@pytest.mark.heavy
@pytest.mark.parametrize("metric", [metric for _, metric in VARIANTS], ids=[name for name, _ in VARIANTS])
def test_every_error_rule_and_tie_setting_is_numpys(metric):
    for n, ties, weighted in product((1, 7, 60), (False, True), (False, True)):
        y, p = predictions(metric, n, ties=ties, seed=n)
        w = np.random.default_rng(1).random(n) + 0.1 if weighted else None
        here = metric.read(y, p, sample_weight=w)
        assert_same_parts(metric, here, on_tensors(metric, y, p, w))


@pytest.mark.parametrize("rule", [tc.Quantile, tc.EqualWidth])
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
@pytest.mark.parametrize("name", ["classwise", "classwise_l1", "confidence", "binary"])
def test_several_bin_counts_in_one_pass(name, ties, rule):
    metric = tc.CalibrationError(tc.ERRORS[name].property, rule((1, 3, 4, 50, 90)), tc.ERRORS[name].norm)
    y, p = predictions(metric, 80, ties=ties)
    assert_same_parts(metric, metric.read(y, p), on_tensors(metric, y, p))


@pytest.mark.parametrize("bins", [(2,), (2, 3, 9)])
def test_several_counts_of_cells_of_vectors(bins):
    for rule in (tc.rules.ArgmaxQuantile(bins), tc.rules.KdTree(bins)):
        metric = tc.CalibrationError(tc.Full(), rule)
        y, p = predictions(metric, 90, ties=True)
        assert_same_parts(metric, metric.read(y, p), on_tensors(metric, y, p))


def test_tables_to_look_at_are_numpys():
    for name, rule in [
        ("classwise", tc.Quantile((2, 5))),
        ("confidence", tc.EqualWidth(4)),
        ("full", tc.rules.KdTree(4)),
    ]:
        metric = tc.CalibrationError(tc.ERRORS[name].property, rule)
        y, p = predictions(metric, 50, ties=True)
        w = np.linspace(0.5, 3, 50)
        for ours, theirs in zip(
            metric.tables(OnDevice(y), OnDevice(p), sample_weight=OnDevice(w)),
            metric.tables(y, p, sample_weight=w),
            strict=True,
        ):
            for field in ("count", "outcome", "residual", "tie_variance", "residual_sq", "weight_sq"):
                np.testing.assert_allclose(getattr(ours, field), getattr(theirs, field), rtol=1e-9, atol=1e-12)
            assert isinstance(ours.count, np.ndarray) and ours.totals.rows == 50


def test_little_memory_gives_the_same_numbers():
    for metric in (
        tc.ERRORS["classwise"],
        tc.ERRORS["full"],
        tc.CalibrationError(tc.Classwise(), tc.EqualWidth(3)),
        tc.CalibrationError(tc.Classwise(), tc.Poisson()),
    ):
        y, p = predictions(metric, 40, ties=True)
        there = on_tensors(metric, y, p)
        np.testing.assert_allclose(metric.parts(there, Dispatch(device_numbers=41)), metric.parts(there), rtol=1e-12)
        np.testing.assert_allclose(metric.of(there, Dispatch(device_numbers=41)), metric.of(there), rtol=1e-12)


@pytest.mark.slow
def test_so_many_intervals_that_none_can_be_listed():
    metric = tc.CalibrationError(tc.Classwise(), tc.EqualWidth(3_000_000))
    y, p = predictions(metric, 30, ties=True)
    assert_same_parts(metric, metric.read(y, p), on_tensors(metric, y, p))


def test_frozen_cells_of_single_views_and_classes_are_measured_on_the_cpu():
    y, p = predictions(tc.ERRORS["classwise"], 50, ties=False)
    edges = [[0, 0.1 * j + 0.1, 1] for j in range(4)]
    for metric in (
        tc.CalibrationError(tc.Classwise(), tc.Edges(edges)),
        tc.CalibrationError(tc.Full(), ArgmaxEdges(edges)),
        tc.CalibrationError(tc.Classwise(), OnGrid(tc.TwoBin(), 8)),
    ):
        assert_same_parts(metric, metric.read(y, p), on_tensors(metric, y, p))
        assert_close(metric(OnDevice(y), OnDevice(p)), metric(y, p), 1)


# -- what people hand in -----------------------------------------------------------------------------------------------


def numbers(result):
    return {name: value for name, value in result.to_dict().items() if isinstance(value, float)}


def test_where_an_array_lies():
    assert on_device(OnDevice([1.0]))
    assert not any(on_device(x) for x in ([1.0], np.ones(1), torch.ones(1), None, "text"))


class Elsewhere:
    """An array of another library, which hands its memory over through DLPack alone, as CuPy's do."""

    def __init__(self, array):
        self._array, self.strides = array, array.strides

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def copy(self):
        return Elsewhere(self._array.copy())


@pytest.mark.parametrize("turned", [np.s_[:], np.s_[::-1], np.s_[::2], np.s_[:, ::-1]], ids=str)
def test_arrays_of_other_libraries(turned, monkeypatch):
    monkeypatch.setattr("truecal.core.arrays._CUDA", (1,))  # the CPU counts as a GPU
    y, p = predictions(tc.ERRORS["classwise"], 60, ties=False)
    p = np.asfortranarray(p)[turned]
    for labels in (y[: len(p)], y[: len(p)].astype(np.uint16)):
        found = tc.classwise_error(Elsewhere(labels[::-1]), Elsewhere(p))
        assert found == pytest.approx(tc.classwise_error(labels[::-1], p), rel=1e-9)


def test_public_functions_take_arrays_on_a_gpu():
    y, p = predictions(tc.ERRORS["classwise"], 200, ties=False)
    u, z, v = p[:, 0], (y == 0).astype(int), np.arange(200) / 7
    there = (OnDevice(y), OnDevice(p))
    assert tc.classwise_error(*there) == pytest.approx(tc.classwise_error(y, p), rel=1e-9)
    assert tc.classwise_error(y, OnDevice(p)) == pytest.approx(tc.classwise_error(y, p), rel=1e-9)
    assert tc.confidence_error(*there, norm="l1") == pytest.approx(tc.confidence_error(y, p, norm="l1"), rel=1e-9)
    assert tc.full_error(*there, strategy="kd") == pytest.approx(tc.full_error(y, p, strategy="kd"), rel=1e-9)
    assert tc.binary_error(OnDevice(z), OnDevice(u)) == pytest.approx(tc.binary_error(z, u), rel=1e-9)
    assert tc.top_label_error(OnDevice(z), OnDevice(u)) == pytest.approx(tc.top_label_error(z, u), rel=1e-9)
    assert tc.linear_error(OnDevice(v), OnDevice(v + u)) == pytest.approx(tc.linear_error(v, v + u), rel=1e-9)
    assert tc.linear_error(OnDevice(p), OnDevice(p[::-1].copy())) == pytest.approx(
        tc.linear_error(p, p[::-1]), rel=1e-9
    )
    for error in ("classwise", "confidence", "full"):
        assert tc.score(*there, error=error) == pytest.approx(tc.score(y, p, error=error), rel=1e-9)
        ours, theirs = tc.decompose(*there, error=error), tc.decompose(y, p, error=error)
        assert numbers(ours) == pytest.approx(numbers(theirs), rel=1e-9)
    assert tc.classwise_error(*there, n_bins=[2, 5]).tolist() == pytest.approx(
        tc.classwise_error(y, p, n_bins=[2, 5]).tolist(), rel=1e-9
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("strategy", ["uniform", "quantile", "exact"])
def test_narrow_floats_are_binned_as_on_the_cpu(dtype, strategy):
    y, p = predictions(tc.ERRORS["classwise"], 300, ties=False)
    narrow = torch.as_tensor(p).to(dtype)
    expected = tc.classwise_error(y, narrow, strategy=strategy, norm="l1")
    assert tc.classwise_error(OnDevice(y), OnDevice(narrow), strategy=strategy, norm="l1") == pytest.approx(
        expected, rel=1e-9
    )


def test_an_edge_is_compared_in_the_precision_of_the_predictions():
    u = torch.tensor([0.7, 0.3], dtype=torch.float32)
    table = tc.analysis.tabulate(tc.Binary(), tc.EqualWidth(10), OnDevice([1, 0]), OnDevice(u))[0]
    assert table.count[0].tolist() == [0, 0, 1, 0, 0, 0, 1, 0, 0, 0]


GOOD = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])


def changed(place, value):
    p = GOOD.copy()
    p[place] = value
    return p


@pytest.mark.parametrize(
    ("y", "p", "w"),
    [
        ([0, 1, 1], changed((1, 0), np.nan), None),
        ([0, 1, 1], changed((1, 0), np.inf), None),
        ([0, 1, 1], changed((2, 1), 0.3), None),
        ([0, 1, 1], changed(2, [1.2, -0.2]), None),
        ([0, 1, 1], 100 * GOOD, None),
        ([0, 1, 2], GOOD, None),
        ([1, 2, 2], GOOD, None),
        ([0, -1, 1], GOOD, None),
        ([0.0, 0.5, 1.0], GOOD, None),
        ([True, False, True], GOOD, None),
        ([0j, 1j, 1j], GOOD, None),
        ([0, 1], GOOD, None),
        ([0, 1, 2], GOOD[:, 0], None),
        ([0, 1, 1], GOOD[:, :1], None),
        (GOOD, [0, 1, 1], None),
        ([0, 1, 1], GOOD, [1.0, -1.0, 1.0]),
        ([0, 1, 1], GOOD, [1.0, np.nan, 1.0]),
        ([0, 1, 1], GOOD, [0.0, 0.0, 0.0]),
        ([0, 1, 1], GOOD, [1.0, 1.0]),
    ],
)
def test_bad_input_is_refused_in_the_words_of_the_cpu(y, p, w):
    with pytest.raises((ValueError, TypeError)) as here:
        tc.classwise_error(y, p, sample_weight=w)
    weights = None if w is None else OnDevice(w)
    with pytest.raises((ValueError, TypeError)) as there:
        tc.classwise_error(OnDevice(y), OnDevice(p), sample_weight=weights)
    assert (there.type, str(there.value)) == (here.type, str(here.value))


@pytest.mark.parametrize(
    ("function", "y", "u", "options"),
    [
        ("binary_error", [0, 1, 2], [0.1, 0.2, 0.3], {}),
        ("binary_error", [0, 1, 1], [0.1, 1.2, 0.3], {}),
        ("top_label_error", [0, 1, 3], [0.1, 0.2, 0.3], {}),
        ("linear_error", [0.0, 1.0, 1.0], [0.1, np.nan, 0.3], {}),
        ("linear_error", [0.0, 1.0, 1.0], [0.1, 7.0, 0.3], {"range": (0, 1)}),
        ("linear_error", [0.0, 1e70, 1.0], [0.1, 7.0, 0.3], {}),
        ("binary_error", [0, 1, 1], [0.1, 0.2, 0.9], {"strategy": tc.Edges([0, 0.5])}),
    ],
)
def test_bad_numbers_are_refused_in_the_words_of_the_cpu(function, y, u, options):
    with pytest.raises(ValueError, match=r"row|two classes|top class|size") as here:
        getattr(tc, function)(y, u, **options)
    with pytest.raises(ValueError, match=r"row|two classes|top class|size") as there:
        getattr(tc, function)(OnDevice(y), OnDevice(u), **options)
    assert str(there.value) == str(here.value)


def test_what_is_no_array_is_refused_in_the_words_of_the_cpu():
    for function in (tc.binary_error, tc.top_label_error, tc.linear_error):
        with pytest.raises(TypeError, match="must be an array, got None") as here:
            function(None, [0.1, 0.2])
        with pytest.raises(TypeError, match="must be an array, got None") as there:
            function(None, OnDevice([0.1, 0.2]))
        assert str(there.value) == str(here.value)


def test_many_counts_have_a_few_views_at_a_time(monkeypatch):
    """Their bins may be more than the rows, and fill the memory as well."""
    y, p = predictions(tc.ERRORS["classwise"], 30, ties=True)
    counts, wide = tuple(range(1, 30)), []
    tables = torch_tables._sorted_tables

    def noted(build, tile):
        wide.append(tile.stop - tile.start)
        return tables(build, tile)

    monkeypatch.setattr(torch_tables, "_sorted_tables", noted)
    metric = tc.CalibrationError(tc.Classwise(), tc.Quantile(counts))
    found = metric.of(on_tensors(metric, y, p), Dispatch(device_numbers=8 * sum(counts)))
    assert wide == [2, 2]
    np.testing.assert_allclose(found, tc.classwise_error(y, p, n_bins=counts), rtol=1e-9)


def test_labels_by_name_and_soft_labels():
    y, p = predictions(tc.ERRORS["classwise"], 60, ties=False)
    names = np.array(["a", "b", "c", "d"])
    value = tc.classwise_error(y, p)
    assert tc.classwise_error(names[y], OnDevice(p), labels=names) == pytest.approx(value, rel=1e-9)
    assert tc.classwise_error(OnDevice(y + 3), OnDevice(p), labels=[3, 4, 5, 6]) == pytest.approx(value, rel=1e-9)
    assert tc.classwise_error(OnDevice(y.astype(float)), OnDevice(p)) == pytest.approx(value, rel=1e-9)
    assert tc.binary_error(OnDevice(2 * (y == 0) - 1), OnDevice(p[:, 0])) == pytest.approx(
        tc.binary_error(y == 0, p[:, 0]), rel=1e-9
    )
    votes = np.random.default_rng(0).dirichlet([1] * 4, 60)
    for name in ("classwise", "confidence", "full"):
        expected = numbers(tc.decompose(votes, p, error=name))
        assert numbers(tc.decompose(OnDevice(votes), OnDevice(p), error=name)) == pytest.approx(expected, rel=1e-9)


def test_weights_in_any_unit():
    y, p = predictions(tc.ERRORS["confidence"], 60, ties=False)
    w = np.linspace(0.5, 3, 60)
    for unit in (1.0, 1e-300, 1e300):
        there = tc.decompose(OnDevice(y), OnDevice(p), error="confidence", sample_weight=OnDevice(unit * w))
        here = tc.decompose(y, p, error="confidence", sample_weight=unit * w)
        assert numbers(there) == pytest.approx(numbers(here), rel=1e-9)


@pytest.mark.parametrize("name", list(tc.LOSSES))
def test_losses_of_arrays_on_a_gpu(name):
    loss = tc.LOSSES[name]
    y, p = predictions(tc.ERRORS["classwise"], 60, ties=True)
    p[y == 0] = 0.25  # a tie for the top class, and no label of probability 0
    p = np.where(p[np.arange(60), y, None] == 0, 0.25, p)
    w = np.linspace(0, 3, 60)
    votes = np.random.default_rng(0).dirichlet([1] * 4, 60)
    soft = np.where(p > 0, votes, 0) / np.where(p > 0, votes, 0).sum(1, keepdims=True)
    for labels in (y, soft):
        assert loss(OnDevice(labels), OnDevice(p)) == pytest.approx(loss(labels, p), rel=1e-12)
        weighted = loss(OnDevice(labels), OnDevice(p), sample_weight=OnDevice(w))
        assert weighted == pytest.approx(loss(labels, p, sample_weight=w), rel=1e-12)
    each = loss(OnDevice(y), OnDevice(p), per_example=True)
    assert isinstance(each, torch.Tensor) and each.tolist() == pytest.approx(loss(y, p, per_example=True).tolist())
    with pytest.raises(ValueError, match="sample_weight cannot be used"):
        loss(OnDevice(y), OnDevice(p), sample_weight=w, per_example=True)


def test_the_loss_of_a_linear_property():
    v = np.arange(6.0).reshape(3, 2)
    assert_close(tc.losses.linear_loss(OnDevice(v), OnDevice(v[::-1].copy())), tc.losses.linear_loss(v, v[::-1]))


@pytest.mark.slow
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
@pytest.mark.parametrize("rule", [tc.Quantile((2, 5, 90)), tc.Quantile(4, ties="together")], ids=str)
@pytest.mark.parametrize("name", ["classwise", "confidence", "binary"])
def test_a_test_of_U_draws_where_the_predictions_lie(name, rule, ties):
    metric = tc.CalibrationError(tc.ERRORS[name].property, rule)
    y, p = predictions(metric, 80, ties=ties, seed=7)  # not the seed of the draws
    here, there = (tc.calibration_test(*x, error=metric, n_resamples=400) for x in ((y, p), (OnDevice(y), OnDevice(p))))
    assert there.null == here.null and there.n_bins == here.n_bins
    for ours, theirs in zip(there.details, here.details, strict=True):
        assert pytest.approx(theirs.U, rel=1e-9, abs=1e-12) == ours.U
        assert ours.null_sd == pytest.approx(theirs.null_sd, rel=0.25, abs=1e-9)  # other draws of the same law
        assert ours.pvalue == pytest.approx(theirs.pvalue, abs=0.12)
    assert_close(tc.calibration_test(OnDevice(y), OnDevice(p), error=metric, n_resamples=400), there, 1)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
@pytest.mark.parametrize("forms", [ScalarForms, ClassForms])
def test_the_forms_of_the_test_are_numpys(forms, ties, weighted):
    name = "binary" if forms is ScalarForms else "classwise"
    y, p = predictions(tc.ERRORS[name], 90, ties=ties)
    w = np.linspace(0.5, 2, 90) if weighted else None
    outcomes = np.stack([y, y[::-1], np.roll(y, 7)])
    if forms is ScalarForms:
        outcomes = outcomes.astype(float)
    here = forms.of(p, w)
    there = forms.of(torch.as_tensor(p), None if w is None else torch.as_tensor(w))
    assert there.forms == here.forms
    for ours, theirs in zip(there.values(torch.as_tensor(outcomes)), here.values(outcomes), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_the_test_of_several_forms_draws_where_the_predictions_lie():
    y, p = predictions(tc.ERRORS["classwise"], 300, ties=False)
    for sharp in (1.0, 2.0):
        q = p**sharp / (p**sharp).sum(1, keepdims=True)
        here, there = (tc.calibration_test(*x, n_resamples=199) for x in ((y, q), (OnDevice(y), OnDevice(q))))
        assert (there.null, there.tested) == (here.null, here.tested)
        assert there.pvalue == pytest.approx(here.pvalue, abs=0.15)  # other draws of the same law
        assert (there.pvalue <= 0.05) == (sharp == 2.0)
        if sharp == 2.0:
            assert there.strongest == here.strongest
    assert tc.calibration_test(OnDevice((y == 0).astype(int)), OnDevice(p[:, 0]), n_resamples=99).pvalue > 0.01


@pytest.mark.slow
def test_evaluate_and_compare_copy_what_lies_on_a_gpu():
    y, p = predictions(tc.ERRORS["classwise"], 60, ties=False)
    w, by, options = (
        np.linspace(0.5, 2, 60),
        np.arange(60) // 20,
        {"n_resamples": 99, "errors": ["classwise", "confidence"]},
    )
    here = tc.evaluate(y, p, sample_weight=w, by=by, **options)
    there = tc.evaluate(OnDevice(y), OnDevice(p), sample_weight=OnDevice(w), by=OnDevice(by), **options)
    assert repr(there) == repr(here)
    assert_close(there.to_dict(), here.to_dict(), 1)
    models, same = {"a": p, "b": p[:, ::-1].copy()}, {}
    same = {name: OnDevice(proba) for name, proba in models.items()}
    assert repr(tc.compare(OnDevice(y), same, **options)) == repr(tc.compare(y, models, **options))


def test_drawn_labels_follow_the_predictions():
    p = torch.tensor([[0.2, 0.5, 0.3], [0.0, 1.0, 0.0]])
    drawn = drawer(p, np.random.default_rng(0))(4000)
    shares = torch.nn.functional.one_hot(drawn, 3).double().mean(0)
    assert torch.allclose(shares, p.double(), atol=0.03)
    assert shares[1].tolist() == [0.0, 1.0, 0.0]
    came = drawer(torch.tensor([0.0, 0.3, 1.0]), np.random.default_rng(0))(4000)
    assert came.double().mean(0).tolist() == pytest.approx([0.0, 0.3, 1.0], abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        tc.gap,
        tc.analysis.mean_gap,
        tc.confidence_interval,
        tc.analysis.consistency_bands,
        lambda y, p: tc.gap(y, p, error="classwise"),
        lambda y, p: tc.calibration_test(y, p, error="full", n_bins=2, n_resamples=99),
    ],
)
def test_what_is_not_computed_on_a_gpu_moves_to_the_cpu_by_itself(call):
    y, p = predictions(tc.ERRORS["classwise"], 60, ties=False)
    assert_close(call(OnDevice(y), OnDevice(p)), call(y, p), 1)
