"""Segmentation: classes of pixels streamed image by image, in time and memory, beside torchmetrics on flattened input.

    python -m benchmarks.segmentation                 100 images of 19 × 512 × 1,024, float32
    python -m benchmarks.segmentation --images 4      fewer

Every contestant runs in a separate process and makes the same images; making them is not timed. `memory` is the most
that the process had at once beyond what it had before the first image.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CONTESTANTS = ("truecal", "truecal, quantile bins", "torchmetrics ECE")


def image(seed: int, classes: int, height: int, width: int) -> tuple[Any, Any]:
    """Probabilities (1, C, H, W) in float32 and labels drawn from them; a border has the label 255."""
    rng = np.random.default_rng(seed)
    p = rng.standard_exponential((1, classes, height, width), dtype=np.float32)
    p **= 3
    p /= p.sum(axis=1, keepdims=True)
    u = rng.random((1, height, width), dtype=np.float32)
    y = np.zeros((1, height, width), dtype=np.int64)
    total = np.zeros_like(u)
    for j in range(classes - 1):
        total += p[:, j]
        y += total < u
    y[:, :8] = 255
    return y, p


def ours(**options: Any) -> tuple[Callable[[Any, Any], None], Callable[[], float]]:
    import truecal as tc

    stream = tc.stream(["classwise", "confidence"], **options)
    return lambda y, p: stream.update(y, p, ignore_index=255), lambda: float(stream.result().score or 0.0)


def torchmetrics_ece(classes: int) -> tuple[Callable[[Any, Any], None], Callable[[], float]]:
    import torch
    from torchmetrics.classification import MulticlassCalibrationError

    metric = MulticlassCalibrationError(classes, ignore_index=255)

    def update(y: Any, p: Any) -> None:
        rows = torch.from_numpy(p).movedim(1, -1).reshape(-1, classes)
        metric.update(rows, torch.from_numpy(y).reshape(-1))

    return update, lambda: float(metric.compute())


def measured(name: str, images: int, shape: tuple[int, int, int]) -> dict[str, float]:
    """Seconds, mebibytes and the value of one contestant."""
    if name.startswith("truecal"):
        update, value = ours(**({} if "quantile" in name else {"edges": "uniform", "n_bins": 15}))
    else:
        update, value = torchmetrics_ece(shape[0])
    given = image(0, *shape)
    before, spent = _peak(), 0.0
    for seed in range(images):
        given = image(seed, *shape)
        start = time.perf_counter()
        update(*given)
        spent += time.perf_counter() - start
    start = time.perf_counter()
    found = value()
    spent += time.perf_counter() - start
    return {"seconds": spent, "memory": _peak() - before, "value": found}


def _peak() -> float:
    """Mebibytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--shape", type=int, nargs=3, default=[19, 512, 1024], help="classes, height, width")
    parser.add_argument("--small", action="store_true", help="few and small images, to see that everything runs")
    parser.add_argument("--one", choices=CONTESTANTS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.small:
        given.images, given.shape = 2, [5, 64, 64]
    if given.one:
        print(json.dumps(measured(given.one, given.images, tuple(given.shape))))
        return
    size = " × ".join(map(str, given.shape))
    print(f"{given.images} images of {size}, float32")
    print("| | seconds | per image | memory, MiB | value |\n| --- | --- | --- | --- | --- |")
    for name in CONTESTANTS:
        command = [sys.executable, "-m", "benchmarks.segmentation", "--one", name, "--images", str(given.images)]
        ran = subprocess.run([*command, "--shape", *map(str, given.shape)], capture_output=True, text=True, check=False)
        if ran.returncode:
            print(f"| {name} | not measured: {ran.stderr.strip().splitlines()[-1]} |")
            continue
        found = json.loads(ran.stdout.splitlines()[-1])
        each = found["seconds"] / given.images
        print(
            f"| {name} | {found['seconds']:.1f} | {each:.2f} | {found['memory']:.0f} | {found['value']:.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
