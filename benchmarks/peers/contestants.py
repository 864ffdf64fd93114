"""Who takes part: every builder of truecal and every peer, as a function that prepares the call which is timed.

A contestant turns the arrays into what its library takes, outside the clock. Its docstring says what is called. Options
are the library's defaults, but for the number of bins and what the task asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import truecal as tc

from .data import Data

Call = Callable[[], float]
Prepare = Callable[[Data], Call]
WORKERS = 2
PARTITIONS = 8
IMPORTS: dict[str, tuple[str, ...]] = {
    "truecal, torch": ("truecal.sums.torch",),
    "truecal, CalibrationMetric": ("truecal.adapters.torchmetrics",),
    "truecal, Dask": ("dask.array", "distributed", "truecal.scale.cluster"),
    "torchmetrics": ("torchmetrics.classification",),
    "netcal": ("netcal.metrics",),
    "uncertainty-calibration": ("calibration",),
    "relplot": ("relplot",),
}
"""What each needs, beside truecal: imported once, before its processes begin."""


@dataclass(frozen=True)
class Task:
    """One quantity, and those who compute it."""

    title: str
    definition: str
    contestants: Mapping[str, Prepare]
    """The first is what the others are compared with."""
    tolerance: float
    """How far values may be from the first one's, as a share of it."""
    why: str
    """Where such differences come from."""
    grows: tuple[str, ...] = ("rows", "classes", "bins")
    """What it is measured over."""


# -- builders of truecal -----------------------------------------------------------------------------------------------


def _torch(data: Data, error: tc.CalibrationError) -> Callable[[], Any]:
    import torch

    from truecal.sums.torch import read

    y, p = torch.from_numpy(data.y), torch.from_numpy(data.p)
    return lambda: error.of(read(error.property, y, p))[0]


def _stream(data: Data, name: str, **options: Any) -> float:
    """The raw error of a stream, with a first pass where its bins need one."""
    stream = tc.stream(name, n_bins=data.bins, blocks=0, **options)
    if not stream.frozen:
        for _, p in data.batches():
            stream.observe(p)
        stream.freeze()
    for y, p in data.batches():
        stream.update(y, p)
    return stream.result().row(name).value


@cache
def _client() -> Any:
    """Two worker processes of one thread each, up before the clock starts."""
    from distributed import Client, LocalCluster

    return Client(LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, memory_limit=0))


def _dask(data: Data, name: str, **options: Any) -> Call:
    """The raw error by a cluster whose workers hold the rows in their memory."""
    import dask.array as da
    from distributed import wait

    from truecal.scale import cluster

    step = -(-len(data.y) // PARTITIONS)
    client, starts = _client(), range(0, len(data.y), step)
    labels, proba = (client.scatter([x[at : at + step] for at in starts], hash=False) for x in (data.y, data.p))
    wait([*labels, *proba])
    rows = [len(data.y[at : at + step]) for at in starts]
    y = da.concatenate([da.from_delayed(f, (n,), data.y.dtype) for f, n in zip(labels, rows, strict=True)])
    shape = data.classes
    p = da.concatenate([da.from_delayed(f, (n, shape), data.p.dtype) for f, n in zip(proba, rows, strict=True)])

    def call() -> float:
        found = cluster.evaluate(y, p, errors=(name,), n_bins=data.bins, blocks=0, client=client, **options)
        return found.row(name).value

    return call


# -- the usual ECE of the confidence -----------------------------------------------------------------------------------


def confidence_truecal(data: Data) -> Call:
    """`tc.confidence_error(y, p, norm="l1", strategy="uniform")`, numpy arrays"""
    return lambda: tc.confidence_error(data.y, data.p, norm="l1", strategy="uniform", n_bins=data.bins)


def confidence_torch(data: Data) -> Call:
    """the same error by the builder for GPUs (`truecal.sums.torch`), on tensors of the CPU"""
    return _torch(data, tc.CalibrationError(tc.Confidence(), tc.EqualWidth(data.bins), norm="l1"))


def confidence_stream(data: Data) -> Call:
    """`tc.stream("confidence_l1", edges="uniform", blocks=0)`, `update` in batches, `result`"""
    return lambda: _stream(data, "confidence_l1", edges="uniform")


def confidence_metric(data: Data) -> Call:
    """`CalibrationMetric("confidence_l1")` of `truecal.adapters.torchmetrics`, `update` in batches, `compute`"""
    import torch

    from truecal.adapters.torchmetrics import CalibrationMetric

    return _over_batches(data, lambda: CalibrationMetric("confidence_l1", n_bins=data.bins), torch.from_numpy)


def confidence_dask(data: Data) -> Call:
    """`truecal.scale.cluster.evaluate(..., errors=["confidence_l1"], edges="uniform", blocks=0)`, two workers"""
    return _dask(data, "confidence_l1", edges="uniform")


def _over_batches(data: Data, metric: Callable[[], Any], tensor: Callable[[Any], Any]) -> Call:
    """A metric of torchmetrics' kind: update with every batch, then compute."""

    def call() -> float:
        one = metric()
        for y, p in data.batches():
            one.update(tensor(p), tensor(y))
        return float(one.compute())

    return call


def confidence_torchmetrics(data: Data) -> Call:
    """`MulticlassCalibrationError(num_classes=k, norm="l1")`, `update` in batches, `compute`"""
    import torch
    from torchmetrics.classification import MulticlassCalibrationError

    return _over_batches(data, lambda: MulticlassCalibrationError(data.classes, n_bins=data.bins), torch.from_numpy)


def confidence_netcal(data: Data) -> Call:
    """`netcal.metrics.ECE(bins).measure(p, y)`"""
    from netcal.metrics import ECE

    return lambda: ECE(data.bins).measure(data.p, data.y)


def confidence_uncertainty(data: Data) -> Call:
    """`calibration.get_ece(p, y, mode="top-label")`"""
    from calibration import get_ece

    return lambda: float(get_ece(data.p, data.y, num_bins=data.bins))


def confidence_relplot(data: Data) -> Call:
    """`relplot.metrics.binnedECE` of `multiclass_logits_to_confidences(p, y, probs=True)`"""
    from relplot.metrics import binnedECE, multiclass_logits_to_confidences

    return lambda: float(binnedECE(*multiclass_logits_to_confidences(data.p, data.y, probs=True), data.bins))


# -- the squared error of every class ----------------------------------------------------------------------------------


def classwise_truecal(data: Data) -> Call:
    """`tc.classwise_error(y, p, scale="bins")`, numpy arrays"""
    return lambda: tc.classwise_error(data.y, data.p, n_bins=data.bins, scale="bins")


def classwise_torch(data: Data) -> Call:
    """the same error by the builder for GPUs, on tensors of the CPU"""
    call = _torch(data, tc.CalibrationError(tc.Classwise(), tc.Quantile(data.bins)))
    return lambda: call() * data.bins


def classwise_stream(data: Data) -> Call:
    """`tc.stream("classwise", blocks=0)`, `observe` in batches, `freeze`, `update` in batches, `result`"""
    return lambda: _stream(data, "classwise") * data.bins


def classwise_dask(data: Data) -> Call:
    """`truecal.scale.cluster.evaluate(..., errors=["classwise"], blocks=0)`, two passes, two workers"""
    call = _dask(data, "classwise")
    return lambda: call() * data.bins


def classwise_uncertainty(data: Data) -> Call:
    """`calibration.lower_bound_scaling_ce(p, y, p=2, debias=False, mode="marginal")`, squared"""
    from calibration import lower_bound_scaling_ce

    options: dict[str, Any] = {"p": 2, "debias": False, "num_bins": data.bins, "mode": "marginal"}
    return lambda: float(lower_bound_scaling_ce(data.p, data.y, **options) ** 2)


# -- the usual ECE of every class --------------------------------------------------------------------------------------


def classwise_ece_truecal(data: Data) -> Call:
    """`tc.classwise_error(y, p, norm="l1", strategy="uniform")`, numpy arrays"""
    return lambda: tc.classwise_error(data.y, data.p, norm="l1", strategy="uniform", n_bins=data.bins)


def classwise_ece_netcal(data: Data) -> Call:
    """`netcal.metrics.ECE(bins).measure(p[:, r], y == r)`, the mean over the classes r"""
    from netcal.metrics import ECE

    def call() -> float:
        each = [ECE(data.bins).measure(data.p[:, r], (data.y == r).astype(int)) for r in range(data.classes)]
        return sum(each) / data.classes

    return call


def classwise_ece_uncertainty(data: Data) -> Call:
    """`calibration.get_ece(p, y, mode="marginal")`"""
    from calibration import get_ece

    return lambda: float(get_ece(data.p, data.y, num_bins=data.bins, mode="marginal"))


# -- smooth ECE --------------------------------------------------------------------------------------------------------


def smooth_truecal(data: Data) -> Call:
    """`tc.ERRORS["smooth_ece"](y == 0, p[:, 0])`"""
    came, p = (data.y == 0).astype(int), data.p[:, 0].copy()
    return lambda: tc.ERRORS["smooth_ece"](came, p)


def smooth_relplot(data: Data) -> Call:
    """`relplot.smECE(p[:, 0], y == 0)`"""
    from relplot import smECE

    came, p = (data.y == 0).astype(int), data.p[:, 0].copy()
    return lambda: float(smECE(p, came))


TASKS: dict[str, Task] = {
    "confidence": Task(
        "Usual ECE of the confidence",
        "Σ over bins of equal width of |Σ (confidence − correct)| / n",
        {
            "truecal": confidence_truecal,
            "truecal, torch": confidence_torch,
            "truecal, stream": confidence_stream,
            "truecal, CalibrationMetric": confidence_metric,
            "truecal, Dask": confidence_dask,
            "torchmetrics": confidence_torchmetrics,
            "netcal": confidence_netcal,
            "uncertainty-calibration": confidence_uncertainty,
            "relplot": confidence_relplot,
        },
        tolerance=1e-3,
        why="bins closed on the other side, edges rounded otherwise, and sums in float32",
    ),
    "classwise": Task(
        "Squared error of every class",
        "The mean over classes of bins · Σ over quantile bins of (Σ (probability − came) / n)²",
        {
            "truecal": classwise_truecal,
            "truecal, torch": classwise_torch,
            "truecal, stream": classwise_stream,
            "truecal, Dask": classwise_dask,
            "uncertainty-calibration": classwise_uncertainty,
        },
        tolerance=0.05,
        why="sketched edges of streams and clusters, equal predictions at a border",
    ),
    "classwise_ece": Task(
        "Usual ECE of every class",
        "The mean over classes of Σ over bins of equal width of |Σ (probability − came)| / n",
        {
            "truecal": classwise_ece_truecal,
            "netcal": classwise_ece_netcal,
            "uncertainty-calibration": classwise_ece_uncertainty,
        },
        tolerance=1e-3,
        why="bins closed on the other side, and edges rounded otherwise",
    ),
    "smooth": Task(
        "Smooth ECE of one class",
        "The width σ at which the mean residual, smoothed by a Gaussian of width σ, has the size σ",
        {"truecal": smooth_truecal, "relplot": smooth_relplot},
        tolerance=0.1,
        why="relplot looks for the width in steps of 1/1024",
        grows=("rows",),
    ),
}
