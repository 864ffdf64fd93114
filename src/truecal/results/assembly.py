"""From evidence to results: the one place where an Evaluation is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..evidence.evidence import Evidence
from .evaluation import Evaluation
from .verdict import standings


def make_evaluation(evidence: Evidence, name: str, subgroups: Mapping[str, Evaluation] | None = None) -> Evaluation:
    """One model's evidence as an Evaluation."""
    return Evaluation(
        name=str(name),
        kind=evidence.kind.name,
        n_samples=evidence.n_samples,
        n_classes=evidence.n_classes,
        level=evidence.level,
        losses=evidence.losses,
        errors=tuple(evidence.errors),
        gaps=evidence.gaps,
        test=evidence.test,
        direction=evidence.direction,
        reliability=evidence.reliability,
        notes=tuple(evidence.notes),
        views=evidence.views,
        subgroups=dict(subgroups or {}),
        discrimination=evidence.discrimination,
        sampling=evidence.sampling,
    )


def judge_subgroups(evaluations: Mapping[str, Evaluation]) -> None:
    """Correct the tests of subgroups over all of them, and over all models."""
    parts = {(model, key): part for model, found in evaluations.items() for key, part in found.subgroups.items()}
    for (model, key), standing in standings(parts, next(iter(evaluations.values())).level).items():
        evaluations[model].subgroups[key] = replace(parts[model, key], standing=standing)
