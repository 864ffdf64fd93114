"""One hostile text as the name of a model, class, group, segment, column and file reaches no output without quoting.

Results, their outputs, columns and commands are listed from the code: a new one that is not tried fails a test.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import pkgutil
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import truecal as tc
from command_line import Run
from truecal.cli import app
from truecal.core.result import PICTURES, Result, clean
from truecal.core.tables import csv_cell, latex_text, markdown_text
from truecal.render.report.content import payload, read
from truecal.render.terminal import to_csv
from truecal.report import render_report
from truecal.results.columns import COLUMNS, Column

mpl.use("Agg")

HOSTILE = "=cmd()<script>x</script>|\\input{y}$z'; touch mark #`touch mark`\x1b[31m\u202e\nlast"
N = 240


# -- what every output must be ----------------------------------------------------------------------------------------


def plain_text(text: str) -> None:
    """Nothing is hidden, and a name stays on its line."""
    assert not {c for c in text if c != "\n" and clean(c) != c}
    assert not re.search(r"(?m)^\s*last", text)


def html(page: str) -> None:
    assert "<script>x" not in page and not {c for c in page if c not in "\n\t" and clean(c) != c}


def markdown(text: str) -> None:
    plain_text(text)
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in text.split("\n")}) == 1
    assert not re.search(r"(?<!\\)<script", text)


def latex(text: str) -> None:
    plain_text(text)
    assert "\\input" not in text and "{y}" not in text.replace("\\{y\\}", "")


def table(text: str) -> None:
    plain_text(text)
    for cell in (cell for row in csv.reader(io.StringIO(text)) for cell in row):
        assert csv_cell(cell) == cell, "a spreadsheet would take it for a formula"


def data(text: str) -> None:
    """Data keep names as they are, in ASCII."""
    assert text.isascii() and "\x1b" not in text
    json.loads(text)


CHECKS: dict[str, Callable[[str], None]] = {
    "__repr__": plain_text,
    "__str__": plain_text,
    "explain": plain_text,
    "_repr_html_": html,
    "to_markdown": markdown,
    "to_latex": latex,
}


def offends(check: Callable[[str], None], text: str) -> bool:
    try:
        check(text)
    except AssertionError:
        return True
    return False


def test_each_check_sees_an_output_that_forgets_to_quote() -> None:
    wrapped = {
        plain_text: f"the model {HOSTILE} is fine",
        html: f"<b>{HOSTILE}</b>",
        markdown: f"| name |\n| --- |\n| {clean(HOSTILE)} |",
        latex: f"{clean(HOSTILE)} & 1",
        table: f"model\n{clean(HOSTILE)}\n",
        data: json.dumps(HOSTILE, ensure_ascii=False),
    }
    assert all(offends(check, text) for check, text in wrapped.items())
    assert not offends(latex, latex_text(HOSTILE))
    assert not offends(markdown, f"| name |\n| --- |\n| {markdown_text(HOSTILE)} |")


# -- results ----------------------------------------------------------------------------------------------------------


@cache
def results() -> dict[str, Any]:
    """A result of every class whose text has names of a user."""
    rng = np.random.default_rng(0)
    p, proba = rng.random(N), rng.dirichlet(np.ones(3), N)
    y = rng.random(N) < p**2
    groups = np.where(rng.random(N) < 0.5, HOSTILE, "other")
    labels = [HOSTILE, "other", "=1+1"]
    named = np.array(labels)[rng.integers(0, 3, N)]
    both = {HOSTILE: p, "other": 1 - p}
    draws: dict[str, Any] = {"n_resamples": 39}
    comparison = tc.compare(y, both, by={HOSTILE: groups}, **draws)
    segments = tc.segments(y, p**3, {HOSTILE: groups}, **draws)
    decisions = tc.decision_curve(y, both, **draws)
    clinical = tc.clinical(y, p, groups=np.where(np.arange(N) % 3, groups, "third"), name=HOSTILE)
    tables = rng.random((N, 3))
    answers = [[HOSTILE, "other", "other", HOSTILE]] * 30
    monitor = tc.monitor()
    stated = tc.language.compare_stated([["50%"] * 4] * 30, answers, reference=[HOSTILE] * 30)
    return {
        "binary": tc.evaluate(
            y, p, by={HOSTILE: groups}, features={HOSTILE: groups}, name=HOSTILE, advise=True, **draws
        ),
        "classes": tc.evaluate(named, proba, labels=labels, features={HOSTILE: groups}, name=HOSTILE, **draws),
        "ordered": tc.evaluate(named, proba, labels=labels, task="ordered", name=HOSTILE, **draws),
        "labels": tc.evaluate(tables > 0.5, tables, labels=labels, name=HOSTILE, **draws),
        "answers": tc.from_samples(answers, reference=[HOSTILE] * 30, name=HOSTILE, **draws),
        "comparison": comparison,
        "leaderboard": tc.analysis.leaderboard({HOSTILE: comparison, "other": comparison}),
        "order": comparison.same_order(*comparison.names),
        "dominance": comparison.dominance,
        "pair": tc.paired_difference(y, p, 1 - p),
        "test": tc.calibration_test(named, proba, labels=labels, **draws),
        "gap": tc.gap(named, proba, labels=labels),
        "segments": segments,
        "segment": segments.segments[0],
        "finding": segments.findings[0],
        "decisions": decisions,
        "clinical": clinical,
        "stated": stated,
        "monitor": monitor.update(y, p**4, time=HOSTILE),
        "threshold": tc.threshold(y, p, risk=0.3),
    }


NO_NAMES = """
    Sampling ConsistencyBands FormDetail Change MeanGap Quantity Estimate Interval IntervalEstimate Evidence NullBand
    PredictionMap Repair Candidate Pit Stated Guard Selection PassRate Decomposition AuditReport Measurement
    Pictured Tabular Recalibrated
"""
"""Classes of results without a text of the user, and abstract ones; a map and a repair check their names."""
OF_LOGS = "Gates GateCheck Questions Centre"
"""Results of logs, which the commands print, and parts of a result that are tried with it."""


def classes(base: type[Any] = Result) -> Iterator[type[Any]]:
    for made in base.__subclasses__():
        yield made
        yield from classes(made)


def untried() -> set[str]:
    """Classes of results in the package that no test here makes."""
    for module in pkgutil.walk_packages(tc.__path__, "truecal."):
        if module.name.split(".")[1] in ("results", "inference", "evidence", "kinds", "auditing", "recalibration"):
            importlib.import_module(module.name)
    known = {*NO_NAMES.split(), *OF_LOGS.split(), *(type(found).__name__ for found in results().values())}
    return {made.__name__ for made in classes() if made.__module__.startswith("truecal.")} - known


@pytest.mark.slow
def test_every_class_of_results_is_tried() -> None:
    assert untried() == set()
    forgotten = type("Forgotten", (Result,), {"__module__": "truecal.results.forgotten"})
    assert untried() == {"Forgotten"}
    del forgotten


@pytest.mark.slow
def test_every_text_of_every_result_is_quoted() -> None:
    seen = set()
    for name, found in results().items():
        for method, check in CHECKS.items():
            if callable(getattr(found, method, None)):
                assert not offends(check, getattr(found, method)()), (name, method)
                seen.add(method)
        data(json.dumps(found.to_dict()))
    assert seen == set(CHECKS)
    texts = {name for made in classes() for name in vars(made) if re.match(r"to_|explain|_repr_|__str__", name)}
    assert texts - set(CHECKS) <= {"to_dict", "to_pandas", "to_html"}, "a new output needs a check"


def strings(value: Any) -> list[str]:
    """Every text in the data of a page."""
    if isinstance(value, (dict, list, tuple)):
        parts = value.values() if isinstance(value, dict) else value
        return [text for part in parts for text in strings(part)]
    return [value] if isinstance(value, str) else []


@pytest.mark.slow
def test_reports_and_tables_of_data_are_quoted() -> None:
    for name in ("binary", "classes", "ordered", "labels", "answers", "comparison"):
        found = results()[name]
        page = render_report(found, title=HOSTILE, intro=HOSTILE)
        assert not offends(html, re.sub(r"<script[^>]*>.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)), (
            name
        )
        assert page.count("<script") == render_report(found).count("<script"), name
        assert not offends(plain_text, "\n".join(strings(payload(read(found, None))))), name
        for details in (False, True):
            table(to_csv(found, details=details))


@pytest.mark.slow
def test_pictures_show_names_as_text() -> None:
    import matplotlib.pyplot as plt

    assert tc.plots  # registers the pictures
    drawn = set()
    for name, found in results().items():
        if type(found) not in PICTURES:
            continue
        axes = np.ravel(found.plot())[0]
        out = io.StringIO()
        axes.figure.savefig(out, format="svg")
        plt.close(axes.figure)
        assert "<script>x" not in out.getvalue(), name
        drawn.add(type(found))
    assert len(drawn) >= 5


@pytest.mark.slow
def test_a_new_column_is_quoted_in_every_output(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = Column("new", "new", lambda row: HOSTILE, shown=frozenset({"line", "table", "wide", "data", "paper"}))
    monkeypatch.setattr("truecal.results.columns.COLUMNS", [*COLUMNS, hostile])
    for name in ("binary", "comparison"):
        found = results()[name]
        for method, check in CHECKS.items():
            if callable(getattr(found, method, None)):
                assert not offends(check, getattr(found, method)()), (name, method)
        table(to_csv(found))
        page = render_report(found)
        html(re.sub(r"<script[^>]*>.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL))


# -- commands ---------------------------------------------------------------------------------------------------------

FILE = HOSTILE.replace("</", "<")  # a file name has no slash


def write_files(folder: Path) -> None:
    """Two models and a log, with hostile names of files, columns, classes and groups."""
    rng = np.random.default_rng(1)
    p, proba = rng.random(N).round(4), rng.dirichlet(np.ones(3), N)
    group = np.where(rng.random(N) < 0.5, HOSTILE, "other")
    for number, u in enumerate((p, (1 - p).round(4))):
        with (folder / f"{number}{FILE}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["label", "prob", HOSTILE])
            writer.writerows(zip((rng.random(N) < p).astype(int), u, group, strict=True))
    with (folder / f"classes{FILE}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = [HOSTILE, "other", "=1+1"]
        writer.writerow(["label", *(f"prob_{name}" for name in names)])
        writer.writerows([names[j], *row] for j, row in zip(rng.integers(0, 3, N), proba.tolist(), strict=True))
    (folder / f"{FILE}.pkl").write_bytes(b"\x80\x04.")


FIRST, SECOND, CLASSES = f"0{FILE}.csv", f"1{FILE}.csv", f"classes{FILE}.csv"
FAST = ("--resamples", "39")
COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "evaluate": [
        (FIRST, "--by", HOSTILE, "--segments", HOSTILE, "--advise", "--details", "-v", *FAST),
        (CLASSES, "--csv", "out.csv", "--json", "out.json", "--html", "out.html", "--plot", "out.svg", *FAST),
        (CLASSES, "--markdown", *FAST),
        (CLASSES, "--latex", *FAST),
        (FIRST, "--by", f"no {HOSTILE}"),
        (FIRST, "--label-column", HOSTILE),
        (f"no{FILE}.csv",),
        (f"{FILE}.pkl",),
        (f"{FIRST}:nothing",),
    ],
    "compare": [(FIRST, SECOND, "--details", "-v", *FAST), (FIRST, CLASSES), (FIRST, SECOND, "--markdown", *FAST)],
    "test": [(CLASSES, *FAST), (FIRST, "--groups", HOSTILE), (FIRST, "--error", HOSTILE)],
    "recalibrate": [(FIRST, SECOND, "--out", f"made{FILE}.csv"), (CLASSES, FIRST, "--out", "x.csv")],
    "threshold": [(FIRST, "--risk", "0.4"), (f"{FILE}.pkl", "--risk", "0.4")],
    "gate": [(FIRST, "--gate", FIRST), (f"{FILE}.pkl",)],
    "estimate": [(FIRST, SECOND)],
    "decide": [(FIRST, SECOND, *FAST), (FIRST, "--event", HOSTILE)],
    "monitor": [(FIRST, "--state", f"state{FILE}.npz"), (FIRST, SECOND, "--state", "state.npz", "--explain")],
    "sql": [("--dialect", "duckdb", "--table", HOSTILE, "--label", HOSTILE, "--columns", HOSTILE, "--id", HOSTILE)],
    "audit": [(HOSTILE,), (f"{HOSTILE}:x",)],
    "demo": [("--out", FIRST)],
}


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == {name for names in app._COMMANDS.values() for name in names}


def suggested(text: str) -> list[str]:
    """The commands that a message suggests."""
    return re.findall(r"(?m)(?:run|with|it|example|as)[:,]? ((?:truecal|python -c|curl|git) .*)$", text)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_lets_a_name_through(
    name: str, tmp_path: Path, truecal: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    for arguments in COMMANDS[name]:
        code, out, err = truecal(name, *arguments)
        assert code in (0, 1, 2, 3, 4), (arguments, err)
        check = markdown if "--markdown" in arguments else latex if "--latex" in arguments else plain_text
        assert not offends(check, out.strip() if name != "sql" else ""), (arguments, out)
        assert not offends(plain_text, err), (arguments, err)
        for line in suggested(err):
            assert not {"touch", "mark"} & set(shlex.split(line)), line
    if (tmp_path / "out.csv").exists():
        table((tmp_path / "out.csv").read_text())
        data((tmp_path / "out.json").read_text())
        html(
            re.sub(r"<script[^>]*>.*?</script>|<style.*?</style>", "", (tmp_path / "out.html").read_text(), flags=re.S)
        )
        assert "<script>x" not in (tmp_path / "out.svg").read_text()
    assert not (tmp_path / "mark").exists()


@pytest.fixture
def truecal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `truecal` with arguments: the exit code, and what it wrote to standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            patch.setattr("sys.argv", ["truecal", *arguments])
            code = app.run()
        out = capsys.readouterr()
        return code, out.out, out.err

    return run
