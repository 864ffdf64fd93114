"""Segments, thresholds, estimates and repairs on the command line."""

from __future__ import annotations

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
def table(tmp_path):
    rng = np.random.default_rng(0)
    n = 2000
    region, device = rng.choice(["north", "south"], n), rng.choice(["phone", "desk"], n)
    age = rng.normal(45, 12, n).round(1)
    p = rng.beta(0.5, 0.5, n).round(6)
    off = (region == "north") & (device == "phone")
    y = (rng.random(n) < np.where(off, p * 0.6, p)).astype(int)
    rows = zip(y, p, region, age, device, strict=True)
    lines = ["label,prob,region,age,device", *(",".join(map(str, row)) for row in rows)]
    path = tmp_path / "preds.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_segments_are_printed_and_in_the_report(run, table, tmp_path):
    html, out = tmp_path / "report.html", tmp_path / "out.json"
    result = run(
        "evaluate", table, "--segments", "region,age,device", "--html", html, "--json", out, "--resamples", 199
    )
    assert result.exit_code == 0
    assert "region = north & device = phone" in result.stdout and "finding" in result.stdout
    page = html.read_text()
    assert "Where is it off?" in page and "region = north &amp; device = phone" in page
    found = json.loads(out.read_text())["segments"]
    assert found["features"] == ["region", "age", "device"]
    assert any(segment["name"].startswith("age ≤ ") for segment in found["segments"])
    assert run("evaluate", table, "--segments", "region,").exit_code == 2
    assert run("evaluate", table, "--segments", "nope").exit_code == 1


@pytest.mark.slow
def test_threshold(run, table, tmp_path):
    out, plot = tmp_path / "out.json", tmp_path / "risk.png"
    result = run("threshold", table, "--risk", "0.15", "--json", out, "--plot", plot)
    assert result.exit_code == 0 and "Accept rows with confidence at least" in result.stdout
    assert "Going by the confidences alone" in result.stdout and plot.stat().st_size > 1000
    assert json.loads(out.read_text())["coverage"] > 0
    assert run("threshold", table, "--risk", "0.0001").exit_code == 3
    assert run("threshold", table, "--risk", "2").exit_code == 2


def test_estimate(run, table, tmp_path):
    lines = table.read_text().splitlines()
    (tmp_path / "lab.csv").write_text("\n".join(lines[:401]) + "\n")
    new = ["prob", *(line.split(",")[1] for line in lines[401:])]
    (tmp_path / "new.csv").write_text("\n".join(new) + "\n")
    out = tmp_path / "out.json"
    result = run("estimate", tmp_path / "lab.csv", tmp_path / "new.csv", "--cost", "1,5", "--json", out)
    assert result.exit_code == 0 and "random draw" in result.stdout and "expected cost" in result.stdout
    assert "warning" not in result.stdout
    assert json.loads(out.read_text())["n_new"] == 1600
    squared = ["prob", *(str(float(x) ** 3) for x in new[1:])]
    (tmp_path / "other.csv").write_text("\n".join(squared) + "\n")
    warned = run("estimate", tmp_path / "lab.csv", tmp_path / "other.csv")
    assert "warning: the predictions of the two samples differ" in warned.stdout
    assert run("estimate", tmp_path / "lab.csv", tmp_path / "new.csv", "--cost", "a").exit_code == 2


@pytest.mark.slow
def test_monitor_writes_the_map_that_repairs(run, tmp_path):
    rng = np.random.default_rng(1)
    p = rng.beta(0.5, 0.5, 1500).round(6)
    y = (rng.random(1500) < 1 / (1 + (1 / p.clip(1e-6, 1 - 1e-6) - 1) ** 0.5)).astype(int)
    log, fix, out = tmp_path / "log.csv", tmp_path / "map.json", tmp_path / "out.json"
    log.write_text("label,prob\n" + "".join(f"{a},{b}\n" for a, b in zip(y, p, strict=True)))
    result = run("monitor", log, "--state", tmp_path / "state.npz", "--fix", fix, "--json", out)
    assert result.exit_code == 3 and "Apply a temperature of" in result.stdout
    assert json.loads(out.read_text())["advice"]["best"] == "temperature"
    after = tc.load_map(fix).predict_proba(p)
    assert tc.score(y, after) < tc.score(y, p)
    fine = tmp_path / "fine.csv"
    y = (rng.random(1500) < p).astype(int)
    fine.write_text("label,prob\n" + "".join(f"{a},{b}\n" for a, b in zip(y, p, strict=True)))
    quiet = run("monitor", fine, "--state", tmp_path / "other.npz", "--fix", tmp_path / "none.json")
    assert quiet.exit_code == 0 and not (tmp_path / "none.json").exists()
