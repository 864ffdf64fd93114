"""The torchmetrics adapter: nothing is read back from a device before `compute`, which names the first bad batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import truecal
from closeness import assert_close
from truecal.adapters.torchmetrics import CalibrationMetric

pytestmark = pytest.mark.slow

tc: Any = truecal
READS = ("_local_scalar_dense", "nonzero", "item", "masked_select", "unique", "equal", "_to_copy.cpu", "bincount")
"""Operations that make the host wait for a device: for a number, or for the size of what they return."""


class NothingIsRead(TorchDispatchMode):
    """Fails on an operation that would wait for a GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in READS, f"{name} waits for the device"
        if name == "index":
            assert all(i is None or i.dtype != torch.bool for i in args[1]), "a mask waits for the device"
        return func(*args, **(kwargs or {}))


def distributions(n: int = 60, k: int = 4, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.5] * k, n).astype(np.float32)
    return torch.as_tensor(p), torch.as_tensor((p.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, k - 1))


METRICS: dict[str, dict[str, Any]] = {
    "ece": {"error": "confidence_l1"},
    "confidence": {"error": "confidence"},
    "classwise": {"error": "classwise", "num_classes": 4},
    "edges": {"error": "classwise", "num_classes": 4, "edges": [[0, 0.3, 1]] * 4},
    "ignoring": {"error": "confidence", "ignore_index": 2},
    "logits": {"error": "confidence", "logits": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", METRICS)
def test_an_update_reads_nothing(name, weighted):
    p, y = distributions()
    w = torch.linspace(0, 1, len(y)) if weighted else None
    metric = CalibrationMetric(**METRICS[name])
    metric.update(p, y, w)  # edges are made once
    with NothingIsRead():
        metric.update(p, y, w)
    assert metric.compute().isfinite()


@pytest.mark.parametrize("target", [torch.int64, torch.bool, torch.float32])
def test_an_update_of_one_event_reads_nothing(target):
    u = torch.linspace(0, 1, 50)
    metric = CalibrationMetric("binary")
    metric.update(u, (u > 0.4).to(target))
    with NothingIsRead():
        metric.update(u, (u > 0.4).to(target))
    assert metric.compute().isfinite()


def test_the_check_of_reads_finds_one():
    for read in (lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: bool(x.any())):
        with pytest.raises(AssertionError, match="waits"), NothingIsRead():
            read(torch.ones(3))


def spoiled(p: torch.Tensor, y: torch.Tensor, what: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    p, y, w = p.clone(), y.clone(), None
    if what == "nan":
        p[3, 1] = torch.nan
    elif what == "logits":
        p = p.log()
    elif what == "sum":
        p[5] *= 0.9
    elif what == "label":
        y[7] = 4
    elif what == "negative label":
        y[7] = -1
    else:
        w = torch.ones(len(y))
        w[2] = {"weight": -1.0, "infinite weight": torch.inf, "nan weight": torch.nan}[what]
    return p, y, w


SPOILED = {
    "nan": r"hold a NaN or a number outside",
    "logits": r"pass logits=True",
    "sum": "sum to 1",
    "label": "target must hold class indices",
    "negative label": "target must hold class indices",
    "weight": "sample_weight must be finite, not negative",
    "infinite weight": "sample_weight must be finite",
    "nan weight": "sample_weight must be finite",
}


@pytest.mark.parametrize("name", ["confidence", "classwise"])
@pytest.mark.parametrize("what", SPOILED)
def test_a_bad_batch_is_named_at_compute(name, what):
    metric = CalibrationMetric(**METRICS[name])
    p, y = distributions()
    metric.update(p, y)
    metric.update(*spoiled(p, y, what))
    metric.update(p, y)
    metric.update(*spoiled(p, y, "nan"))
    with pytest.raises(ValueError, match=rf"^update 2 since the last reset: .*{SPOILED[what]}"):
        metric.compute()
    metric.reset()
    metric.update(p, y)
    assert metric.compute().isfinite()


@pytest.mark.parametrize("bad", [torch.tensor([0.2, 1.5]), torch.tensor([torch.nan, 0.5])])
def test_a_bad_probability_of_one_event(bad):
    metric = CalibrationMetric("binary")
    metric.update(bad, torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"update 1 .* preds must be probabilities in \[0, 1\]"):
        metric.compute()


@pytest.mark.parametrize("labels", [[0, 2], [-1, 0], [0.5, 1]])
def test_bad_labels_of_one_event(labels):
    metric = CalibrationMetric("binary")
    metric.update(torch.tensor([0.2, 0.5]), torch.tensor(labels))
    with pytest.raises(ValueError, match="target must hold"):
        metric.compute()


def test_labels_of_one_event_may_be_minus_one_and_one():
    u, y = torch.tensor([0.2, 0.5, 0.9]), torch.tensor([0, 1, 1])
    one, other = CalibrationMetric("binary"), CalibrationMetric("binary")
    one.update(u, y)
    other.update(u, 2 * y - 1)
    assert_close(other.compute().item(), one.compute().item())


def test_edges_that_do_not_cover_a_prediction():
    metric = CalibrationMetric("binary", edges=[0.1, 0.5, 1])
    metric.update(torch.tensor([0.2, 0.6]), torch.tensor([0, 1]))
    metric.update(torch.tensor([0.05, 0.6]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"update 2 .* the edges do not cover all predictions"):
        metric.compute()


def test_forward_names_the_batch_among_all():
    p, y = distributions()
    metric = CalibrationMetric("confidence")
    metric(p, y)
    metric.update(p, y)
    with pytest.raises(ValueError, match=r"^update 3 since the last reset"):
        metric(*spoiled(p, y, "nan"))


def test_bad_values_in_rows_to_ignore_do_not_matter():
    p, y = distributions()
    q = p.clone()
    q[4] = torch.nan
    z = y.clone()
    z[4] = -100
    kept = torch.arange(len(y)) != 4
    for name in ("confidence", "classwise"):
        one = CalibrationMetric(**METRICS[name] | {"ignore_index": -100})
        one.update(q, z)
        other = CalibrationMetric(**METRICS[name])
        other.update(p[kept], y[kept])
        assert one.table.rows == len(y) - 1
        assert_close(one.compute().item(), other.compute().item())


@pytest.mark.parametrize("name", ["confidence", "classwise"])
def test_a_batch_of_zero_weights_adds_nothing(name):
    p, y = distributions()
    metric = CalibrationMetric(**METRICS[name])
    metric.update(p, y, torch.zeros(len(y)))
    assert metric.compute().isnan()
    metric.update(p, y, torch.ones(len(y)))
    other = CalibrationMetric(**METRICS[name])
    other.update(p, y)
    assert_close(metric.compute().item(), other.compute().item())


@pytest.mark.parametrize("name", ["confidence", "classwise"])
def test_many_rows_are_added_some_at_a_time(name, monkeypatch):
    p, y = distributions()
    one, other = CalibrationMetric(**METRICS[name]), CalibrationMetric(**METRICS[name])
    one.update(p, y)
    monkeypatch.setattr("truecal.sums.torch.batches._NUMBERS", 29)
    other.update(p, y)
    assert_close(other.compute().item(), one.compute().item())


def test_sums_that_were_made_in_inference_mode_go_on():
    p, y = distributions()
    metric = CalibrationMetric("confidence")
    with torch.inference_mode():
        metric.reset()
        metric.update(p, y)
    metric.update(p, y)
    other = CalibrationMetric("confidence")
    other.update(p, y)
    other.update(p, y)
    assert_close(metric.compute().item(), other.compute().item())


def test_types_are_checked_at_once():
    p, y = distributions()
    with pytest.raises(TypeError, match="target class indices"):
        CalibrationMetric("confidence").update(p, y > 0)
    with pytest.raises(ValueError, match="at least two classes"):
        CalibrationMetric("confidence").update(p[:, :1], y)
