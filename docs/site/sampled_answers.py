"""The picture of docs/language-models.md: the majority share and the split share of one calibrated sampler."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import truecal as tc

QUESTIONS, ANSWERS = 4000, 6
NUMBERS = (4, 6, 10, 20, 40)
NAIVE, SPLIT = "#d0661a", "#1f6fb4"


def draw(rng: np.random.Generator, k: int, sharp: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """k answers per question and the truth: one more draw, or with sharp > 1 a draw from a flatter distribution."""
    logits = rng.normal(0, 1.5, (QUESTIONS, ANSWERS))

    def chosen(factor: float, number: int) -> np.ndarray:
        noise = rng.gumbel(size=(QUESTIONS, number, ANSWERS))
        return np.asarray((factor * logits[:, None] + noise).argmax(axis=2))

    return chosen(sharp, k), chosen(1.0, 1)[:, 0]


def draw_naive_and_split(picture: Path) -> None:
    """Left: both reliability diagrams at ten samples. Right: mean confidence minus accuracy as samples grow."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    answers, truth = draw(np.random.default_rng(0), 10)
    split = tc.language.from_samples(answers, reference=truth, name="split")
    top = tc.language.majority_share(answers, reference=truth)
    naive = tc.evaluate(None, top, errors=["top_label"], name="naive")
    left.plot([0, 1], [0, 1], color="#999", linewidth=1)
    for result, colour, marker, words in (
        (naive, NAIVE, "s", "majority share (naive)"),
        (split, SPLIT, "o", "share in the other half (split)"),
    ):
        table = result.reliability["top_label"]
        full = table.count[0] > QUESTIONS / 200
        left.plot(table.mean_report[0][full], table.mean_outcome[0][full], marker=marker, color=colour, label=words)
    left.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    left.set_title("a calibrated sampler, 10 answers each")
    left.legend(loc="upper left", fontsize="small")
    for sharp, dash, words in ((1.0, "-", "calibrated"), (1.7, "--", "over-confident")):
        found = []
        for k in NUMBERS:
            answers, truth = draw(np.random.default_rng(k), k, sharp)
            result = tc.language.from_samples(answers, reference=truth)
            assert result.sampling is not None
            off = result.sampling.naive_confidence - result.sampling.naive_accuracy
            found.append((100 * off, 100 * result.direction.gap))
        for column, colour, marker, kind in ((0, NAIVE, "s", "naive"), (1, SPLIT, "o", "split")):
            values = [row[column] for row in found]
            right.plot(NUMBERS, values, dash, marker=marker, color=colour, label=f"{words}, {kind}")
    right.axhline(0, color="#999", linewidth=1)
    right.set(xscale="log", xlabel="answers per question", ylabel="mean confidence − accuracy, points")
    right.set_xticks(NUMBERS, [str(k) for k in NUMBERS])
    right.minorticks_off()
    right.set_title("the naive number depends on how often you ask")
    right.legend(fontsize="small")
    figure.savefig(picture, dpi=110, metadata={"Software": None})
    plt.close(figure)
