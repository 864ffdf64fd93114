"""Sampled answers: bias and coverage of the gap, level and power of the test, and the naive majority share.

    python -m benchmarks.language --simulations 300 --write

Each question has a distribution over six answers, from which K answers are drawn. The right answer is one more draw
from it (calibrated; "sure": most questions are easy), or from a flatter one (over-confident: the logits of the sampler
are 1.7 times too large). With several right answers the test flips signs of blocks of questions. Coverage is the share
of samples whose 95% interval holds the gap that the same cells have where reports and outcomes are replaced by their
chances; samples whose interval is noted as unreliable are left out. --write stores the table, and
results/conclusions/RESULTS.md shows it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from truecal.core.sample import Sample
from truecal.evidence.of_answers import answers_evidence
from truecal.inference.samples import auto_cells, share_cells, split_answers
from truecal.inference.spread import spread_of
from truecal.inference.view_sums import Views, ViewSums
from truecal.kinds.answers import Answers
from truecal.results.assembly import make_evaluation
from truecal.sums.errors import signed_root

RESULTS = Path(__file__).with_name("language.json")
PAGE = Path(__file__).parents[1] / "results" / "conclusions" / "RESULTS.md"
ANSWERS = 6
WORLDS = {
    "calibrated": (1.0, 1.5, False),
    "over-confident": (1.7, 1.5, False),
    "calibrated, sure": (1.0, 6.0, False),
    "calibrated, several right": (1.0, 1.5, True),
}
"""How much too large the sampler's logits are, the spread of the true ones, and whether each answer is right by itself
with its chance, so that questions have none, one or several right answers."""
SAMPLES, QUESTIONS = (4, 10, 20, 40), (100, 500, 5000)


def softmax(logits: Any) -> Any:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def draw(
    rng: np.random.Generator, n: int, k: int, sharp: float, spread: float, several: bool
) -> tuple[Answers, Any, Any]:
    """The answers of n questions, with the chances of every answer in the samples and in truth."""
    logits = rng.normal(0, spread, (n, ANSWERS))
    sampled, true = softmax(sharp * logits), softmax(logits)
    answers = (sampled.cumsum(axis=1)[:, None] < rng.random((n, k, 1))).sum(axis=2).clip(0, ANSWERS - 1)
    truth = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, ANSWERS - 1)
    owner = np.repeat(np.arange(n), ANSWERS)
    right = np.tile(np.arange(ANSWERS), n) == truth[owner]
    if several:
        right = rng.random(n * ANSWERS) < true.ravel()
    clusters = (answers + ANSWERS * np.arange(n)[:, None]).ravel()
    return Answers(np.repeat(np.arange(n), k), clusters, owner, right), sampled.ravel(), true.ravel()


def noiseless(answers: Answers, sampled: Any, true: Any, seed: int) -> float:
    """gap² of the same cells where every report and outcome is its chance."""
    split = split_answers(answers, seed)  # as the evaluation splits them
    cell = share_cells(split, auto_cells(answers.n))
    sample = Sample("top_label", sampled[split.answer], values=true[split.answer])
    sums = ViewSums(sample, split.question, "gap")
    sums.add_views(Views(sample, slice(0, 1), cell, [np.arange(int(cell.max()) + 1)]))
    return spread_of(sums, None, False).theta


def rates(world: str, k: int, n: int, simulations: int, draws: int) -> dict[str, Any]:
    """One row of the table."""
    read, true, naive, covered, trusted, rejected, named, wide = [], [], [], 0, 0, 0, 0, []
    for i in range(simulations):
        answers, sampled, chance = draw(np.random.default_rng([i, k, n]), n, k, *WORLDS[world])
        result: Any = make_evaluation(answers_evidence(answers, auto_cells(n), 0.95, draws, i), world)
        target = noiseless(answers, sampled, chance, i)
        gap = result.gap
        read.append(np.sign(gap.points) * gap.points**2)
        true.append(1e4 * target)
        naive.append(np.sign(result.sampling.naive_gap) * result.sampling.naive_gap**2)
        if not gap.note:
            trusted += 1
            covered += gap.low <= 100 * signed_root(target) <= gap.high
            wide.append(gap.high - gap.low)
        rejected += result.test.pvalue <= 0.05
        named += result.direction.word != "no clear direction"
    return {
        "world": world,
        "samples": k,
        "questions": n,
        "simulations": simulations,
        "true": float(signed_root(float(np.mean(true)))),
        "read": float(signed_root(float(np.mean(read)))),
        "bias": float(np.mean(read) - np.mean(true)),
        "bias_se": float(np.std(np.subtract(read, true)) / np.sqrt(simulations)),
        "naive": float(signed_root(float(np.mean(naive)))),
        "coverage": covered / trusted if trusted else None,
        "reliable": trusted / simulations,
        "width": float(np.mean(wide)) if wide else None,
        "rejected": rejected / simulations,
        "direction": named / simulations,
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as Markdown."""
    heads = ("world", "samples", "questions", "true gap", "read", "naive", "coverage", "rejected", "direction named")
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for row in rows:
        covered, rejected, named = (_share(row[key]) for key in ("coverage", "rejected", "direction"))
        numbers = (f"{max(0.0, row[key]):.1f}" for key in ("true", "read", "naive"))
        cells = (
            row["world"],
            str(row["samples"]),
            f"{row['questions']:,}",
            *numbers,
            covered,
            rejected,
            named,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".removeprefix("0")


def page(rows: list[dict[str, Any]], text: str) -> str:
    """The text of results/conclusions/RESULTS.md with the table between its marks."""
    start, end = "<!-- language -->\n", "<!-- end language -->"
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    return before + start + "\n".join(table(rows)) + "\n" + end + after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=300, help="samples per row; 5,000 questions have a fifth")
    parser.add_argument("--draws", type=int, default=199, help="draws of each test")
    parser.add_argument("--small", action="store_true", help="few samples of few questions")
    parser.add_argument("--write", action="store_true", help="store the table")
    parser.add_argument("--page", action="store_true", help="write the table of the stored results, run nothing")
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS), help="only these")
    given = parser.parse_args()
    simulations, questions = (20, QUESTIONS[:1]) if given.small else (given.simulations, QUESTIONS)
    stored = json.loads(RESULTS.read_text()) if given.write and RESULTS.exists() else []
    rows = [row for row in stored if row["world"] not in given.worlds]
    for world in () if given.page else given.worlds:
        for k in SAMPLES:
            for n in questions:
                began = time.process_time()
                own = simulations if n < 5000 else max(20, simulations // 5)
                rows.append(rates(world, k, n, own, given.draws))
                print(table(rows)[-1], f"{time.process_time() - began:.0f} s", flush=True)
    if given.write:
        order = list(WORLDS)
        rows.sort(key=lambda row: (order.index(row["world"]), row["samples"], row["questions"]))
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    if given.write or given.page:
        stored = json.loads(RESULTS.read_text())
        PAGE.write_text(page(stored, PAGE.read_text()))


if __name__ == "__main__":
    main()
