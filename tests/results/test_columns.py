"""A column of results, and a kind of prediction, written in one test each, appear in every output."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from typing import Any

import numpy as np
import pytest

import truecal as tc
from truecal.cli import app
from truecal.render import terminal
from truecal.results.columns import COLUMNS, Column

OUTPUTS = ("repr", "table", "cli", "html", "json", "csv", "latex", "markdown", "report", "tracking", "frame")


def plain(html: str) -> str:
    return re.sub(r"<[^>]*>", " ", html)


def outputs(result: Any, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Every output of a result, as text."""
    from truecal.adapters.tracking import record_of
    from truecal.report import render_report

    both = hasattr(result, "names")
    (terminal.comparison if both else terminal.evaluation)(result)
    found = {
        "repr": repr(result),
        "cli": capsys.readouterr().out,
        "html": plain(result._repr_html_()),
        "json": json.dumps(result.to_dict()),
        "csv": terminal.to_csv(result),
        "latex": result.to_latex(),
        "markdown": result.to_markdown(),
    }
    if "jinja2" in sys.modules or pytest.importorskip("jinja2"):
        page = render_report(result)
        found["report"] = plain(page[: page.index('<script type="application/json"')])
        found["tracking"] = json.dumps(record_of(result).values)
    if both:
        found["frame"] = result.to_pandas().to_csv()
    return found


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.0, 1.0], 300)
    y = (p.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    return y, {"calm": p, "sharp": p**2 / (p**2).sum(axis=1, keepdims=True)}


@pytest.fixture
def column(monkeypatch):
    """A number that nothing else shows, and its text."""
    new = Column("seven_k", "seven thousand", lambda row: 7000.125 + row.model.n_samples)
    monkeypatch.setattr("truecal.results.columns.COLUMNS", [*COLUMNS, new])


def test_a_new_column_is_in_every_output(data, column, capsys):
    y, models = data
    results = [
        tc.evaluate(y, models["calm"], n_resamples=39, errors=["classwise", "confidence_l1"]),
        tc.compare(y, models, n_resamples=39, errors=["classwise", "confidence_l1"]),
    ]
    stream = tc.stream(["classwise", "confidence_l1"], n_bins=5, edges="uniform")
    stream.update(y, models["calm"])
    results.append(stream.result())
    for result in results:
        for name, text in outputs(result, capsys).items():
            assert "7300.125" in text, name
            wanted = "seven_k" if name in ("json", "csv", "tracking", "frame") else "seven thousand"
            assert wanted in text, name


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_no_column_is_lost_where_it_is_shown(data, column, capsys):
    """The numbers of one question are the same in every output."""
    y, models = data
    result = tc.evaluate(y, models["sharp"], n_resamples=39, by=np.arange(300) % 2)
    row = result.as_row
    if not column.applies(result):
        return
    found, value = outputs(result, capsys), column.value(row)
    places = {
        "line": ("repr", "cli", "html"),
        "table": ("report",),
        "wide": ("report",),
        "paper": ("latex", "markdown"),
    }
    for place, names in places.items():
        text = column.cell(row, place)
        for name in names if place in column.shown else ():
            assert text in found[name].replace("$\\le$", "≤").replace("\\", ""), name
    if "data" in column.shown and column.name != "direction":
        assert result.to_dict()[column.name] == value
        written = next(csv.DictReader(io.StringIO(found["csv"])))[column.name]
        assert written == ("" if value is None else str(value))


def test_python_prints_the_table_of_the_command_line(data, tmp_path, monkeypatch, capsys):
    y, models = data
    for name, p in models.items():
        np.savez(tmp_path / f"{name}.npz", probs=p, labels=y)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["truecal", "compare", "calm.npz", "sharp.npz", "--resamples", "39"])
    app.run()
    out = capsys.readouterr().out
    result: Any = tc.compare(y, models, n_resamples=39)
    table = repr(result).split("\n\n")[1]
    assert table in out and table.count("\n") == 2
