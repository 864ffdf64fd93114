"""The errors on a GPU against the floors of their arithmetic on the same card, in one run, as ratios.

    python -m benchmarks.gpu [--rows 50000] [--classes 1000]

Medians of device events after warm-up, of whole public calls: validation, kernels and the number that comes back.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch

import truecal as tc

Call = Callable[[], object]


def softmax_sample(n: int, k: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """float32 softmax rows on the GPU and labels drawn from them."""
    generator = torch.Generator("cuda").manual_seed(seed)
    p = torch.softmax(2 * torch.randn(n, k, generator=generator, device="cuda"), 1)
    return torch.multinomial(p, 1, generator=generator)[:, 0], p


def milliseconds(call: Call, repeats: int = 30) -> float:
    """Median time of a call between two events of the device, after warm-up."""
    for _ in range(5):
        call()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def row(what: str, ratio: float, bound: str, ms: float) -> None:
    print(f"{what:<70} {ratio:>8.2f} {bound:>8} {ms:>9.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1_000)
    options = parser.parse_args()
    y, p = softmax_sample(options.rows, options.classes)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, n={len(p):,} k={p.shape[1]:,} float32")
    print(f"{'':<70} {'ratio':>8} {'wanted':>8} {'ms':>9}")
    against_floors(y, p)
    against_torchmetrics(y, p)
    against_the_cpu(y, p)


def against_floors(y: torch.Tensor, p: torch.Tensor) -> None:
    columns, copy = p.T.contiguous(), torch.empty_like(p)
    sort, copied = milliseconds(lambda: torch.sort(columns, dim=1)), milliseconds(lambda: copy.copy_(p))
    row("torch.sort of the ready (k, n) array", 1.0, "", sort)
    row("device copy of the array", 1.0, "", copied)
    one = milliseconds(lambda: tc.classwise_error(y, p))
    row("classwise quantile, 15 bins / sort", one / sort, "<= 1.6", one)
    many = milliseconds(lambda: tc.classwise_error(y, p, n_bins=range(2, 52)))
    row("50 bin counts / one", many / one, "<= 1.3", many)
    uniform = milliseconds(lambda: tc.classwise_error(y, p, strategy="uniform"))
    row("classwise equal-width, 15 bins / copy", uniform / copied, "<= 4", uniform)
    for name, call in {
        "classwise two-bin / sort": lambda: tc.classwise_error(y, p, strategy="two_bin"),
        "classwise decompose / sort": lambda: tc.decompose(y, p),
        "score (confidence) / sort": lambda: tc.score(y, p),
        "full, argmax cells / sort": lambda: tc.full_error(y, p),
    }.items():
        ms = milliseconds(call, 5)
        row(name, ms / sort, "", ms)


def against_torchmetrics(y: torch.Tensor, p: torch.Tensor) -> None:
    from torchmetrics.functional.classification import multiclass_calibration_error

    k: Any = p.shape[1]
    peer = milliseconds(lambda: multiclass_calibration_error(p, y, k, n_bins=15))
    ours = milliseconds(lambda: tc.confidence_error(y, p))
    usual = milliseconds(lambda: tc.confidence_error(y, p, norm="l1"))
    row("torchmetrics (usual ECE) / ours (corrected, quantile)", peer / ours, ">= 1", ours)
    row("torchmetrics (usual ECE) / ours (usual ECE)", peer / usual, ">= 1", usual)


def against_the_cpu(y: torch.Tensor, p: torch.Tensor) -> None:
    """The largest relative difference from numpy on the same float32 predictions."""
    calls: dict[str, Callable[[Any, Any], float]] = {
        "classwise": tc.classwise_error,
        "classwise, equal width": lambda y, p: tc.classwise_error(y, p, strategy="uniform"),
        "confidence": tc.confidence_error,
        "usual ECE": lambda y, p: tc.confidence_error(y, p, norm="l1"),
        "score": tc.score,
    }
    y_here, p_here = y.cpu(), p.cpu()
    apart = {name: call(y, p) / call(y_here, p_here) - 1 for name, call in calls.items()}
    print("relative difference from the CPU (wanted: 1e-6):", {name: f"{x:.1e}" for name, x in apart.items()})


if __name__ == "__main__":
    main()
