"""Streams as results: one as an Evaluation, several of the same rows as a Comparison."""

from __future__ import annotations

from collections.abc import Mapping

from ..evidence.stream import stream_evidence
from ..evidence.stream_state import StreamState
from ..inference.checks import check_level
from ..results.assembly import make_evaluation
from ..results.comparison import Comparison, make_comparison
from ..results.evaluation import Evaluation


def evaluation_of(stream: StreamState, level: float, name: str, seed: int | None = None) -> Evaluation:
    """The stream so far, as `evaluate` would give it, without what needs rows; with a seed, tested by its blocks."""
    return make_evaluation(stream_evidence(stream, check_level(level), seed), name)


def compare_streams(
    streams: Mapping[str, StreamState], level: float = 0.95, evaluations: dict[str, Evaluation] | None = None
) -> Comparison:
    """Models whose streams saw the same rows in the same order, as `compare` would give them without the rows; with
    `evaluations` that have been made of them already."""
    first = next(iter(streams.values()))
    for name, stream in streams.items():
        same = [(e.name, e.n_bins) for e in stream.entries] == [(e.name, e.n_bins) for e in first.entries]
        if stream.rows != first.rows or not same:
            raise ValueError(f"streams must have the same rows, errors and bins: {name!r} differs from the first")
    evidence = {name: stream_evidence(stream, check_level(level)) for name, stream in streams.items()}
    if evaluations is None:
        evaluations = {name: make_evaluation(found, name) for name, found in evidence.items()}
    return make_comparison(evaluations, evidence, None, check_level(level), [])
