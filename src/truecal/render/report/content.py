"""What the page shows, read from a Comparison or an Evaluation, recomputing nothing: words, tables, data of charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from truecal.baselines import ERRORS
from truecal.core.result import clean
from truecal.core.words import LOSS_TITLES, merged_notes, points_text
from truecal.evidence.values import Reliability
from truecal.inference.checks import p_of_draws
from truecal.inference.gaps import gap_interval
from truecal.render.report.charts import COLORS
from truecal.render.report.measures import measure
from truecal.render.report.text import LABEL, LONGEST_NAME, distinct, rounded, shorten
from truecal.results.columns import Column, Row, columns_at, off_text, texts
from truecal.results.comparison import Comparison, rank_text
from truecal.results.diagram import main_diagram, worst_view
from truecal.results.evaluation import Evaluation
from truecal.results.explain import explanation
from truecal.results.ranking import ECE_NAMES
from truecal.results.verdict import Verdict, favoured, loss_title

MOST_FLIPS = 300
MOST_VIEWS = 200
"""Labels or thresholds listed per model."""
MOST_POINTS = 40_000
"""Points of all reliability diagrams together: 20 models, 100 classes and 15 bins make 30,000."""
SCALE = 100_000
"""Probabilities of diagrams are stored as whole numbers of this part."""


@dataclass(frozen=True)
class Drawn:
    """A model as the page calls it, and how it is drawn: numbers of a colour, a shape and a dash."""

    key: str
    name: str
    label: str
    c: int
    s: int
    d: int


@dataclass(frozen=True)
class PageSource:
    """Either kind of result under one set of names."""

    evaluations: dict[str, Evaluation]
    models: tuple[Drawn, ...]
    verdict: Verdict
    comparison: Comparison | None
    classes: tuple[str, ...] | None

    @property
    def first(self) -> Evaluation:
        return next(iter(self.evaluations.values()))

    @property
    def headline(self) -> str:
        return self.first.headline

    @cached_property
    def counts(self) -> list[int]:
        """The bin counts of the control: those of ECE and of the error whose score ranks the models."""
        names = {self.headline, *(name for name in ECE_NAMES if name in self.first.error_names)}
        rows = [row for name in names for row in self.first.rows(name)]
        return sorted({row.n_bins for row in rows if row.n_bins is not None})

    @property
    def start(self) -> int:
        """The place of the bin count shown first: the one nearest to the usual 15."""
        return min(range(len(self.counts)), key=lambda i: abs(np.log(self.counts[i] / 15)), default=0)

    @property
    def n_pairs(self) -> int:
        return len(self.models) * (len(self.models) - 1) // 2

    @cached_property
    def rows(self) -> list[Row]:
        """What columns are read from, best model first."""
        return (self.comparison or self.first).rows_of_columns()

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of every table of models or subgroups."""
        parts = [part.as_row for found in self.evaluations.values() for part in found.subgroups.values()]
        return columns_at([*self.rows, *parts], "table", "wide")

    @cached_property
    def board(self) -> list[dict[str, Any]]:
        """The rows of the table of models, best first."""
        ranks = [""] if self.comparison is None else [rank_text(row) for row in self.comparison.leaderboard()]
        return [
            facts(row, self.columns) | {"model": self.model(row.model.name), "rank": rank}
            for row, rank in zip(self.rows, ranks, strict=True)
        ]

    def model(self, key: str) -> Drawn:
        return next(model for model in self.models if model.key == key)


def facts(row: Row, columns: Sequence[Column]) -> dict[str, Any]:
    """One line about a model or a subgroup."""
    (cells,), gap = texts([row], columns), row.model.gap
    return {
        "found": row.model,
        "standing": row.standing,
        "cells": list(zip(columns, cells, strict=True)),
        "bar": 0.0 if gap is None else max(0.0, gap.points),
    }


def read(result: Any, classes: Sequence[object] | None) -> PageSource:
    """Bring a Comparison or an Evaluation to one shape; names are made readable and told apart."""
    if not isinstance(result, (Comparison, Evaluation)):
        raise TypeError(f"a report needs a Comparison or an Evaluation, got {type(result).__name__}")
    comparison = result if isinstance(result, Comparison) else None
    evaluations = {result.name: result} if isinstance(result, Evaluation) else result.evaluations
    first = next(iter(evaluations.values()))
    return PageSource(evaluations, _models(list(evaluations)), result.verdict, comparison, _class_names(first, classes))


def _models(keys: Sequence[str]) -> tuple[Drawn, ...]:
    names = distinct(shorten(clean(key), LONGEST_NAME) or "(no name)" for key in keys)
    labels = distinct(shorten(name, LABEL) for name in names)
    return tuple(
        Drawn(key, name, label, i % COLORS, (i + i // COLORS) % COLORS, i // COLORS % 4)
        for i, (key, name, label) in enumerate(zip(keys, names, labels, strict=True))
    )


def _class_names(first: Evaluation, classes: Sequence[object] | None) -> tuple[str, ...] | None:
    if classes is None:
        return None
    if first.n_classes is None:
        raise ValueError("classes cannot be used: only the top class of these predictions is known")
    if len(classes) != first.n_classes:
        raise ValueError(f"classes must name all {first.n_classes} classes, got {len(classes)} names")
    return tuple(distinct(shorten(clean(name), 80) for name in classes))


# -- words and tables -------------------------------------------------------------------------------------------------


def summary(source: PageSource, title: str | None, intro: str | None) -> dict[str, Any]:
    """Everything that the template writes as text."""
    first, comparison = source.first, source.comparison
    default = "Calibration report" if comparison is not None else f"Calibration of {source.models[0].name}"
    return {
        "source": source,
        "columns": source.columns,
        "title": default if title is None else shorten(clean(title), LONGEST_NAME),
        "intro": intro or "",
        "facts": _size(source),
        "verdict": _verdict(source),
        "gaps": None if comparison is None else _gaps(source),
        "headline": measure(source.headline),
        "loss_title": loss_title(first),
        "level": f"{first.level:.0%}",
        "answers": {line["standing"].answer for line in source.board},
        "counts": source.counts,
        "start": source.start,
        "several": len(source.models) > 1,
        "widest": max([1.0, *(line["bar"] for line in source.board)]),
        "slots": min(3, len(source.models)) if first.reliability else 0,
        "subgroups": [(line["model"], list(_subgroups(line["found"], source.columns))) for line in source.board],
        "segments": _segments(source.first),
        "advice": _advice(source),
        "views": [(line["model"], line["found"].views[:MOST_VIEWS]) for line in source.board if line["found"].views],
        "parts": _parts(source),
        "unit": f"{title} " if (title := LOSS_TITLES.get(ERRORS[source.headline].property.loss_name)) else "",
        "flips": None if comparison is None else _flips(source, comparison),
        "dominance": None if comparison is None or len(source.models) < 2 else _dominance(source, comparison),
        "measures": [measure(name) for name in first.error_names],
        "notes": merged_notes((comparison or first).notes),
        "has_parts": any(row.loss is not None for row in first.errors),
    }


_IS = {
    "Not calibrated": "is not calibrated",
    "Calibrated": "is calibrated",
    "Undecided": "may or may not be calibrated",
}


def _verdict(source: PageSource) -> dict[str, Any]:
    """The verdict in one sentence, and what more is to say."""
    verdict = source.verdict
    if source.comparison is None:
        answer, _, why = verdict.calibration.removesuffix(".").partition(": ")
        lead = f"{source.models[0].name} {_IS.get(answer, 'was not tested for calibration')}"
        lead, more = f"{lead}: {why}." if why else f"{lead}.", list(explanation(source.first)[:-1])
    else:
        lead, more = verdict.predictive, [verdict.ece]
    favours = "".join(favoured(verdict.better_calibrated))
    return {
        "lead": _sentence(source, lead),
        "more": [_sentence(source, line) for line in more if line],
        "favours": _sentence(source, favours),
    }


def _advice(source: PageSource) -> list[str]:
    """What to do about the model, or about the one that predicts best."""
    best = source.evaluations[source.verdict.best[0]] if source.verdict.best else source.first
    what = [*best.advice] or [_sentence(source, explanation(best)[-1])]
    return what if source.comparison is None else [f"{source.model(best.name).name}: {line}" for line in what]


def _gaps(source: PageSource) -> dict[str, Any] | None:
    """The gap of every model with its interval as shares of one axis, largest first."""
    known = [(line, line["found"].gap) for line in source.board if line["found"].gap is not None]
    if not known:
        return None
    ends = [gap.points if gap.note else gap.high for _, gap in known]
    most = max([1.0, *(end for end in ends if np.isfinite(end))])

    def place(points: float) -> float:
        return round(float(100 * min(max(points, 0.0), most) / most), 2)

    rows = [
        line
        | {
            "at": place(gap.points),
            "low": None if gap.note else place(gap.low),
            "high": None if gap.note else place(gap.high),
            "said": f"{points_text(gap.points)} {gap_interval(gap)}".strip(),
            "why": line["standing"].why or off_text(line["found"].direction.word),
        }
        for line, gap in sorted(known, key=lambda item: -item[1].points)
    ]
    return {"rows": rows, "most": points_text(most)}


def _size(source: PageSource) -> str:
    models = "1 model" if len(source.models) == 1 else f"{len(source.models)} models"
    return f"{models} · {source.first.size_text}"


def _sentence(source: PageSource, text: str) -> str:
    """A sentence of the verdict, long names shortened."""
    for key in source.evaluations:
        if len(key) > LONGEST_NAME:
            text = text.replace(key, shorten(key, 60))
    return text


def _subgroups(found: Evaluation, columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
    for name, part in found.subgroups.items():
        yield {"name": shorten(clean(name), LONGEST_NAME)} | facts(part.as_row, columns)


def _segments(found: Evaluation) -> dict[str, Any] | None:
    """The findings with their intervals as shares of one axis."""
    if found.segments is None:
        return None
    leads = [finding.segment for finding in found.segments.findings]
    widest = max([1.0, *(abs(end) for segment in leads for end in (segment.low, segment.high))])
    rows = []
    for finding in found.segments.findings:
        segment = finding.segment
        place = {key: round(50 + 50 * getattr(segment, key) / widest, 2) for key in ("low", "high", "gap")}
        name = shorten(clean(segment.name), LONGEST_NAME) + clean(segment.about)
        also = [shorten(clean(other), LONGEST_NAME) for other in finding.overlapping]
        p = p_of_draws(segment.pvalue, found.segments.n_resamples)
        rows.append({"name": name, "segment": segment, "place": place, "also": also, "p": p.removeprefix("p ")})
    return {"headline": found.segments.headline, "rows": rows}


def _parts(source: PageSource) -> list[dict[str, Any]]:
    """The headline error as loss + U, lowest loss first; how far each is behind the smallest loss, and the theorem."""
    best, rows = source.verdict.best[:1], []
    pairs = () if source.comparison is None else source.comparison.pairs
    known = {frozenset((pair.first, pair.second)) for pair in pairs if pair.error == source.headline}
    for line in source.board:
        key, order = line["model"].key, None
        if source.comparison is not None and frozenset((key, *best)) in known:
            order = source.comparison.same_order(best[0], key)
        row = line["found"].row(source.headline)
        rows.append(line | {"row": row, "behind": source.verdict.behind.get(key), "order": order})
    return rows


def way_label(error: str, by: str) -> str:
    """What a ranking is called in a list of choices."""
    label = measure(error).label
    return label if by == "value" else f"{by}: {label}"


def _flips(source: PageSource, comparison: Comparison) -> dict[str, Any]:
    """Per error how many pairs change places, and the pairs themselves, ECE's first."""
    number = Counter(flip.error for flip in comparison.flips)
    counts = Counter(r.error for r in comparison.rankings if r.by == "value")
    summary = [(measure(error).label, measure(error).truthful, number[error]) for error, n in counts.items() if n > 1]
    shown = sorted(comparison.flips, key=lambda flip: flip.error not in ECE_NAMES)[:MOST_FLIPS]
    rows = [(flip, measure(flip.error).label, *map(source.model, (flip.first, flip.second))) for flip in shown]
    return {"summary": summary, "rows": rows, "left_out": len(comparison.flips) - len(rows)}


def _dominance(source: PageSource, comparison: Comparison) -> dict[str, Any]:
    return {
        "chain": [source.models[i] for i in comparison.dominance.chain],
        "comparable": f"{comparison.dominance.comparable:.0%}",
        "n_losses": len(source.first.losses),
    }


# -- data of the charts -----------------------------------------------------------------------------------------------


def payload(source: PageSource) -> dict[str, Any]:
    """The data that the scripts of the page read: plain lists of rounded numbers."""
    first = source.first
    return {
        "counts": source.counts,
        "start": source.start,
        "models": [
            {key: value for key, value in asdict(model).items() if key != "key"}
            | {"test": clean(source.verdict.standings[model.key].words)}
            | {"direction": source.evaluations[model.key].direction.word}
            for model in source.models
        ],
        "board": [source.models.index(line["model"]) for line in source.board],
        "headline": source.headline,
        "ece": next((name for name in ECE_NAMES if name in first.error_names), None),
        "ways": {} if source.comparison is None else _ways(source.comparison),
        "parts": {name: _error(source, name) for name in first.error_names if first.rows(name)[0].loss is not None},
        "chain": [] if source.comparison is None else list(source.comparison.dominance.chain),
        "classes": source.classes,
        "scale": SCALE,
        "level": first.level,
        "reliability": _reliabilities(source),
    }


def _ways(comparison: Comparison) -> dict[str, Any]:
    """Every way to rank the models, by an error, its score or its loss: per bin count order, ranks and values."""
    index = {name: i for i, name in enumerate(comparison.names)}
    found: dict[str, Any] = {}
    for ranking in comparison.rankings:
        error, by = ranking.error, ranking.by
        values, _ = comparison.values(error, by)
        way = found.setdefault(
            error if by == "value" else f"{error} {by}",
            {
                "label": way_label(error, by),
                "short": _way_short(comparison, error, by),
                "truthful": ranking.truthful,
                "values": [[rounded(value) for value in row] for row in values.tolist()],
            }
            | {key: [] for key in ("counts", "ranks", "order")},
        )
        way["counts"].append(ranking.n_bins)
        way["ranks"].append(list(ranking.ranks))
        way["order"].append([index[name] for name in ranking.order])
    return found


def _way_short(comparison: Comparison, error: str, by: str) -> str:
    """What a ranking is called in a sentence."""
    if by == "loss":
        title = loss_title(comparison.evaluations[comparison.names[0]])
        return f"the {title} score" if title.endswith("Brier") else f"the {title}"
    if by == "score":
        return "the score"
    return "ECE" if error in ECE_NAMES else measure(error).label


def _error(source: PageSource, name: str) -> dict[str, Any]:
    """The parts of one squared error, per bin count and model."""
    columns = [source.evaluations[model.key].rows(name) for model in source.models]
    found: dict[str, Any] = {"label": measure(name).label, "counts": [row.n_bins for row in columns[0]]}
    for key in ("loss", "U", "U_low", "U_high", "gap", "gap_low", "gap_high"):
        found[key] = [[rounded(getattr(row, key)) for row in rows] for rows in zip(*columns, strict=True)]
    return found


def _reliabilities(source: PageSource) -> dict[str, Any]:
    """Per error the diagrams of all models, columns of whole numbers; of many classes those that came most often."""
    found: dict[str, Any] = {}
    main = main_diagram(source.first)
    for name, first in sorted(
        source.first.reliability.items(), key=lambda item: (item[1] is not main, item[1].table.views)
    ):
        diagrams = [source.evaluations[model.key].reliability[name] for model in source.models]
        came = np.nansum(first.count * np.nan_to_num(first.mean_outcome), axis=1)
        most = max(1, MOST_POINTS // max(1, len(diagrams) * first.count.shape[1]))
        kept = np.sort(np.argsort(-came, kind="stable")[:most]).tolist()
        found[name] = {
            "by_class": first.table.views > 1,
            "axes": first.axes,
            "names": [clean(first.names[j]) for j in kept] if first.names else None,
            "views": kept,
            "start": kept.index(worst) if (worst := worst_view(source.first, first)) in kept else 0,
            "left_out": len(first.count) - len(kept),
            "models": [[_view(diagram, j) for j in kept] for diagram in diagrams],
            "histograms": [None if (bars := d.histogram) is None else np.asarray(bars).tolist() for d in diagrams],
        }
    return found


def _view(diagram: Reliability, j: int) -> list[list[int] | None]:
    """x, y, low, high (or None without bands) and count of the bins that hold something."""
    full = np.flatnonzero(np.nan_to_num(diagram.count[j]) > 0)

    def parts(values: Any, scale: int = SCALE) -> list[int] | None:
        return None if values is None else [round(float(v) * scale) for v in values[j][full]]

    drawn = (diagram.mean_report, diagram.mean_outcome, diagram.low, diagram.high)
    return [*map(parts, drawn), parts(diagram.count, 1)]
