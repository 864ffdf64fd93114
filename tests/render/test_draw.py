"""Pictures draw the numbers of their results, on the Axes they are given, and survive odd names."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from closeness import assert_close
from truecal.inference.monitoring import monitor
from truecal.render.plots import draw as plots
from truecal.results.compare import compare
from truecal.results.evaluate import evaluate
from truecal.results.ranking import ranks

pytestmark = pytest.mark.slow


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def comparison():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 4))
    y = (softmax(z).cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)
    models = {"true": softmax(z), "$hot$": softmax(z / 2), "_cold": softmax(2 * z), "<b>": softmax(3 * z)}
    return compare(y, models, n_bins=(5, 20), errors=["classwise", "confidence", "confidence_l1"], n_resamples=19)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    figure.canvas.draw()  # a bad formula or glyph would raise here, where warnings are errors
    plt.close(figure)


@pytest.mark.slow
def test_reliability_draws_the_table_and_its_bands(comparison, ax):
    found = comparison.evaluations["_cold"]
    assert plots.reliability(found, ax=ax, label="_cold") is ax
    table = found.reliability["confidence"].table
    line = ax.get_lines()[-1]
    np.testing.assert_allclose(line.get_xdata(), table.mean_report[0])
    np.testing.assert_allclose(line.get_ydata(), table.mean_outcome[0])
    band = ax.collections[-1].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(np.nanmax(found.reliability["confidence"].high))
    assert ax.texts[0].get_text() == "15 bins of 20"


def test_reliability_of_one_class_and_without_bands(comparison, ax):
    diagram = comparison.evaluations["true"].reliability["classwise"]
    plots.reliability(diagram, view=2, ax=ax)
    np.testing.assert_allclose(ax.get_lines()[-1].get_ydata(), diagram.table.mean_outcome[2])


def test_reliability_refuses_an_evaluation_without_tables(comparison, ax):
    rng = np.random.default_rng(0)
    found = evaluate(rng.integers(0, 2, 30), rng.random(30), errors=["binary_l1"], n_resamples=9)
    with pytest.raises(ValueError, match="no reliability table"):
        plots.reliability(found, ax=ax)


@pytest.mark.slow
def test_classwise_grid_shows_the_classes_that_came_most(comparison):
    axes = plots.classwise_grid(comparison.evaluations["true"], names=["north", "east", "south", "west"])
    came = comparison.evaluations["true"].reliability["classwise"].table.outcome.sum(axis=1)
    order = np.argsort(-came, kind="stable")
    titles = [a.get_title() for a in axes.flat if a.axison]
    assert titles == [["north", "east", "south", "west"][j] for j in order]
    axes[0, 0].figure.canvas.draw()
    plt.close(axes[0, 0].figure)


def test_classwise_grid_needs_classes(ax):
    rng = np.random.default_rng(0)
    found = evaluate(rng.integers(0, 2, 30), rng.random(30), errors=["binary"], n_resamples=9)
    with pytest.raises(ValueError, match="probabilities of all classes"):
        plots.classwise_grid(found)


def test_error_against_bins_draws_loss_and_U_with_its_interval(comparison, ax):
    plots.error_against_bins(comparison, "classwise", ax=ax)
    rows = comparison.evaluations["true"].rows("classwise")
    assert ax.get_lines()[0].get_ydata() == pytest.approx([300 * row.value for row in rows])
    bars = [segment[:, 1].tolist() for segment in ax.collections[0].get_segments()]
    assert_close(bars, [[row.loss + row.U_low, row.loss + row.U_high] for row in rows], 1)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["5", "20"]
    named = {text.get_text().lstrip("\u200b").replace("\\$", "$"): text for text in ax.texts}
    assert set(named) == set(comparison.names)  # a name with a leading underscore is not lost
    heights = sorted(text.get_position()[1] for text in ax.texts)
    assert np.diff(heights).min() > 0.069 and {t.get_color() for t in ax.texts} == {
        x.get_color() for x in ax.get_lines()
    }


def test_error_against_bins_of_l1_draws_no_interval(comparison, ax):
    plots.error_against_bins(comparison, "confidence_l1", ax=ax)
    assert not ax.collections
    assert ax.get_ylabel() == "ConfECE"


def test_bump_chart_draws_ranks(comparison, ax):
    plots.ranking_bump(comparison, "confidence_l1", ax=ax)
    place = ranks(comparison.values("confidence_l1")[0])
    for i, line in enumerate(ax.get_lines()):
        assert line.get_ydata().tolist() == place[:, i].tolist()
    assert ax.yaxis_inverted()


def test_many_series_stay_distinct():
    styles = {tuple(plots._style(i).values()) for i in range(32)}
    assert len(styles) == 32


def test_a_figure_is_made_when_none_is_given(comparison):
    ax = plots.ranking_bump(comparison, "classwise")
    ax.figure.canvas.draw()
    plt.close(ax.figure)


@pytest.mark.slow
def test_evidence_draws_every_process_and_the_alarm(ax):
    watched = monitor()
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 1500)
    found = watched.update(rng.random(1500) < p - 0.1, p, time="_day $3$")
    plots.evidence(watched, ax=ax)
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert {process.name for process in found.processes} | {"all together", "alarm at 20"} <= set(lines)
    drawn = lines["all together"].get_ydata()
    np.testing.assert_allclose(drawn, np.minimum(watched.history.log_evalues / np.log(10), np.log10(20) + 4))
    np.testing.assert_allclose(lines["alarm at 20"].get_ydata(), np.log10(20))
    assert ax.texts[0].get_text() == rf"row {found.since}, _day \$3\$"


def test_evidence_has_reached_the_alarm_at_its_line(ax):
    watched = monitor(alpha=0.5)
    for _ in range(8):
        found = watched.update([0], [0.8])
    plots.evidence(watched, ax=ax)
    lines = {line.get_label(): line for line in ax.get_lines()}
    (at,) = {float(x) for line in ax.get_lines() if line.get_linestyle() == ":" for x in line.get_xdata()}
    rows, values = (np.asarray(x) for x in lines["all together"].get_data())
    assert found.since is not None and at == rows[np.argmax(values >= np.log10(2))] == found.since + 1


def test_when_the_alarm_came_is_written_beside_the_lines(ax):
    watched = monitor()
    watched.update([0, 1] * 50, [0.9, 0.1] * 50, time="Thursday")
    plots.evidence(watched, ax=ax)
    (words,) = (text for text in ax.texts if text.get_text().endswith(", Thursday"))
    ax.figure.canvas.draw()
    assert words.get_window_extent().y0 >= ax.bbox.y1


def test_evidence_without_bounds_has_a_place(ax):
    watched = monitor()
    watched.update([1, 0, 1], [0.5, 1.0, 0.5])
    plots.evidence(watched, ax=ax)
    assert all(np.isfinite(line.get_ydata()).all() for line in ax.get_lines())


def test_bin_counts_that_lie_close_have_labels_that_do_not_touch(ax):
    y, p = [0, 1, 1, 0] * 50, [0.2, 0.9, 0.6, 0.1] * 50
    found = compare(y, {"a": p, "b": p}, n_bins=(5, 13, 15, 16, 150), errors=["binary"], n_resamples=9)
    plots.error_against_bins(found, "binary", ax=ax)
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert [label.get_text().strip() for label in ax.get_xticklabels()] == ["5", "13", "15", "16", "150"]
    inked = [
        (box.x0, box.x1, box.y0, box.y0 + box.height / (1 + label.get_text().count("\n")))
        for box, label in zip(boxes, ax.get_xticklabels(), strict=True)
    ]
    for i, a in enumerate(inked):
        for b in inked[:i]:
            assert a[0] > b[1] or b[0] > a[1] or a[2] > b[3] or b[2] > a[3]


def test_evidence_marks_where_each_file_begins(ax):
    watched = monitor()
    for day in range(3):
        watched.update([0, 1] * 20, [0.4, 0.6] * 20, time=f"day{day}.csv")
    plots.evidence(watched, ax=ax)
    named = {text.get_text(): text.xy[0] for text in ax.texts if "," not in text.get_text()}
    assert named == {"day0.csv": 0, "day1.csv": 40, "day2.csv": 80}
