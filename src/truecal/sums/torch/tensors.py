"""Arrays from elsewhere as tensors, without a copy where their memory can be shared."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.arrays import on_device
from ...core.dispatch import DISPATCH
from ...core.sample import Sample


def tensor(x: Any) -> Tensor:
    """A tensor over the memory of x, which lies on a device already: torch's own, or anything with DLPack."""
    if hasattr(x, "detach"):
        return x.detach()
    backwards = min(getattr(x, "strides", None) or (0,)) < 0  # as CuPy's x[::-1]: torch would end the process
    return torch.from_dlpack(x.copy() if backwards else x)


def like(array: Any, other: Tensor) -> Tensor:
    """A numpy array as a tensor beside another."""
    return torch.as_tensor(np.ascontiguousarray(array), device=other.device)


def fetched(x: Tensor) -> Any:
    """A small tensor as an array of numpy: it travels once all that was sent to its device is done."""
    return x.cpu().numpy()


def on_cpu(x: Any) -> Any:
    """A tensor on the CPU; anything else as it is."""
    return tensor(x).cpu() if is_here(x) else x


def is_here(x: Any) -> bool:
    return isinstance(x, Tensor) or on_device(x)


def views_of(sample: Sample, columns: slice) -> Tensor:
    """The reports of some views, (views, n)."""
    reports: Any = sample.reports
    return reports[None, :] if reports.ndim == 1 else reports[:, columns].T


def outcome(sample: Sample, columns: slice) -> Tensor:
    """Outcomes of some views, (views, n) in float64."""
    values: Any = sample.values
    marks: Any = sample.marks
    if values is not None:
        return values[None, :].double() if values.ndim == 1 else values[:, columns].T.double()
    if marks.dtype == torch.bool:
        return marks[None, :].double()
    return (marks == torch.arange(columns.start, columns.stop, device=marks.device)[:, None]).double()


def residuals(sample: Sample, columns: slice) -> Tensor:
    """weight·(report − outcome) of some views, (views, n)."""
    found = views_of(sample, columns).double() - outcome(sample, columns)
    w: Any = sample.weights
    return found if w is None else w * found


def row_sums(sample: Sample, columns: slice) -> list[Tensor]:
    """weight·outcome, weight·residual, (weight·residual)² and, with weights, weight and weight²: each (views, n)."""
    came = outcome(sample, columns)
    residual = residuals(sample, columns)
    w: Any = sample.weights
    if w is None:
        return [came, residual, residual.square()]
    return [w * came, residual, residual.square(), w.expand_as(residual), (w * w).expand_as(residual)]


def tiles(sample: Sample, budget: int = DISPATCH.device_numbers) -> list[slice]:
    """Runs of views that hold about `budget` reports."""
    return tiles_of(sample.rows, sample.views, budget)


def tiles_of(rows: int, views: int, budget: int) -> list[slice]:
    """The same for so many rows and views."""
    width = max(1, budget // rows)
    return [slice(j, min(j + width, views)) for j in range(0, views, width)]


def times(reports: Tensor, direction: np.ndarray[Any, Any]) -> Tensor:
    """reports @ direction in float64, a block of rows at a time."""
    vector = like(direction, reports)
    step = max(1, DISPATCH.device_numbers // reports.shape[1])
    return torch.cat([reports[i : i + step].double() @ vector for i in range(0, len(reports), step)])
