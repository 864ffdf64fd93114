"""What a terminal shows: one line a model, three sentences, notes last, within the width and few lines."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from rich.console import Console

import truecal as tc
from truecal.cli import app, common
from truecal.core.words import merged_notes
from truecal.render import terminal as render
from truecal.results.comparison import rank_text


def probabilities(rng, n=400, k=4):
    scores = 1.5 * rng.standard_normal((n, k))
    proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = (proba.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return y, proba


def sharpened(proba, power):
    return proba**power / (proba**power).sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def ten_models():
    y, proba = probabilities(np.random.default_rng(3))
    models = {f"sharp-{power:g}": sharpened(proba, power) for power in np.linspace(1.5, 5, 8)}
    models |= {"true": proba, "flat": np.full_like(proba, 0.25)}
    errors = ["classwise", "confidence", "confidence_l1"]
    result = tc.compare(y, models, n_bins=(5, 20), errors=errors, n_resamples=399)
    return result.with_notes([f"{name}: labels from y.npy" for name in models])


@pytest.fixture(scope="module")
def one_model():
    y, proba = probabilities(np.random.default_rng(4))
    by = np.where(np.arange(len(y)) % 2, "even rows", "odd rows")
    return tc.evaluate(y, sharpened(proba, 3), by=by, name="sharp", n_resamples=199)


@pytest.fixture
def screen(monkeypatch):
    """Show a result as a terminal of this width would, and give its lines."""

    def show(result, width=80, **options):
        text = io.StringIO()
        console = Console(file=text, force_terminal=True, width=width, color_system=None, highlight=False)
        monkeypatch.setattr(render, "_console", lambda: console)
        draw = render.comparison if hasattr(result, "names") else render.evaluation
        draw(result, **options)
        return text.getvalue().splitlines()

    return show


@pytest.mark.slow
def test_ten_models_take_a_line_each_and_the_words_come_after(ten_models, screen):
    lines = screen(ten_models)
    assert len(lines) <= 45
    board = ten_models.leaderboard()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == [rank_text(board[0]), board[0]["model"]])
    assert lines[start - 1 : start + 10] == repr(ten_models).splitlines()[2:13]  # Python prints the same table
    for row, line in zip(board, lines[start:], strict=False):
        rank, model = line.split()[:2]
        assert (rank, model) == (rank_text(row), row["model"])
        assert line.split()[-3:] == [f"{row[name]:.4f}" for name in ("brier", "score", "ece")]
    words = " ".join(" ".join(lines[start + 10 :]).split())
    positions = [words.index(sentence) for sentence in ten_models.verdict.sentences]
    assert len(positions) == 3 and positions == sorted(positions)
    assert words.index("note: ") > positions[-1] and words.count("labels from y.npy") == 1


@pytest.mark.slow
def test_one_model_takes_few_lines_with_its_subgroups(one_model, screen):
    lines = screen(one_model)
    assert len(lines) <= 25
    assert all(any(line.startswith(name) for line in lines) for name in ("sharp", "even rows", "odd rows"))
    assert lines[:7] == repr(one_model).splitlines()[:7]
    row = next(line for line in lines if line.startswith("even rows")).split()
    assert {"over", "no"} <= set(row) and f"{one_model.subgroups['even rows'].score:.4f}" in row
    words = " ".join(" ".join(lines).split())
    assert all(sentence in words for sentence in one_model.verdict.sentences[1:])


@pytest.mark.parametrize("details", [False, True])
@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_nothing_is_cut_off_or_wider_than_the_terminal(ten_models, one_model, screen, width, details):
    for result in (ten_models, one_model):
        lines = screen(result, width, details=details)
        assert max(len(line.rstrip()) for line in lines) <= width
        words = "".join("".join(lines).split())
        assert "…" not in words
        for name in getattr(result, "names", ["sharp"]):
            assert name in words


def test_details_are_loss_and_U_flips_the_theorem_and_dominance(ten_models, one_model, screen):
    words = "\n".join(screen(ten_models, 200, details=True))
    for part in ("n·error = loss + U", "U at 20", "change places", "classwise, score", "theorem", "Dominance of 10"):
        assert part in words and part not in "\n".join(screen(ten_models, 200))
    alone = screen(one_model, 200, details=True)
    rows = [line.split() for line in alone if line.startswith(("classwise ", "confidence_l1 "))]
    assert [row[0] for row in rows] == [r.error for r in one_model.errors if r.error in ("classwise", "confidence_l1")]
    assert any("calibration test of" in line for line in alone)


def test_a_pipe_gets_whole_sentences_and_no_bar(one_model, capsys):
    render.evaluation(one_model)
    lines = capsys.readouterr().out.splitlines()
    assert set(one_model.verdict.sentences[1:]) <= set(lines)
    with common.waiting("work") as progress:
        assert progress is None
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_with_share_and_time_left(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(common, "Console", lambda stderr: Console(file=text, force_terminal=True, width=80))
    with common.waiting("measuring") as progress:
        assert progress is not None
        progress(0.5)
    assert "measuring" in text.getvalue() and "50%" in text.getvalue() and "-:--:--" in text.getvalue()


@pytest.mark.slow
def test_long_work_is_given_a_bar(tmp_path, monkeypatch, capsys):
    """Reading has its own bar where there are several files, and measuring or drawing another."""
    y, proba = probabilities(np.random.default_rng(5), n=60)
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", probs=proba, labels=y)
    bars: list[list[float]] = []

    class Bar:
        def __enter__(self):
            bars.append([])
            return bars[-1].append

        def __exit__(self, *_):
            return None

    for module in (common, app.evaluating, app.deciding):
        monkeypatch.setattr(module, "waiting", lambda text, rows=0: Bar())
    monkeypatch.chdir(tmp_path)
    for command in (["evaluate", "a.npz"], ["compare", "a.npz", "b.npz"], ["test", "a.npz"]):
        bars.clear()
        more = ["--resamples", "39"] if command[0] == "test" else ["--bins", "2,5", "--resamples", "19"]
        monkeypatch.setattr(sys, "argv", ["truecal", *command, *more])
        assert app.run() in (0, common.REJECTED, common.NO_VERDICT)
        reading, work = bars
        assert reading == ([0.5] if command[0] == "compare" else [])
        assert len(work) > 3 and work == sorted(work) and 0 <= work[0] <= work[-1] <= 1
    capsys.readouterr()


def test_notes_that_say_the_same_are_one():
    same = [f"{i}.npz: labels from y.npy" for i in range(14)]
    assert merged_notes([*same, "a sentence: with a colon", "same"]) == [
        "0.npz, 1.npz, 2.npz, 3.npz and 10 more: labels from y.npy",
        "a sentence: with a colon",
        "same",
    ]
