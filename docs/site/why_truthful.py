"""The two pictures of docs/why-truthful.md, drawn from simulated outcomes."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import truecal as tc

CASES, REPEATS, BINS = 300, 400, 15
HONEST, IGNORANT = "#1f6fb4", "#d0661a"


def worlds() -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """What the honest forecaster predicts, which is the truth; what the other one does; and the weather."""
    rng = np.random.default_rng(0)
    return rng.uniform(size=CASES), np.full(CASES, 0.5), rng


def points(y: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean prediction, frequency and number of rows of every bin that is not empty."""
    cell = np.minimum((u * BINS).astype(int), BINS - 1)
    count = np.bincount(cell, minlength=BINS)
    kept = count > 0
    mean, frequency = (np.bincount(cell, v, minlength=BINS)[kept] / count[kept] for v in (u, y))
    return mean, frequency, count[kept]


def draw_noise(picture: Path) -> None:
    """One sample as both reliability diagrams: fifteen noisy points, and a single quiet one."""
    honest, ignorant, rng = worlds()
    y = (rng.random(CASES) < honest).astype(int)
    figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharey=True, layout="constrained")
    pairs = (("knows the chances", honest, HONEST), ("knows nothing: always 50%", ignorant, IGNORANT))
    for ax, (name, u, colour) in zip(axes, pairs, strict=True):
        mean, frequency, count = points(y, u)
        ax.plot([0, 1], [0, 1], color="#999", linewidth=1)
        ax.vlines(mean, mean, frequency, color=colour, alpha=0.5, linewidth=2)
        ax.scatter(mean, frequency, s=20 + count, color=colour, zorder=3, clip_on=False)
        ax.set(title=f"{name}\nECE {tc.ece(y, u):.3f}", xlabel="predicted", xlim=(0, 1), ylim=(0, 1))
    axes[0].set_ylabel("how often it came")
    figure.savefig(picture, dpi=110, metadata={"Software": None})


def draw_pair(picture: Path) -> None:
    """Both forecasters in many samples, under ECE and under the score."""
    honest, ignorant, rng = worlds()
    samples = [(rng.random(CASES) < honest).astype(int) for _ in range(REPEATS)]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    measures = (("ECE", tc.ece), ("score = loss + gap²", lambda y, u: tc.score(y, u, error="binary")))
    for ax, (name, measure) in zip(axes, measures, strict=True):
        values = [[measure(y, u) for y in samples] for u in (honest, ignorant)]
        bins = np.linspace(np.min(values), np.max(values), 28)
        for found, label, colour in zip(
            values, ("knows the chances", "knows nothing"), (HONEST, IGNORANT), strict=True
        ):
            ax.hist(found, bins=bins, color=colour, alpha=0.75, label=label)
        won = np.mean(np.less(*values))
        ax.set(title=f"{name}\nknowledge wins {won:.0%} of the time", xlabel="lower is better", yticks=[])
    axes[1].legend(frameon=False)
    figure.savefig(picture, dpi=110, metadata={"Software": None})
