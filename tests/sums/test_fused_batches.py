"""The kernel that adds a batch, run by Triton's interpreter on the CPU, against torch alone."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import truecal
from truecal.sums.torch import batches
from truecal.sums.torch.batches import CHECKS, NOTED, Batch, BatchSums

tc: Any = truecal
os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton", reason="Triton is not installed: make kernels")
fused = pytest.importorskip("truecal.sums.torch.fused_batches")

pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")  # in Triton


def empty(views: int, m: int) -> BatchSums:
    cells, totals, largest = (torch.zeros(shape, dtype=torch.float64) for shape in ((5, views, m), (6,), ()))
    return BatchSums(cells, totals, largest, torch.full((len(CHECKS) + len(NOTED),), torch.inf, dtype=torch.float64))


def copied(sums: BatchSums) -> BatchSums:
    return BatchSums(*(part.clone() for part in sums))


def interpreter_works() -> bool:
    """Triton's interpreter takes arrays of one number for numbers, which numpy 2.4 refuses."""
    batch = Batch(torch.full((1, 2), 0.5), torch.zeros(1, dtype=torch.int64), None, tc.EqualWidth(3), True, None, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            batches.add_fused(empty(1, 3), batch)
        except fused.TritonError:
            return False
    return True


if not interpreter_works():
    pytest.skip("Triton's interpreter does not run with this numpy: make kernels", allow_module_level=True)


def rows(n: int, k: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.4] * k, n)
    y = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, k - 1)
    return torch.as_tensor(p), torch.as_tensor(y), torch.as_tensor(rng.random(n))


def assert_same(found: BatchSums, wanted: BatchSums) -> None:
    for name, one, other in zip(BatchSums._fields, found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("rule", [tc.EqualWidth(1), tc.EqualWidth(7), tc.Edges([0, 0.05, 0.2, 1])], ids=str)
@pytest.mark.parametrize("top", [True, False])
@pytest.mark.parametrize("shape", [(1, 2), (37, 3), (20, 150)])
@pytest.mark.parametrize("how", ["plain", "weights", "ignoring", "transposed", "half"])
def test_the_kernel_adds_what_torch_adds(rule, top, shape, how):
    p, y, w = rows(*shape)
    p = {"half": p.half(), "transposed": p.T.contiguous().T}.get(how, p.float())
    m = 1 if rule == tc.EqualWidth(1) else 7 if rule == tc.EqualWidth(7) else 3
    ours = theirs = empty(1 if top else shape[1], m)
    for number in (1, 2):
        weights = w if how == "weights" and number == 2 else None
        batch = Batch(p, y, weights, rule, top, 1 if how == "ignoring" else None, number)
        ours, theirs = batches.add_fused(copied(ours), batch), batches._added(theirs, batch, slice(None))
    assert ours.refused.isinf().all()
    assert_same(ours, theirs)


@pytest.mark.parametrize("top", [True, False])
@pytest.mark.parametrize("what", ["nan", "negative", "above", "sum", "label", "weight", "nan weight", "edges"])
def test_the_kernel_notes_what_torch_notes(what, top):
    p, y, w = rows(30, 5)
    rule = tc.EqualWidth(4)
    if what == "nan":
        p[3, 2] = torch.nan
    elif what == "negative":
        p[3, :2] = torch.tensor([-0.1, p[3, :2].sum() + 0.1])
    elif what == "above":
        p[3] = torch.tensor([1.2, 0, 0, 0, 0])
    elif what == "sum":
        p[3] *= 0.9
    elif what == "label":
        y[3] = 5
    elif what == "weight":
        w[3] = -1
    elif what == "nan weight":
        w[3] = torch.nan
    else:
        rule = tc.Edges([0, 0.1, 0.2, 0.3, 0.4])
    start = empty(1 if top else 5, 4)
    batch = Batch(p, y, w if "weight" in what else None, rule, top, None, 3)
    ours, theirs = batches.add_fused(copied(start), batch), batches._added(start, batch, slice(None))
    assert (ours.refused == 3).any()
    found, wanted = (
        next(c for c, number in zip(CHECKS, s.refused, strict=True) if number == 3) for s in (ours, theirs)
    )
    assert found == wanted
    later = batches.add_fused(copied(ours), Batch(p, y, None, rule, top, None, 9))
    assert 3 in later.refused.tolist()


@pytest.mark.parametrize("labels", [torch.int64, torch.int32, torch.bool])
@pytest.mark.parametrize("ignore", [None, 0])
def test_the_kernel_adds_one_event(labels, ignore):
    p, y, w = rows(70, 3)
    ours = theirs = empty(1, 5)
    for number, weights in ((1, None), (2, w)):
        batch = Batch(p[:, 1].float(), (y == 1).to(labels), weights, tc.EqualWidth(5), False, ignore, number)
        ours, theirs = batches.add_fused(copied(ours), batch), batches._added(theirs, batch, slice(None))
    assert_same(ours, theirs)


@pytest.mark.parametrize("bad", ["nan", "above", "label", "minus"])
def test_the_kernel_notes_what_is_wrong_with_one_event(bad):
    p, y, _ = rows(70, 3)
    u, z = p[:, 1].clone(), (y == 1).long()
    if bad in ("nan", "above"):
        u[3] = {"nan": torch.nan, "above": 1.5}[bad]
    else:
        z[3] = {"label": 2, "minus": -1}[bad]
    batch = Batch(u, z, None, tc.EqualWidth(5), False, None, 4)
    ours, theirs = batches.add_fused(empty(1, 5), batch), batches._added(empty(1, 5), batch, slice(None))
    first = {"nan": 0, "above": 0, "label": 2, "minus": 5}[bad]
    assert [s.refused.tolist().index(4) for s in (ours, theirs)] == [first, first]
    assert ours.refused[5:].tolist() == theirs.refused[5:].tolist()
