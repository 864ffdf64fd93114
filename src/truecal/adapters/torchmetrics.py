"""CalibrationMetric: calibration errors as a torchmetrics Metric, whose states are the sums of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any, final

from ..core.cut_score import SCORE_CELLS
from ..core.data import check_positive_int, shown
from ..core.extras import require
from ..core.rules import DEFAULT_BINS, BinningRule, Edges, EqualWidth
from ..core.sample import Totals
from ..core.table import BinTable
from ..core.torch_compile import outside_torch_compile
from ..kinds.named_errors import get_error
from ..sums.errors import SCALES, CalibrationError, Scale

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torchmetrics import Metric
else:
    torch = require("torch", "torchmetrics")
    Tensor, Metric = torch.Tensor, require("torchmetrics", "torchmetrics").Metric

from ..sums.torch.batches import CHECKS, NOTED, Batch, BatchSums, add_batch  # a missing torch is named
from ..sums.torch.reading import is_numbers

_CELLS = ("count", "outcome", "residual", "residual_sq", "weight_sq")
_TOTALS = ("rows", "weight", "weight_sq", "wrong", "wrong_sq", "residual_sq")
_LEAST_WEIGHT = 2.0**-400  # squares of smaller weights have no number
_WRONG = {
    "range": "preds must be probabilities in [0, 1], and hold a NaN or a number outside; pass logits=True for logits",
    "sum": "preds must be probabilities that sum to 1 over the classes",
    "label": "target must hold class indices from 0 to the number of classes - 1, or 0 and 1 of one event",
    "weight": "sample_weight must be finite, not negative, and have squares that are finite",
    "edges": "the edges do not cover all predictions",
}
_NO_CLASSES = "num_classes is needed: pass the number of classes, 2 for one probability per row, or error="
_MOST_BYTES = 4 << 30
_CELL_BYTES = 8 * (4 * len(_CELLS) + 1)  # the sums, their start, those of a batch and the new ones, and an edge


@final
class CalibrationMetric(Metric):
    """A calibration error over batches and processes, in constant memory: the states are sums over fixed cells.

    error: by default that of `tc.score`: "classwise", or "binary" for num_classes=2, given as one column or two. Or
    "confidence", "classwise" or "binary", with "_l1" for the usual ECE, or a CalibrationError of one of these over
    EqualWidth or Edges. A name gives what is checked and the norm; the cells are n_bins intervals of equal width,
    or those between `edges`. Quantile bins need all predictions at once: freeze their edges on earlier predictions and
    pass them. scale: "score" (the default of a squared error by name; it has no bins), "raw" (the default where bins
    are given), "loss" or "bins"; l1 errors have "raw" alone.

    Predictions are probabilities, (N, C, ...) or, for "binary", of any shape; with logits=True their softmax, or
    sigmoid, is taken. Values are never used to guess which. Rows with target ignore_index do not count. Sums are in
    float64 whatever the model's precision; sums of other cells, or of rows that were read in another way, raise an
    error.

    An update reads nothing back from a GPU: values are checked there, and `compute` raises an error that names the
    first update with a bad value. Shapes and types are checked at once.

    >>> import torch
    >>> from truecal.adapters.torchmetrics import CalibrationMetric
    >>> metric = CalibrationMetric("confidence")
    >>> metric.update(torch.tensor([[.8, .2], [.6, .4]]), torch.tensor([0, 1]))
    >>> metric.update(torch.tensor([[.3, .7]]), torch.tensor([1]))
    >>> round(metric.compute().item(), 6)
    0.443333
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    plot_lower_bound = 0.0

    cells: Tensor
    totals: Tensor
    largest: Tensor
    refused: Tensor
    origin: Tensor

    def __init__(
        self,
        error: str | CalibrationError | None = None,
        *,
        num_classes: int | None = None,
        n_bins: int | None = None,
        edges: Any = None,
        scale: Scale | None = None,
        logits: bool = False,
        ignore_index: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._lock = RLock()
        self._before = 0
        self._two = error is None and num_classes == 2
        if error is None and num_classes is None:
            raise ValueError(_NO_CLASSES)
        if error is None:  # that of `tc.score`
            error, num_classes = ("binary", None) if self._two else ("classwise", num_classes)
        named = isinstance(error, str)
        self.scale = _scale(scale, get_error(error), binned=not named or n_bins is not None or edges is not None)
        if self.scale == "score" and (n_bins is not None or edges is not None):
            raise ValueError("n_bins and edges cannot be used with scale='score': the score has no bins")
        self.error = _over_fixed_cells(get_error(error), n_bins, edges, named=named)
        if self.scale == "score":
            self.error = replace(self.error, binning=SCORE_CELLS)
        self.logits, self.ignore_index = bool(logits), ignore_index
        self.num_classes = _num_classes(self.error, num_classes)
        views = self.error.property.views(self.num_classes or 1)
        _refuse_size(self.error.binning, views)
        self._empty = BinTable.empty(self.error.property, self.error.binning, views=views, dtype="float32")
        about: dict[str, Any] = {"dtype": torch.float64}
        self.add_state("cells", torch.zeros((len(_CELLS), *self._empty.count.shape), **about), dist_reduce_fx="sum")
        self.add_state("totals", torch.zeros(len(_TOTALS), **about), dist_reduce_fx="sum")
        self.add_state("largest", torch.zeros((), **about), dist_reduce_fx="max")
        self.add_state("refused", torch.full((len(CHECKS) + len(NOTED),), torch.inf, **about), dist_reduce_fx="min")
        # a collection lets metrics whose states were once equal share them for good: those of other rows must differ
        options = (self.error.property, self.error.binning, views, self.logits, self.ignore_index)
        self.add_state("origin", _digest(options), dist_reduce_fx="max")

    @outside_torch_compile
    def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add a batch: predictions, then labels, as in torchmetrics; an empty batch adds nothing."""
        p, y, w = self._rows(preds, target, sample_weight)
        if self.cells.shape[1:] != self._empty.count.shape:
            raise _other_sums()
        if len(p) == 0:
            return
        number = self._before + self._update_count
        batch = Batch(p, y, w, self.error.binning, self.error.property.picks_outcome, self.ignore_index, number)
        with self._lock:  # threads may share a metric: no batch is lost
            sums = BatchSums(self.cells, self.totals, self.largest, self.refused)
            self.cells, self.totals, self.largest, self.refused = add_batch(sums, batch)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return the value of this batch."""
        with self._lock:
            self._before = self._update_count  # torchmetrics counts from 0 for the batch alone
            try:
                return super().forward(*args, **kwargs)
            finally:
                self._before = 0

    def reset(self) -> None:
        """Forget all rows."""
        with self._lock:
            super().reset()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._lock = RLock()

    def _rows(
        self, preds: Tensor, target: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """One row per prediction, where the sums are; probabilities."""
        for name, given in (("preds", preds), ("target", target), ("sample_weight", sample_weight)):
            if not isinstance(given, Tensor) and not (given is None and name == "sample_weight"):
                raise TypeError(f"{name} must be a torch.Tensor, got {shown(given)}: torch.as_tensor makes one")
        binary = self.error.property.event
        logits = self.logits
        if self._two and preds.ndim == target.ndim + 1 and preds.shape[1] == 2:
            # both columns: sigmoid(b − a) is the second entry of softmax(a, b)
            preds = preds[:, 1] - preds[:, 0] if logits else preds[:, 1]
        if not binary and preds.ndim < 2:
            raise ValueError(
                f"preds must be (N, C, ...), got shape {tuple(preds.shape)}; for one event use error='binary'"
            )
        if self.num_classes is not None and preds.shape[1] != self.num_classes:
            raise ValueError(f"preds have {preds.shape[1]} classes and num_classes is {self.num_classes}")
        if not binary and preds.shape[1] < 2:
            raise ValueError(f"preds must have at least two classes, got shape {tuple(preds.shape)}")
        places = preds.shape if binary else preds.shape[:1] + preds.shape[2:]
        _one_for_each(target, places, "target")
        if not (is_numbers(preds) and is_numbers(target)):
            found = f"{preds.dtype}, {preds.layout} and {target.dtype}, {target.layout}"
            raise TypeError(f"preds and target must be dense numbers, got {found}: .to_dense() or .float() makes them")
        device = self.cells.device
        p, y = preds.detach().to(device), target.detach().to(device).reshape(-1)
        p = p.reshape(-1) if binary else p.movedim(1, -1).reshape(-1, p.shape[1])
        if p.is_complex() or p.dtype == torch.bool or y.is_complex() or (y.dtype == torch.bool and not binary):
            raise TypeError(f"preds must be probabilities and target class indices, got {preds.dtype}, {target.dtype}")
        if logits:
            wide = p.double() if p.dtype == torch.float64 else p.float()
            p = wide.sigmoid() if binary else wide.softmax(1)
        w = None
        if sample_weight is not None:
            _one_for_each(sample_weight, places, "sample_weight")
            w = sample_weight.detach().to(device).reshape(-1)
        return p, y, w

    @property
    def table(self) -> BinTable:
        """The table of everything seen so far, for reliability diagrams and other numbers."""
        with self._lock:
            every = (self.cells, self.totals, self.largest, self.refused, self.origin)
            sizes = [part.numel() for part in every]
            read = torch.cat([part.reshape(-1) for part in every]).cpu()  # one transfer
        cells, sums, largest, refused, origin = read.split_with_sizes(sizes)
        if not torch.equal(origin, self._defaults["origin"].cpu()):  # type: ignore[union-attr]  # a tensor
            raise _other_sums()
        _refuse_bad(refused.tolist(), float(largest))
        named = dict(zip(_TOTALS, sums.tolist(), strict=True))
        totals = Totals(**named | {"rows": round(named["rows"]), "largest": float(largest)})
        count, outcome, residual, residual_sq, weight_sq = cells.view(self.cells.shape).numpy()
        empty = self._empty
        arrays = (count, outcome, residual, empty.tie_variance, residual_sq)
        about: dict[str, Any] = {"joint": empty.joint, "bounds": empty.bounds, "edges": empty.edges}
        return BinTable(empty.kind, empty.rule, *arrays, totals, weight_sq=weight_sq, **about)

    def compute(self) -> Tensor:
        """The value on the asked scale, as a float64 tensor; NaN before the first row that counts."""
        table = self.table
        value = self._value(table) if table.totals.weight > 0 else float("nan")
        return torch.tensor(value, dtype=torch.float64, device=self.cells.device)

    def _value(self, table: BinTable) -> float:
        if self.scale == "score":
            return self.error.score_of_table(table)
        size = table.totals.weight**2 / table.totals.weight_sq
        factors = {"raw": 1.0, "loss": size, "bins": table.count.shape[1]}
        return float(self.error.of_table(table) * factors[self.scale])

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """A plot of the present value, or of several from `forward` or `compute`."""
        return self._plot(val, ax)

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = "") -> Any:
        """Move the sums where `fn` would, and leave them in float64: rounded sums could not be added to any more."""

        def moved(x: Tensor) -> Tensor:
            return x.to(fn(x.new_empty(0)).device) if x.dtype == torch.float64 else fn(x)

        return super()._apply(moved, exclude_state)


def _other_sums() -> ValueError:
    return ValueError(
        "the state comes from a metric with other options (error, bins, num_classes, logits or ignore_index): "
        "load, merge or sync only metrics with the same options"
    )


def _refuse_bad(refused: Sequence[float], largest: float) -> None:
    """Raise what was wrong with the first bad batch."""
    numbers = dict(zip(CHECKS, refused, strict=False))
    numbers["label"] = min(numbers["label"], max(refused[len(CHECKS) :]))  # 0 and −1, both
    first = min(numbers.values())
    if first != float("inf"):
        wrong = next(check for check in CHECKS if numbers[check] == first)
        raise ValueError(f"update {first:.0f} since the last reset: {_WRONG[wrong]}")
    if 0 < largest < _LEAST_WEIGHT:
        raise ValueError("sample_weight is too small: its squares underflow to 0; multiply all weights by a constant")


def _one_for_each(given: Tensor, places: Sequence[int], name: str) -> None:
    """Refuse values that are not one for each prediction, in the same places: axes of length 1 do not count."""
    if [size for size in given.shape if size != 1] != [size for size in places if size != 1]:
        raise ValueError(
            f"{name} must have one value for each prediction, shape {tuple(places)}, got {tuple(given.shape)}"
        )


def _over_fixed_cells(error: CalibrationError, n_bins: Any, edges: Any, *, named: bool) -> CalibrationError:
    """The error over cells that are fixed in advance, the only ones whose sums can be added up over batches."""
    known = error.property.event or (error.property.of_distributions and error.property.of_classes)
    if not known or error.property.vector or error.property.per_view:
        raise ValueError(
            f"error must be of confidence, classwise or binary predictions, got {error.property.kind}; "
            "truecal.stream takes other kinds in batches"
        )
    if not named and (n_bins is not None or edges is not None):
        raise ValueError("n_bins and edges cannot be used: error is a CalibrationError, which has its own cells")
    if n_bins is not None and edges is not None:
        raise ValueError("pass n_bins or edges, not both")
    rule: BinningRule = error.binning
    if named:
        count = DEFAULT_BINS if n_bins is None else check_positive_int(n_bins, "n_bins")
        rule = EqualWidth(count) if edges is None else Edges(edges)
    if not rule.fixed or rule.several or getattr(rule, "n_bins", None) == "auto":
        raise ValueError(
            f"{shown(rule)} needs all predictions at once; batches need cells fixed in advance: EqualWidth with one "
            "count, or Edges, for example quantiles frozen on earlier predictions"
        )
    corrected = error.corrected if error.property.picks_outcome else "auto"
    return CalibrationError(error.property, rule, error.norm, corrected)


def _scale(scale: Scale | None, error: CalibrationError, *, binned: bool) -> Scale:
    if scale is None:
        return "raw" if error.norm == "l1" or binned else "score"
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(map(repr, SCALES))}, got {shown(scale)}")
    if scale != "raw" and error.norm == "l1":
        raise ValueError(f"scale={shown(scale)} cannot be used with norm='l1': it is for squared errors")
    return scale


def _num_classes(error: CalibrationError, num_classes: int | None) -> int | None:
    if num_classes is None:
        if error.property.views(2) > 1:
            raise ValueError(
                "num_classes is needed for a classwise error: every process must know the size of its sums"
            )
        return None
    if error.property.event:
        raise ValueError("num_classes cannot be used: 'binary' takes one probability of one event")
    return check_positive_int(num_classes, "num_classes")


def _refuse_size(rule: BinningRule, views: int) -> None:
    """Refuse sums larger than memory before any of it is asked for."""
    bins = getattr(rule, "n_cells", None) or max(rule.counts or (1,))
    need = _CELL_BYTES * views * bins
    if need > _MOST_BYTES:
        raise ValueError(
            f"n_bins={bins} and num_classes={views} are too many: the sums would take {need / 2**30:,.1f} GiB, "
            f"at most {_MOST_BYTES >> 30} GiB are allowed"
        )


def _digest(about: Any) -> Tensor:
    """A few whole numbers that are others for anything else."""
    found = hashlib.blake2b(repr(about).encode(), digest_size=16).digest()
    return torch.tensor(list(found), dtype=torch.float64)
