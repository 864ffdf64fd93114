"""A property written in this file alone, neighbouring classes, works everywhere: no code asks which property it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pytest

import reference as ref
import truecal as tc
from closeness import assert_close
from truecal.baselines import ERRORS
from truecal.core.properties import Classwise, OfDistributions
from truecal.core.sample import Sample, unit_weights
from truecal.kinds import KINDS
from truecal.kinds.classes import ClassesKind
from truecal.kinds.named_errors import COMPOSED
from truecal.render import terminal


@final
@dataclass(frozen=True)
class Neighbours(OfDistributions):
    """k − 1 views of k classes: the probability of class j or j + 1, against whether one of the two came."""

    kind = "neighbours"

    def views(self, classes: int) -> int:
        return classes - 1

    def score_unit(self, views: int) -> float:
        return float(views)

    def sample(self, y: Any, reports: Any, weights: Any = None) -> Sample:
        either = (reports[:, :-1] + reports[:, 1:]).clip(0.0, 1.0)
        came = np.asarray(self.drawn(y, reports.shape[1])) if y.ndim == 1 else y[:, :-1] + y[:, 1:]
        about: dict[str, Any] = {"distributions": reports, "labels": y} | unit_weights(weights)
        return Sample(self.kind, either, values=came.astype(np.float64), **about)

    def drawn(self, labels: Any, classes: int) -> Any:
        above = labels[..., None] - np.arange(classes - 1)
        return (above == 0) | (above == 1)


@pytest.fixture(autouse=True)
def error(monkeypatch):
    error = tc.CalibrationError(Neighbours(), tc.Quantile())
    for names in (COMPOSED, ERRORS):
        monkeypatch.setitem(names, "neighbours", error)
    monkeypatch.setattr(ClassesKind, "properties", (*ClassesKind.properties, Neighbours))
    return error


@pytest.fixture
def world(rng):
    p = rng.dirichlet([1.0, 2.0, 1.0, 0.5], 2000)
    y = np.array([rng.choice(4, p=row) for row in p])
    sharp = p**2
    return y, p, sharp / sharp.sum(axis=1, keepdims=True)


def by_hand(y, p, bins):
    """The mean over views of the squared error of quantile bins, by loops over one view at a time."""
    found = []
    for j in range(p.shape[1] - 1):
        one = tc.CalibrationError(tc.Binary(), tc.Quantile(bins))
        found.append(one(((y == j) | (y == j + 1)).astype(int), (p[:, j] + p[:, j + 1]).clip(0, 1)))
    return np.mean(found)


def test_its_error_is_the_mean_over_its_views(world, error):
    y, p, _ = world
    assert_close(error.with_bins(12)(y, p), by_hand(y, p, 12))
    weights = np.linspace(0.5, 2, len(y))
    assert error(y, p, sample_weight=weights) > 0 and error.truthful


def test_the_score_is_the_squared_loss_plus_the_squared_gap(world):
    y, p, _ = (each[:60] for each in world)
    came = (y[:, None] == np.arange(3)) | (y[:, None] == np.arange(3) + 1)
    loss = np.square(p[:, :-1] + p[:, 1:] - came).sum(axis=1).mean()
    reports = p[:, :-1] + p[:, 1:]
    added = sum(ref.gap_over_cuts(reports[:, j], reports[:, j] - came[:, j]) for j in range(reports.shape[1]))
    parts: Any = tc.decompose(y, p, error="neighbours")
    assert_close(parts.score, loss + added)
    assert_close(tc.score(y, p, error="neighbours"), parts.score)


def test_gap_interval_and_test_tell_the_calibrated_from_the_sharp(world):
    y, p, sharp = world
    gap = tc.gap(y, sharp, error="neighbours")
    assert gap.low > 1 and gap.low < gap.points < gap.high
    assert tc.gap(y, p, error="neighbours").low < 1
    assert tc.calibration_test(y, sharp, error="neighbours", n_resamples=99).pvalue == pytest.approx(0.01)
    assert tc.calibration_test(y, p, error="neighbours", n_resamples=99).pvalue > 0.02
    assert tc.paired_difference(y, p, sharp, error="neighbours").loss.high < 0


@pytest.mark.slow
def test_evaluate_measures_it_beside_the_others(world):
    y, p, sharp = world
    found = tc.evaluate(y, sharp, errors=["classwise", "neighbours"], n_resamples=99)
    assert_close(found.gaps["neighbours"].points, tc.gap(y, sharp, error="neighbours").points)
    row = next(row for row in found.rows("neighbours") if row.headline)
    assert_close(row.score, tc.score(y, sharp, error="neighbours"))
    assert found.reliability["neighbours"].table.views == 3
    both: Any = tc.compare(y, {"p": p, "sharp": sharp}, errors=["neighbours"], n_resamples=99)
    assert both.evaluations["p"].rows("neighbours")[0].score < both.evaluations["sharp"].rows("neighbours")[0].score


def outputs(found):
    from truecal.render.terminal import to_csv
    from truecal.report import render_report

    texts = {"repr": repr(found), "html": found._repr_html_(), "json": str(found.to_dict()), "csv": to_csv(found)}
    return texts | {"latex": found.to_latex(), "report": render_report(found)}


def test_the_report_explains_it(world):
    pytest.importorskip("jinja2")
    y, p, _ = world
    page = outputs(tc.evaluate(y[:300], p[:300], errors=["neighbours"], n_resamples=39))["report"]
    assert "neighbours, quantile bins" in page and "<mtext>u − φ(y)</mtext>" in page


@final
class NeighboursKind(ClassesKind):
    """A column per class, of which neighbours are checked."""

    name = task = "neighbours"
    properties: tuple[Any, ...] = (Neighbours,)
    stream_errors: tuple[str, ...] = ("neighbours",)
    usual_ece = None
    columns = "neighbourhoods"

    def claims(self, given):
        return given.task == self.task

    def says_text(self, predicted: float, observed: float, scale: Any = None) -> str:
        return f"expects its neighbour {predicted:.1%}, meets it {observed:.1%}"

    def rates_text(self, predicted: float, observed: float, scale: Any = None) -> str:
        return f"On average it expects its neighbour {predicted:.1%} of the time and meets it {observed:.1%}"


def test_a_kind_written_here_is_in_every_output(world, monkeypatch, capsys):
    pytest.importorskip("jinja2")
    monkeypatch.setitem(KINDS, "neighbours", NeighboursKind())
    monkeypatch.setattr(ClassesKind, "properties", (Classwise,))
    y, p, sharp = (rows[:300] for rows in world)
    found: Any = tc.evaluate(y, sharp, task="neighbours", n_resamples=39)
    both: Any = tc.compare(y, {"p": p, "sharp": sharp}, task="neighbours", n_resamples=39)
    stream = tc.stream("neighbours", n_bins=5, edges="uniform")
    stream.update(y, sharp)
    for one in (found, stream.result()):
        assert one.kind == "neighbours" and one.headline == "neighbours"
        for name, text in outputs(one).items():
            for word in {"json": ["'neighbours'"], "csv": ["score"], "latex": ["gap"]}.get(
                name, ["4 neighbourhoods", "expects its neighbour 71.8%", "gap"]
            ):
                assert word in text, (name, word)
        terminal.evaluation(one)
        assert "expects its neighbour 71.8%" in capsys.readouterr().out
    for name, text in outputs(both).items():
        assert "sharp" in text, name


def test_a_stream_gives_the_same_numbers(world):
    y, p, _ = world
    stream = tc.stream("neighbours", n_bins=10, edges="uniform")
    for rows in np.split(np.arange(len(y)), 4):
        stream.update(y[rows], p[rows])
    uniform = tc.CalibrationError(Neighbours(), tc.EqualWidth(10))
    row = stream.result().rows("neighbours")[0]
    assert_close(row.value, uniform(y, p))
    assert_close(row.score, uniform(y, p, scale="score"))
