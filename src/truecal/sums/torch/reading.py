"""What the user hands in, checked where the predictions lie: conditions are tested there and read at once."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core.data import HALF_ROW_SUM_TOLERANCE, LARGEST, ROW_SUM_TOLERANCE, SMALLEST, as_array, check_weights
from ...core.labels import check_class_outcomes
from ...core.properties import Binary, Confidence, Linear, Outcomes, Property, TopLabel
from ...core.sample import Sample
from .kernels import kernels_for
from .tensors import is_here, like, on_cpu, tensor

HALVES = (torch.float16, torch.bfloat16)
_DOUBLE, _SINGLE = (float(np.finfo(dtype).eps) for dtype in (np.float64, np.float32))
_FLOATS = (torch.float32, torch.float64, *HALVES)


class _UnusualError(Exception):
    """Input that is not in the plain form which is checked on the device; the checks of the CPU decide."""


def read(property: Property, y_true: Any, y_proba: Any, sample_weight: Any = None, labels: Any = None) -> Sample:
    """A validated sample of tensors beside the predictions; labels and weights from elsewhere are moved there.

    All conditions are tested on the device and read at once. Where one fails the arrays go to the CPU, whose checks
    name the row; labels to be translated (names, fractions) always do.
    """
    return made_sample(property, *read_arrays(property, y_true, y_proba, sample_weight, labels))


def read_arrays(
    property: Property, y_true: Any, y_proba: Any, sample_weight: Any = None, labels: Any = None
) -> tuple[Tensor, Tensor, Tensor | None, _Top]:
    """The same arrays before they are expressed as scalar views: outcomes, reports, weights, and what is known of the
    top class."""
    reports = tensor(y_proba)
    flags: list[Tensor] = []
    try:
        for given in (y_proba, y_true, sample_weight):
            if is_here(given) and not is_numbers(tensor(given)):
                raise _UnusualError
        y, reports, top = _checked(property, y_true, reports, labels, flags)
        weights = _checked_weights(sample_weight, reports, flags)
        if not flags or bool(torch.stack(flags).all()):
            return y, reports, weights, top
    except _UnusualError:
        pass
    found, host = property.check(on_cpu(y_true), on_cpu(y_proba), labels)
    weight = check_weights(on_cpu(sample_weight), len(host))
    y, reports = like(found, reports), like(host, reports)
    return y, reports, None if weight is None else like(weight, reports), None


_Top = tuple[Tensor, Tensor, int] | None
"""Where they are known already: whether the top class came, its probability, and how often it came."""


def made_sample(property: Property, y: Any, reports: Any, weights: Any, top: _Top) -> Sample:
    if top is None or not property.picks_outcome:
        return property.sample(y, reports, weights)
    right, confidence, hits = top
    sample = Confidence().known(right, confidence, y, reports, weights)  # type: ignore[arg-type]  # tensors
    if weights is None:
        vars(sample)["wrong_weight"] = float(sample.rows - hits)  # a cached property, without another transfer
    return sample


def _checked(
    property: Property, y_true: Any, reports: Tensor, labels: Any, flags: list[Tensor]
) -> tuple[Tensor, Tensor, _Top]:
    """Outcomes and reports in the plain form, with the conditions on their values added to `flags`."""
    top: _Top = None
    if isinstance(property, Binary) and reports.ndim == 2:
        if property.pos_label != 1 or reports.shape[1] != 2:
            raise _UnusualError
        y, u, _ = _checked_rows(y_true, reports, labels, flags)
        y, u = (y == 1 if y.ndim == 1 else y[:, 1]), u[:, 1].contiguous()
    elif isinstance(property, (Binary, TopLabel, Outcomes)):
        if labels is not None:
            raise _UnusualError
        y, u = _moved(y_true, "outcomes", reports), _floating(reports)
        if isinstance(property, Outcomes):
            y, u = _checked_pair(y, u, property, flags)
        else:
            y, u = _checked_marks(y, getattr(property, "pos_label", 1), flags), _checked_scalars(u, flags)
    elif not property.of_distributions:
        raise _UnusualError
    else:
        y, u, top = _checked_rows(y_true, reports, labels, flags)
        if isinstance(property, Linear) and u.shape[1] != len(property.phi):
            raise _UnusualError
    if len(y) != len(u):
        raise _UnusualError
    return y, u, top


def _checked_rows(y_true: Any, reports: Tensor, labels: Any, flags: list[Tensor]) -> tuple[Tensor, Tensor, _Top]:
    """Class labels and distributions: plain ones on a GPU in one pass over the matrix."""
    fused = kernels_for(reports)
    rows = None if fused is None or labels is not None else plain_rows(y_true, reports)
    if rows is None:
        u = _checked_distributions(reports, flags)
        return _checked_classes(y_true, u, labels, flags), u, None
    numbers = torch.zeros(fused.HEAD, dtype=torch.float64, device=reports.device)
    top, right = fused.check(*rows, numbers)
    wrong, *hits = numbers[: 1 + fused.LANES].tolist()
    if wrong:
        raise _UnusualError
    return rows.labels.long(), _floating(reports), (right, top, int(sum(hits)))


class PlainRows(NamedTuple):
    """Distributions and class indices on one device, as they were handed in, with how far a row may be from right."""

    reports: Tensor
    labels: Tensor
    tolerance: float
    slack: float


def plain_rows(y_true: Any, reports: Tensor) -> PlainRows | None:
    """Class indices and distributions that need no translation; None for any others."""
    if not is_here(y_true) or reports.ndim != 2 or reports.shape[1] < 2 or reports.dtype not in _FLOATS:
        return None
    y = tensor(y_true)
    if not (is_numbers(reports) and is_numbers(y)):
        return None
    if y.shape != reports.shape[:1] or y.dtype not in (torch.int64, torch.int32) or not len(y):
        return None
    if y.device != reports.device:
        y = y.to(reports.device)
    return PlainRows(reports, y.contiguous(), row_tolerance(reports), slack_of(reports))


def is_numbers(x: Tensor) -> bool:
    """Whether a tensor is dense and of numbers that numpy has too, or bfloat16."""
    return x.layout == torch.strided and not (x.is_floating_point() and x.dtype not in _FLOATS)


def row_tolerance(x: Tensor) -> float:
    return HALF_ROW_SUM_TOLERANCE if x.dtype in HALVES else ROW_SUM_TOLERANCE


def _floating(x: Tensor) -> Tensor:
    """Half precision as float32, whole numbers as float64."""
    if x.is_complex() or x.numel() == 0:
        raise _UnusualError
    if x.dtype in HALVES:
        return x.float()
    return x if x.dtype in (torch.float32, torch.float64) else x.double()


def _moved(x: Any, name: str, other: Tensor) -> Tensor:
    """Numbers, from wherever they are, beside another tensor."""
    if is_here(x):
        return tensor(x).to(other.device)
    try:
        array = np.asarray(as_array(x, name))
    except (TypeError, ValueError):
        raise _UnusualError from None
    if array.dtype.kind not in "biuf":
        raise _UnusualError
    return like(array.astype(np.int64) if array.dtype.kind == "u" else array, other)


def slack_of(x: Tensor) -> float:
    """How far outside its range a report may lie by rounding alone, in the precision in which it is compared."""
    return 8 * (_DOUBLE if x.dtype == torch.float64 else _SINGLE)


def within(x: Tensor, low: float, high: float) -> Tensor:
    """Whether all of x lies in [low, high]; false with a NaN."""
    least, most = torch.aminmax(x)
    return (least >= low) & (most <= high)


def _checked_distributions(x: Tensor, flags: list[Tensor]) -> Tensor:
    if x.ndim != 2 or x.shape[1] < 2:
        raise _UnusualError
    tolerance = row_tolerance(x)
    x = _floating(x)
    flags += [within(x, -slack_of(x), 1 + slack_of(x)), within(x.sum(1), 1 - tolerance, 1 + tolerance)]
    return x


def _checked_classes(y_true: Any, p: Tensor, labels: Any, flags: list[Tensor]) -> Tensor:
    y = tensor(y_true).to(p.device) if is_here(y_true) else None
    if y is None or labels is not None or y.ndim > 2 or _is_translated(y):
        return like(check_class_outcomes(on_cpu(y_true), p.shape[1], labels), p)
    if y.ndim == 2 and y.shape[1] > 1:
        if y.shape[1] != p.shape[1]:
            raise _UnusualError
        return _checked_distributions(y, flags).double()
    y = y.reshape(-1).long()
    if len(y) == 0:
        raise _UnusualError
    flags.append(within(y, 0, p.shape[1] - 1))
    return y


def _is_translated(y: Tensor) -> bool:
    """Whether labels are no whole numbers and no distributions: the CPU reads those, or says what they are."""
    return y.is_complex() or y.dtype == torch.bool or (y.is_floating_point() and y.ndim < 2)


def _checked_scalars(u: Tensor, flags: list[Tensor]) -> Tensor:
    if u.ndim != 1:
        raise _UnusualError
    flags.append(within(u, -slack_of(u), 1 + slack_of(u)))
    return u


def _checked_marks(y: Tensor, positive: Any, flags: list[Tensor]) -> Tensor:
    if y.ndim != 1 or len(y) == 0 or (positive is not True and positive != 1):
        raise _UnusualError
    if y.dtype != torch.bool:
        flags.append(((y == 0) | (y == 1)).all())
    return y == 1


def _checked_pair(phi: Tensor, u: Tensor, property: Outcomes, flags: list[Tensor]) -> tuple[Tensor, Tensor]:
    phi = _floating(phi).double()
    if phi.shape != u.shape or u.ndim not in (1, 2):
        raise _UnusualError
    for x in (phi, u):
        size = x.abs().amax().double()
        flags.append((size <= LARGEST) & ((size == 0) | (size >= SMALLEST)))
    if (bounds := property.bounds) is not None:
        slack = slack_of(u) * max(map(abs, bounds))
        flags.append(within(u, bounds[0] - slack, bounds[1] + slack))
    return (phi[:, 0], u[:, 0]) if u.ndim == 2 and u.shape[1] == 1 else (phi, u)


def _checked_weights(sample_weight: Any, reports: Tensor, flags: list[Tensor]) -> Tensor | None:
    if sample_weight is None:
        return None
    w = _floating(_moved(sample_weight, "sample_weight", reports)).double()
    if w.shape != reports.shape[:1]:
        raise _UnusualError
    flags += [within(w, 0.0, torch.finfo(w.dtype).max), w.any()]
    return w
