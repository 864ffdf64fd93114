"""The kernels in Triton, run by its interpreter on the CPU, against numpy's numbers."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import truecal
from on_device import OnDevice
from truecal.core.dispatch import DISPATCH, Dispatch
from truecal.sums import torch as backend
from truecal.sums.torch import kernels, quick, reading

tc: Any = truecal
os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton", reason="Triton is not installed: make kernels")
fused = pytest.importorskip("truecal.sums.torch.fused")
ranks = pytest.importorskip("truecal.sums.torch.fused_quantiles")

pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")  # in Triton


def interpreter_works() -> bool:
    """Triton's interpreter takes arrays of one number for numbers, which numpy 2.4 refuses."""
    numbers = torch.zeros(fused.HEAD, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fused.check(torch.full((1, 2), 0.5), torch.zeros(1, dtype=torch.int64), 1.0, 1.0, numbers)
        except fused.TritonError:
            return False
    return True


if not interpreter_works():
    pytest.skip("Triton's interpreter does not run with this numpy: make kernels", allow_module_level=True)


def matrix(n: int, k: int, *, ties: bool, seed: int = 0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.4] * k, n)
    if ties:
        p = rng.multinomial(4, p) / 4
    y = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, k - 1)
    return torch.as_tensor(y), torch.as_tensor(p).float()


RULES = [
    tc.Quantile(1),
    tc.Quantile(3),
    tc.Quantile((2, 5, 7, 400)),
    tc.Quantile((2, 5), ties="together"),
    tc.EqualWidth(1),
    tc.EqualWidth(15),
    tc.EqualWidth((3, 4, 10)),
    tc.Edges([0, 0.1, 0.5, 1]),
]


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("name", ["classwise", "confidence"])
def test_raw_errors_are_numpys(name, rule, ties, norm):
    y, p = matrix(300, 3, ties=ties)
    metric = tc.CalibrationError(tc.ERRORS[name].property, rule, norm)
    sample = backend.read(metric.property, y, p)
    found = backend.raw_moments(sample, rule, metric.ties, norm, Dispatch(device_numbers=700), fused)
    totals = sample.totals
    ours = metric._values(found or (), totals, sample.averaged)
    np.testing.assert_allclose(ours, np.atleast_1d(metric(y, p)), rtol=1e-9, atol=1e-15)


def test_what_has_no_short_way(monkeypatch):
    y, p = matrix(20, 3, ties=False)
    sample = backend.read(tc.Classwise(), y, p)
    monkeypatch.setattr(quick, "_MOST_CELLS", 12)
    for rule in (tc.EqualWidth(5), tc.EqualWidth((2, 3)), tc.Edges([0, 0.1, 0.2, 0.3, 0.4, 1])):
        assert backend.raw_moments(sample, rule, "average", "l2", DISPATCH, fused) is None
    for rule, ties in ((tc.rules.Exact(), "average"), (tc.TwoBin(), "average"), (tc.Quantile(3, ties="row"), "row")):
        assert backend.raw_moments(sample, rule, ties, "l2", DISPATCH, fused) is None


@pytest.mark.parametrize("k", [2, 5, 40])
def test_one_pass_checks_the_rows_and_finds_the_top(k):
    y, p = matrix(70, k, ties=True)
    numbers = torch.zeros(fused.HEAD, dtype=torch.float64)
    top, right = fused.check(p, y, 1e-3, 1e-6, numbers)
    assert numbers[0] == 0 and numbers.sum() == right.sum()
    assert top.tolist() == p.max(1).values.tolist()
    assert right.tolist() == (torch.as_tensor(p.numpy().argmax(1)) == y).tolist()


METRICS = {
    "classwise": lambda y, p: tc.classwise_error(y, p, n_bins=4),
    "classwise, equal width": lambda y, p: tc.classwise_error(y, p, strategy="uniform", n_bins=(3, 4)),
    "classwise, one interval": lambda y, p: tc.classwise_error(y, p, strategy="uniform", n_bins=1),
    "confidence": lambda y, p: tc.confidence_error(y, p, n_bins=(2, 5), scale="loss"),
    "usual ECE": lambda y, p: tc.confidence_error(y, p, norm="l1", n_bins=(3, 4)),
    "many intervals": lambda y, p: tc.confidence_error(y, p, strategy="uniform", n_bins=300, scale="bins"),
}


class Transfers:
    """Public calls go the way of a GPU with Triton, and what they read from it is counted."""

    def __init__(self, monkeypatch):
        self.count = 0
        monkeypatch.setattr(kernels, "failed", set())
        for module in (quick, reading):
            monkeypatch.setattr(module, "kernels_for", lambda x: None if x.device in kernels.failed else fused)
        read = quick._Work._read

        def counted(work, numbers):
            self.count += 1
            return read(work, numbers)

        monkeypatch.setattr(quick._Work, "_read", counted)


@pytest.fixture
def transfers(monkeypatch):
    return Transfers(monkeypatch)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", METRICS)
def test_public_calls_read_the_device_once(name, dtype, transfers):
    y, p = matrix(90, 5, ties=False)
    call, p = METRICS[name], p.to(dtype)
    found = call(OnDevice(y), OnDevice(p))
    assert transfers.count == 1
    np.testing.assert_allclose(found, call(y, p), rtol=1e-9)
    np.testing.assert_allclose(call(OnDevice(y.int()), OnDevice(p)), call(y, p), rtol=1e-9)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("what", ["nan", "inf", "above", "below", "sum", "label -1", "label k"])
def test_what_is_wrong_is_said_in_the_words_of_the_cpu(name, what, transfers):
    y, p = matrix(70, 40, ties=True)
    row = p[69]
    changes = {"nan": torch.nan, "inf": torch.inf, "above": 1.5, "below": -0.5, "sum": float(row[1]) + 0.01}
    if what in changes:
        row[1] = changes[what]
    if what in ("above", "below"):  # the row sums to 1 all the same
        row[0] += 1 - row.sum()
    y[69] = {"label -1": -1, "label k": 40}.get(what, int(y[69]))
    with pytest.raises(ValueError, match=r"row|column") as here:
        METRICS[name](y, p)
    with pytest.raises(ValueError, match=r"row|column") as there:
        METRICS[name](OnDevice(y), OnDevice(p))
    assert str(there.value) == str(here.value)


def test_a_row_that_only_a_quick_sum_refuses_is_measured(transfers):
    """Rows at the limit of what is allowed go to the checks of the CPU, which have the last word."""
    y, p = matrix(50, 5, ties=False)
    p = p.double()
    p[3] *= 1 + 1.0005e-3
    with pytest.raises(ValueError, match="row 3"):
        tc.classwise_error(OnDevice(y), OnDevice(p))
    p[3] /= 1 + 1e-6
    assert tc.classwise_error(OnDevice(y), OnDevice(p)) == pytest.approx(tc.classwise_error(y, p), rel=1e-9)


def test_calls_one_after_the_other_do_not_mix(transfers):
    """Zeros are made ahead for the next call; one of another size, or after a wrong row, takes its own."""
    samples = [matrix(60, k, ties=False, seed=k) for k in (4, 4, 6, 4)]
    wrong = samples[0][1].clone()
    wrong[7] *= 2
    for name, call in METRICS.items():
        for y, p in samples:
            with pytest.raises(ValueError, match="row 7"):
                call(OnDevice(samples[0][0]), OnDevice(wrong))
            for _ in range(2):
                np.testing.assert_allclose(call(OnDevice(y), OnDevice(p)), call(y, p), rtol=1e-9, err_msg=name)


def test_only_small_arrays_stay_on_the_device(monkeypatch, transfers):
    y, p = matrix(40, 3, ties=False)
    kept = (quick._cuts, quick._intervals)
    before = [cache.cache_info().currsize for cache in kept]
    monkeypatch.setattr(quick, "_MOST_SPARE", 20)
    for strategy in ("quantile", "uniform"):
        found = tc.classwise_error(OnDevice(y), OnDevice(p), strategy=strategy, n_bins=30)
        assert found == pytest.approx(tc.classwise_error(y, p, strategy=strategy, n_bins=30), rel=1e-9)
    assert [cache.cache_info().currsize for cache in kept] == before


def test_a_call_that_breaks_off_leaves_nothing_behind(monkeypatch, transfers):
    """Its sums are in an array that another call would have taken for zeros."""
    y, p = matrix(60, 4, ties=False)
    call, wanted = METRICS["classwise, equal width"], METRICS["classwise, equal width"](y, p)

    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(fused, "finish", stopped)
            for _ in range(3):
                with pytest.raises(KeyboardInterrupt):
                    call(OnDevice(y), OnDevice(p))
        for _ in range(3):
            np.testing.assert_allclose(call(OnDevice(y), OnDevice(p)), wanted, rtol=1e-9)


@pytest.mark.parametrize("calls_inside", [1, 2])
@pytest.mark.parametrize("name", ["classwise", "classwise, equal width", "confidence"])
def test_calls_in_and_out_of_inference_mode_take_turns(name, calls_inside, monkeypatch, transfers):
    """torch refuses to write, outside inference mode, to an array that was made inside."""
    monkeypatch.setattr(quick, "_spare", quick._Spare())
    y, p = matrix(60, 4, ties=False)
    call, wanted = METRICS[name], METRICS[name](y, p)
    for inside in [True] * calls_inside + [False, True, False, False]:
        with torch.inference_mode(inside):
            np.testing.assert_allclose(call(OnDevice(y), OnDevice(p)), wanted, rtol=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_labels_in_a_column_of_a_table(name, transfers):
    """One column of two: labels that do not lie one after the other, in a shape that is not the plain one."""
    y, p = matrix(60, 4, ties=False)
    table = torch.stack([y, (y + 1) % 4], 1)
    np.testing.assert_allclose(METRICS[name](OnDevice(table[:, :1]), OnDevice(p)), METRICS[name](y, p), rtol=1e-9)


@pytest.mark.parametrize("integer", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("name", METRICS)
def test_columns_that_lie_more_than_32_bits_apart(name, integer, transfers):
    """As in a large matrix that is transposed; most of the memory is never touched."""
    apart = 2**30
    y, p = matrix(40, 3, ties=True)
    p = p.half()
    far = torch.empty(2 * apart + len(p), dtype=torch.float16).as_strided(p.shape, (1, apart)).copy_(p)
    np.testing.assert_allclose(METRICS[name](OnDevice(y.to(integer)), OnDevice(far)), METRICS[name](y, p), rtol=1e-9)


class Launches(dict):
    """A kernel whose grids are kept."""

    def __init__(self, kernel, grids):
        self.kernel, self.grids = kernel, grids

    def __getitem__(self, grid):
        self.grids.append(grid)
        return self.kernel[grid]


def test_grids_have_one_dimension_and_bins_of_many_counts_a_few_views_at_a_time(monkeypatch, transfers):
    """CUDA ends a second dimension at 65,535 programs; many counts have more bins than there are rows."""
    grids: list[Any] = []
    for module, names in ((fused, ("_check", "_walk", "_finish", "_cells")), (ranks, ("_count", "_bins"))):
        for kernel in names:
            monkeypatch.setattr(module, kernel, Launches(getattr(module, kernel), grids))
    y, p = matrix(20, 6, ties=True)
    for call in METRICS.values():
        call(OnDevice(y), OnDevice(p))
    rule = tc.Quantile(tuple(range(1, 20)))
    sample = backend.read(tc.Classwise(), y, p)
    sizes, zeros = [], quick._zeros

    def noted(size, device):
        sizes.append(size)
        return zeros(size, device)

    monkeypatch.setattr(quick, "_zeros", noted)
    found = backend.raw_moments(sample, rule, "average", "l2", Dispatch(device_numbers=190), fused)
    assert max(sizes) <= 300  # the bins of one view, of which there are 190, and what is counted at its cuts
    assert {len(grid) for grid in grids} == {1}
    ours = [x.squared / 6 / 20**2 for x in found or ()]
    np.testing.assert_allclose(ours, tc.classwise_error(y, p, n_bins=range(1, 20)), rtol=1e-9)


def test_a_kernel_that_fails_leaves_torch_to_do_it(monkeypatch, transfers):
    def fails(*arguments, **options):
        raise fused.TritonError

    monkeypatch.setattr(ranks, "quantile_bins", fails)
    y, p = matrix(50, 5, ties=False)
    assert tc.classwise_error(OnDevice(y), OnDevice(p)) == pytest.approx(tc.classwise_error(y, p), rel=1e-9)
    assert kernels.failed == {p.device}
    kernels.failed.clear()
    z = OnDevice((y == 0).int())
    assert tc.binary_error(z, OnDevice(p[:, 0])) == pytest.approx(tc.binary_error(y == 0, p[:, 0]), rel=1e-9)
    assert kernels.failed == {p.device}
