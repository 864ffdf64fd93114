"""The command decide: its texts, files, pictures and clear errors."""

from __future__ import annotations

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest

import truecal as tc


@pytest.fixture
def run(truecal):
    def call(*arguments):
        code, out, err = truecal(*map(str, arguments))
        return SimpleNamespace(exit_code=code, stdout=out, stderr=err)

    return call


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.beta(1, 3, 600).round(4)
    y = (rng.random(600) < p).astype(int)
    other = np.clip(p + rng.normal(0, 0.2, 600), 0.001, 0.999).round(4)
    for name, u in (("new", p), ("old", other)):
        rows = zip(y, u, [f"h{i % 20}" for i in range(600)], strict=True)
        text = "\n".join(["label,prob,hospital", *(",".join(map(str, row)) for row in rows)])
        (tmp_path / f"{name}.csv").write_text(text + "\n")
    return y, {"new": p, "old": other}, [tmp_path / "new.csv", tmp_path / "old.csv"]


def test_the_command_prints_what_python_prints(run, files, tmp_path):
    y, models, paths = files
    out, table = tmp_path / "out.json", tmp_path / "out.csv"
    result = run("decide", *paths, "--thresholds", "0.1:0.5:5", "--resource", "0.1", "--json", out, "--csv", table)
    assert result.exit_code == 0
    expected = tc.decision_curve(y, models, thresholds=np.linspace(0.1, 0.5, 5), resource=0.1)
    for line in (expected.headline, *expected.sentences):
        assert line in result.stdout
    assert json.loads(out.read_text())["sentences"] == list(expected.sentences)
    with open(table) as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 15 and [row["model"] for row in rows[::5]] == ["act on all", "new", "old"]


@pytest.mark.slow
def test_the_report_has_a_section_and_the_plot_is_written(run, files, tmp_path):
    page, plot = tmp_path / "page.html", tmp_path / "curve.png"
    result = run("decide", *files[2], "--groups", "hospital", "--html", page, "--plot", plot)
    assert result.exit_code == 0 and plot.stat().st_size > 1000
    text = page.read_text()
    assert "Is it worth acting on?" in text and text.count("<svg") > 3 and "act on none" in text
    (tmp_path / "<b>.csv").write_text(files[2][0].read_text())
    assert run("decide", tmp_path / "<b>.csv", "--thresholds", "0.2,0.3", "--html", page).exit_code == 0
    assert "<b>" not in page.read_text().replace("<b>Score", "").split('id="h-decide"')[1].split("</section>")[0]


def test_a_class_by_its_name(run, tmp_path):
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 1, 1], 200).round(4)
    names = np.array(["bird", "cat", "dog"])
    y = names[(p.cumsum(axis=1) < rng.random(200)[:, None]).sum(axis=1).clip(0, 2)]
    lines = ["label,bird,cat,dog", *(f"{one},{','.join(map(str, row))}" for one, row in zip(y, p, strict=True))]
    path = tmp_path / "animals.csv"
    path.write_text("\n".join(lines) + "\n")
    options = ("--normalize", "--thresholds", "0.3,0.5")
    found = run("decide", path, "--class", "cat", *options)
    assert found.exit_code == 0 and f"events {np.mean(y == 'cat'):.1%}" in found.stdout
    assert f"events {np.mean(names[p.argmax(axis=1)] == y):.1%}" in run("decide", path, *options).stdout
    wrong = run("decide", path, "--class", "cow", *options)
    assert wrong.exit_code == 2 and "bird, cat, dog" in wrong.stderr


def test_bad_thresholds_are_one_line(run, files):
    result = run("decide", files[2][0], "--thresholds", "0,0.5")
    assert result.exit_code == 1 and "at 0 everybody is acted on" in result.stderr and result.stderr.count("\n") == 1
    assert run("decide", files[2][0], "--thresholds", "some").exit_code == 2


@pytest.mark.slow
def test_the_clinical_page(run, files, tmp_path):
    page, table = tmp_path / "page.html", tmp_path / "out.csv"
    options = ("--profile", "clinical", "--groups", "hospital", "--thresholds", "0.2,0.4")
    result = run("decide", files[2][0], *options, "--html", page, "--csv", table, "--plot", tmp_path / "risk.png")
    assert result.exit_code == 0 and "O:E ratio" in result.stdout and "h19" in result.stdout
    assert "Predicted risks" in page.read_text() and "restricted cubic spline" in page.read_text()
    with open(table) as lines:
        rows = list(csv.DictReader(lines))
    assert [row["measure"] for row in rows[:2]] == ["O:E ratio", "calibration intercept"] and rows[10]["centre"] == "h0"
    assert run("decide", *files[2], "--profile", "clinical").exit_code == 2
    assert "cannot be used" in run("decide", files[2][0], "--profile", "clinical", "--resource", "0.1").stderr
