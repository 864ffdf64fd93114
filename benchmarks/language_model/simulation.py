"""Next tokens of known distributions: how often intervals of the gap cover the truth, with documents as groups or not.

`python -m benchmarks.language_model.simulation 200` prints a table of results/measured. The language
is a Markov chain over 20 tokens. "knows the language": the model has the chain itself. "two dialects": every document
is in one of two chains and the model has their average, which is right given the token before, averaged over
documents. "too sharp": log-odds times 1.5.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

import truecal as tc

TOKENS, LENGTH = 20, 100
Floats = NDArray[np.float64]


def chain(rng: np.random.Generator) -> Floats:
    """Chances of the next token, uniform in the long run: a mean of permutations, so that any two chains mix well."""
    weights = rng.dirichlet(np.full(12, 0.5))
    return np.asarray(sum(w * np.eye(TOKENS)[rng.permutation(TOKENS)] for w in weights))


def texts(rng: np.random.Generator, chains: Floats) -> NDArray[np.intp]:
    """(documents, tokens) of documents that begin anywhere, each with its own chain."""
    found = np.empty((len(chains), LENGTH + 1), dtype=np.intp)
    found[:, 0] = rng.integers(0, TOKENS, len(chains))
    for i in range(LENGTH):
        rows = np.cumsum(chains[np.arange(len(chains)), found[:, i]], axis=1)
        found[:, i + 1] = (rng.random(len(chains))[:, None] > rows[:, :-1]).sum(axis=1)
    return found


def run(rng: np.random.Generator, documents: int, dialects: int, sharp: float) -> tuple[Any, Any, float]:
    """The gap with documents as groups and with tokens as rows, and the true one in points."""
    kinds = np.array([chain(rng) for _ in range(dialects)])
    known = kinds.mean(axis=0)
    with np.errstate(divide="ignore"):
        model = known**sharp / (known**sharp).sum(axis=1, keepdims=True)
    text = texts(rng, kinds[rng.integers(0, dialects, documents)])
    before, after = text[:, :-1].ravel(), text[:, 1:].ravel()
    predicted = model.argmax(axis=1)
    correct, confidence = after == predicted[before], model.max(axis=1)[before]
    groups = np.repeat(np.arange(documents), LENGTH)
    off = model.max(axis=1) - known[np.arange(TOKENS), predicted]
    truth = 100 * float(np.sqrt(np.mean(off**2)))  # every token is as frequent as every other
    clustered = tc.gap(correct, confidence, error="top_label", groups=groups)
    return clustered, tc.gap(correct, confidence, error="top_label"), truth


def main(simulations: int) -> None:
    rng = np.random.default_rng(0)
    print("| model | documents | true gap | mean gap | documents as groups | tokens as rows |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, dialects, sharp in (("knows the language", 1, 1.0), ("two dialects", 2, 1.0), ("too sharp", 1, 1.5)):
        for documents in (30, 100):
            found = [run(rng, documents, dialects, sharp) for _ in range(simulations)]
            truth, seen = np.mean([f[2] for f in found]), np.mean([f[0].points for f in found])
            both = (np.mean([gap.low <= f[2] <= gap.high for f in found for gap in (f[i],)]) for i in (0, 1))
            rates = " | ".join(f"{rate:.2f}" for rate in both)
            print(f"| {name} | {documents} | {truth:.1f} | {seen:.1f} | {rates} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
