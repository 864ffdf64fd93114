"""The kernels in Triton, run by its interpreter on the CPU, against numpy's numbers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

import truecal
from truecal.backends import torch as backend
from truecal.backends.numpy import DISPATCH, Dispatch
from truecal.core.table import Totals

tc: Any = truecal
os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton", reason="Triton comes with torch for GPUs")
fused = pytest.importorskip("truecal.backends.fused")


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
    totals = Totals.of(sample)
    ours = [metric._error(moments, totals, sample.averaged) for moments in found or ()]
    np.testing.assert_allclose(ours, np.atleast_1d(metric(y, p)), rtol=1e-9, atol=1e-15)


def test_what_has_no_short_way():
    y, p = matrix(20, 3, ties=False)
    sample = backend.read(tc.Classwise(), y, p)
    for rule, ties in ((tc.Exact(), "average"), (tc.TwoBin(), "average"), (tc.Quantile(3, ties="row"), "row")):
        assert backend.raw_moments(sample, rule, ties, "l2", DISPATCH, fused) is None


@pytest.mark.parametrize("k", [2, 5, 40])
def test_one_pass_checks_the_rows_and_finds_the_top(k):
    y, p = matrix(70, k, ties=True)
    status, top, right = fused.check(p, y, 1e-3, 1e-6)
    assert fused.verdict(status) == (True, int(right.sum()))
    assert top.tolist() == p.max(1).values.tolist()
    assert right.tolist() == (torch.as_tensor(p.numpy().argmax(1)) == y).tolist()
    for place, value in [((69, 1), float("nan")), ((3, 0), 1.5), ((3, 0), -0.5), ((3, 0), float("inf"))]:
        q = p.clone()
        q[place] = value
        assert not fused.verdict(fused.check(q, y, 1e-3, 1e-6)[0])[0]
    for wrong in (-1, k):
        z = y.clone()
        z[69] = wrong
        assert not fused.verdict(fused.check(p, z, 1e-3, 1e-6)[0])[0]
