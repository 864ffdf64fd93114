"""What the page shows, read from a Comparison or an Evaluation, recomputing nothing: words, tables, data of charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from truecal.evaluation.comparison import Comparison, Flip, Pair
from truecal.evaluation.measuring import ErrorValue, Reliability
from truecal.evaluation.model import Evaluation
from truecal.evaluation.ranking import ECE_NAMES
from truecal.evaluation.verdict import LossGap, Standing, Verdict, give_verdict
from truecal.report.charts import COLORS
from truecal.report.measures import measure
from truecal.report.text import LABEL, LONGEST_NAME, clean, distinct, number, rounded, shorten

MOST_FLIPS = 300
MOST_POINTS = 40_000
"""Points of all reliability diagrams together: 20 models, 100 classes and 15 bins make 30,000."""
SCALE = 100_000
"""Probabilities of diagrams are stored as whole numbers of this part."""


@dataclass(frozen=True)
class Model:
    """A model as the page calls it, and how it is drawn: numbers of a colour, a shape and a dash."""

    key: str
    name: str
    label: str
    c: int
    s: int
    d: int


@dataclass(frozen=True)
class Source:
    """Either kind of result under one set of names."""

    evaluations: dict[str, Evaluation]
    models: tuple[Model, ...]
    verdict: Verdict
    comparison: Comparison | None
    classes: tuple[str, ...] | None

    @property
    def first(self) -> Evaluation:
        return next(iter(self.evaluations.values()))

    @property
    def headline(self) -> str:
        return self.first.headline

    @property
    def n_pairs(self) -> int:
        return len(self.models) * (len(self.models) - 1) // 2

    @cached_property
    def by_loss(self) -> list[Model]:
        """Models by the loss of the headline error, best first."""

        def loss(model: Model) -> float:
            row = self.evaluations[model.key].rows(self.headline)[0]
            return row.score if row.loss is None else row.loss

        return sorted(self.models, key=loss)

    def model(self, key: str) -> Model:
        return next(model for model in self.models if model.key == key)

    def standing(self, model: Model) -> Standing:
        return self.verdict.standings[model.key]


def read(result: Any, classes: Sequence[object] | None) -> Source:
    """Bring a Comparison or an Evaluation to one shape; names are made readable and told apart."""
    if isinstance(result, Comparison):
        evaluations, comparison, verdict = result.evaluations, result, result.verdict
    elif isinstance(result, Evaluation):
        evaluations, comparison = {result.name: result}, None
        verdict = give_verdict(evaluations, {}, (), ())
    else:
        raise TypeError(f"a report needs a Comparison or an Evaluation, got {type(result).__name__}")
    first = next(iter(evaluations.values()))
    return Source(evaluations, _models(list(evaluations)), verdict, comparison, _class_names(first, classes))


def _models(keys: Sequence[str]) -> tuple[Model, ...]:
    names = distinct(shorten(clean(key), LONGEST_NAME) or "(no name)" for key in keys)
    labels = distinct(shorten(name, LABEL) for name in names)
    return tuple(
        Model(key, name, label, i % COLORS, (i + i // COLORS) % COLORS, i // COLORS % 4)
        for i, (key, name, label) in enumerate(zip(keys, names, labels, strict=True))
    )


def _class_names(first: Evaluation, classes: Sequence[object] | None) -> tuple[str, ...] | None:
    if classes is None:
        return None
    if first.n_classes is None:
        raise ValueError("classes cannot apply: only the top class of these predictions is known")
    if len(classes) != first.n_classes:
        raise ValueError(f"classes must name all {first.n_classes} classes, got {len(classes)} names")
    return tuple(distinct(shorten(clean(name), 80) for name in classes))


# -- words and tables -------------------------------------------------------------------------------------------------


def summary(source: Source, title: str | None) -> dict[str, Any]:
    """Everything that the template writes as text."""
    first, comparison, verdict = source.first, source.comparison, source.verdict
    default = "Calibration report" if comparison is not None else f"Calibration of {source.models[0].name}"
    return {
        "source": source,
        "title": default if title is None else shorten(clean(title), LONGEST_NAME),
        "facts": _facts(source),
        "verdict": {part: _sentence(source, getattr(verdict, part)) for part in ("predictive", "calibration", "ece")},
        "headline": measure(source.headline),
        "level": f"{first.level:.0%}",
        "counts": first.n_bins,
        "start": _start(first.n_bins),
        "several": len(source.models) > 1,
        "best_known": [source.model(key) for key in verdict.best],
        "rejected": [model for model in source.by_loss if source.standing(model).state == "rejected"],
        "spared": [model for model in source.by_loss if source.standing(model).state == "not rejected"],
        "n_tests": max(standing.n_tests for standing in verdict.standings.values()),
        "boards": [(row.n_bins, _board(source, row.n_bins)) for row in first.rows(source.headline)],
        "flips": _flips(source),
        "dominance": _dominance(source),
        "measures": [measure(name) for name in first.error_names],
        "notes": [clean(note) for note in (comparison or first).notes],
        "has_parts": any(row.loss is not None for row in first.errors),
        "has_diagrams": bool(first.reliability),
    }


def _start(counts: Sequence[int]) -> int:
    """The bin count shown first: the one nearest to the usual 15."""
    return min(range(len(counts)), key=lambda i: abs(np.log(counts[i] / 15)))


def _facts(source: Source) -> str:
    first = source.first
    classes = "top class only" if first.n_classes is None else f"{first.n_classes} classes"
    models = "1 model" if len(source.models) == 1 else f"{len(source.models)} models"
    return f"{models} · {first.n_samples:,} samples · {classes}".replace(",", "\u202f")


def _sentence(source: Source, text: str) -> str:
    """A sentence of the verdict without the heading that the page has above it, long names shortened."""
    for heading in ("Predictive value: ", "Calibration: "):
        text = text.removeprefix(heading)
    if not any(text.startswith(f"{name} ") for name in source.evaluations):  # a name keeps its small letter
        text = text[:1].upper() + text[1:]
    for key in source.evaluations:
        if len(key) > LONGEST_NAME:
            text = text.replace(key, shorten(key, 60))
    return clean(text)


def _board(source: Source, m: int | None) -> list[tuple[Model, ErrorValue, LossGap | None, Pair | None]]:
    """Each model at one bin count, best loss first: its row, how far it is behind the best, its pair with the best."""
    best, rows = source.by_loss[0], []
    for model in source.by_loss:
        row = next(row for row in source.evaluations[model.key].rows(source.headline) if row.n_bins == m)
        pair = None if model is best else _pair(source, best.key, model.key, m)
        rows.append((model, row, source.verdict.behind.get(model.key), pair))
    return rows


def _pair(source: Source, a: str, b: str, m: int | None) -> Pair | None:
    for pair in () if source.comparison is None else source.comparison.pairs:
        if (pair.error, pair.n_bins) == (source.headline, m) and {pair.first, pair.second} == {a, b}:
            return pair
    return None


def direction(found: Evaluation) -> str:
    """Over- or under-confident, and by how much on average, where that is clear."""
    word = found.direction.word
    return word if word == "no clear direction" else f"{word} by {number(abs(found.direction.gap), 2)}"


def pvalue(p: float) -> str:
    """Rounded, with its sign."""
    return "< 0.001" if p < 0.001 else f"= {number(p, 2)}"


def tested_by(standing: Standing) -> str:
    """The p-value after the correction and the error that it comes from; of a rejection, all errors that reject."""
    if standing.pvalue is None or standing.state == "too few draws":
        return ""
    names = [measure(name).symbol for name in standing.errors or (standing.error,) if name is not None]
    return f"p {pvalue(standing.pvalue)} by {' and '.join(names)}"


def _flips(source: Source) -> dict[str, Any]:
    """Per error: how many pairs change places and how many beyond noise; and the pairs themselves."""
    comparison = source.comparison
    if comparison is None:
        return {"summary": [], "rows": [], "left_out": 0}
    summary = []
    for error, stability in comparison.stability.items():
        found = [flip for flip in comparison.flips if flip.error == error]
        l1 = source.first.rows(error)[0].loss is None
        summary.append(
            {
                "measure": measure(error),
                "flips": len(found),
                "beyond": "no interval" if l1 else sum(bool(flip.beyond_noise) for flip in found),
                "lowest": stability.lowest,
            }
        )

    def ece_first_then_beyond_noise(flip: Flip) -> tuple[bool, bool]:
        return flip.error not in ECE_NAMES, not flip.beyond_noise

    shown = sorted(comparison.flips, key=ece_first_then_beyond_noise)[:MOST_FLIPS]
    rows = [(flip, measure(flip.error), source.model(flip.first), source.model(flip.second)) for flip in shown]
    return {"summary": summary, "rows": rows, "left_out": len(comparison.flips) - len(rows)}


def _dominance(source: Source) -> dict[str, Any] | None:
    comparison = source.comparison
    if comparison is None or len(source.models) < 2:
        return None
    rows = []
    for error in comparison.error_names:
        found = {a.n_bins: a.spearman for a in comparison.chain if a.error == error}
        cells = [found.get(m) for m in comparison.n_bins]
        rows.append({"measure": measure(error), "cells": cells, "alone": found.get(None)})
    return {
        "chain": [source.models[i] for i in comparison.dominance.chain],
        "comparable": f"{comparison.dominance.comparable:.0%}",
        "n_losses": len(source.first.losses),
        "agreement": rows,
    }


# -- data of the charts -----------------------------------------------------------------------------------------------


def payload(source: Source) -> dict[str, Any]:
    """The data that the scripts of the page read: plain lists of rounded numbers."""
    first = source.first
    return {
        "counts": list(first.n_bins),
        "start": _start(first.n_bins),
        "models": [_drawn(source, model) for model in source.models],
        "order": [source.models.index(model) for model in source.by_loss],
        "headline": source.headline,
        "ece": next((name for name in ECE_NAMES if name in first.error_names), None),
        "errors": {name: _error(source, name) for name in first.error_names},
        "chain": [] if source.comparison is None else list(source.comparison.dominance.chain),
        "classes": source.classes,
        "scale": SCALE,
        "level": first.level,
        "reliability": _reliabilities(source),
    }


def _drawn(source: Source, model: Model) -> dict[str, Any]:
    standing = source.standing(model)
    said = {
        "test": ", ".join(filter(None, (standing.words, tested_by(standing)))),
        "direction": direction(source.evaluations[model.key]),
    }
    return {key: value for key, value in asdict(model).items() if key != "key"} | said


def _error(source: Source, name: str) -> dict[str, Any]:
    """One error: its bin counts, and per count the order of the models, their ranks and values."""
    columns = [source.evaluations[model.key].rows(name) for model in source.models]
    said = measure(name)
    found: dict[str, Any] = {
        "symbol": "ECE" if name in ECE_NAMES else said.symbol,
        "label": said.label,
        "truthful": said.truthful,
        "counts": [row.n_bins for row in columns[0]],
    }
    for key in ("score", "loss", "U", "U_low", "U_high", "low", "high"):
        if getattr(columns[0][0], key) is not None:
            found[key] = [[rounded(getattr(row, key)) for row in rows] for rows in zip(*columns, strict=True)]
    if source.comparison is not None:
        index = {key: i for i, key in enumerate(source.comparison.names)}
        rankings = {r.n_bins: r for r in source.comparison.rankings if r.error == name}
        found["ranks"] = [list(rankings[m].ranks) for m in found["counts"]]
        found["order"] = [[index[key] for key in rankings[m].order] for m in found["counts"]]
    return found


def _reliabilities(source: Source) -> dict[str, Any]:
    """Per error the diagrams of all models: columns of whole numbers, one list per class; the most telling classes."""
    found: dict[str, Any] = {}
    for name, first in source.first.reliability.items():
        diagrams = [source.evaluations[model.key].reliability[name] for model in source.models]
        views = list(range(len(first.count)))
        kept = views[: max(1, MOST_POINTS // max(1, len(diagrams) * first.count.shape[1]))]
        if len(kept) < len(views):
            kept = _most_frequent(first, len(kept))
        found[name] = {
            "symbol": measure(name).symbol,
            "by_class": name == "classwise",
            "views": kept,
            "left_out": len(views) - len(kept),
            "models": [[_view(diagram, j) for j in kept] for diagram in diagrams],
        }
    return found


def _most_frequent(diagram: Reliability, most: int) -> list[int]:
    """The classes that came most often, in their own order."""
    came = np.nansum(diagram.count * np.nan_to_num(diagram.mean_outcome), axis=1)
    return sorted(int(j) for j in np.argsort(-came, kind="stable")[:most])


def _view(diagram: Reliability, j: int) -> list[list[int] | None]:
    """x, y, low, high (or None without bands) and count of the bins that hold something."""
    full = np.flatnonzero(np.nan_to_num(diagram.count[j]) > 0)

    def parts(values: Any) -> list[int]:
        return [round(float(v) * SCALE) for v in values[j][full]]

    bands = (None, None) if diagram.low is None or diagram.high is None else (parts(diagram.low), parts(diagram.high))
    counts = [round(float(v)) for v in diagram.count[j][full]]
    return [parts(diagram.mean_report), parts(diagram.mean_outcome), *bands, counts]
