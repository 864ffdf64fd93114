"""The page of the audit is what its results say, of the metrics that are listed, and their scripts hold."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import truecal as tc

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # benchmarks are no part of the package
page: Any = importlib.import_module("benchmarks.audit.page")
metrics: Any = importlib.import_module("benchmarks.audit.metrics")
scripts: Any = importlib.import_module("benchmarks.audit.scripts")

FOUND = page.stored()
LISTED = (*metrics.PEERS, *metrics.ours())
OURS = {row["name"]: row for row in FOUND["truecal"]["metrics"]}
NO_VERDICT = {"cox_slope"}
RUN_HERE = ("truecal", "scikit-learn")
"""Libraries whose scripts are run once more: they are installed wherever tests are."""


def test_the_page_is_what_the_results_say():
    assert (page.AUDIT).read_text("utf-8") == page.audit_page(FOUND)
    assert page.PROOFS.read_text("utf-8") == page.proofs_page(FOUND)


def test_the_page_is_short_and_the_proofs_are_elsewhere():
    written = (page.AUDIT).read_text("utf-8")
    assert len(written.splitlines()) < 200 and "benchmarks/audit/PROOFS.md" in written
    assert written.count("### pool: ") == 1


def test_the_column_of_the_measures_is_what_the_results_say():
    written = (ROOT / "docs" / "measures.md").read_text("utf-8")
    assert page.with_verdicts(written, FOUND["truecal"]) == written
    assert re.search(r"\| 0\.0\d+ \(300\) \|", written) and "| certified |" in written
    assert "| not shown | not shown |" in written


@pytest.mark.parametrize("library", page.LIBRARIES)
def test_every_metric_listed_was_audited_as_it_is_listed(library):
    listed = [(row.name, row.what, row.code, row.bug) for row in LISTED if row.library == library]
    assert [(row["name"], row["what"], row["code"], row["bug"]) for row in FOUND[library]["metrics"]] == listed


@pytest.mark.parametrize("name", tc.ERRORS)
def test_the_verdict_agrees_with_what_is_said_of_a_measure(name):
    if name in NO_VERDICT:
        assert "no finite value for any case" in OURS[name]["problem"]
        return
    assert (OURS[name]["audit"]["verdict"] == "gamed") == (not tc.ERRORS[name].truthful)
    assert ("proof" if tc.ERRORS[name].truthful else "problem") not in OURS[name]


def test_the_score_and_proper_losses_are_not_convicted():
    spared = {(name, row["name"]) for name, result in FOUND.items() for row in result["metrics"] if _spared(row)}
    yardsticks = {(row.library, row.name) for row in LISTED if "yardstick" in row.what}
    assert yardsticks | {("truecal", "score")} <= spared


def _spared(row):
    return "audit" in row and row["audit"]["verdict"] != "gamed"


PROVED = [(name, row) for name, result in FOUND.items() for row in result["metrics"] if "script" in row]


@pytest.mark.parametrize(("library", "row"), PROVED, ids=[f"{name}-{row['name']}" for name, row in PROVED])
def test_a_proof_gains_and_its_script_is_whole(library, row):
    proof = row["audit"]["proof"]
    assert proof["expected_truth"] - proof["expected_lie"] == pytest.approx(proof["gain"], rel=1e-9)
    assert proof["gain"] > 9 * proof["bound"] > 0
    assert row["code"] in row["script"]
    _, truth, _, lie = row["output"].split()
    assert float(truth) - float(lie) == pytest.approx(proof["gain"], rel=1e-4)


TOO_SLOW = {("torch-uncertainty", "SmoothCalibrationError")}
"""Some calls take ten seconds: the time limit leaves no draws at 300 rows."""


@pytest.mark.parametrize(("library", "row"), PROVED, ids=[f"{name}-{row['name']}" for name, row in PROVED])
def test_every_conviction_has_truth_lie_and_gain_at_300_rows(library, row):
    lasting = row["audit"]["lasting"]
    if lasting is None:
        assert (library, row["name"]) in TOO_SLOW
        assert any("no lie was tried at 300 rows" in note for note in row["audit"]["notes"])
        return
    assert lasting["draws"] >= 100
    assert lasting["expected_truth"] - lasting["expected_lie"] == pytest.approx(lasting["gain"], rel=1e-6, abs=1e-9)
    _, truth, _, lie = row["lasting_output"].split()
    both = [lasting["expected_truth"], lasting["expected_lie"]]
    assert [float(truth), float(lie)] == pytest.approx(both, rel=1e-5, abs=1e-6)


def test_noise_has_no_verdict_and_a_bug_is_called_one():
    rows = {(name, row["name"]): row for name, result in FOUND.items() for row in result["metrics"]}
    assert rows["relplot", "metrics.laplace_calibration_approx"]["audit"]["verdict"] == "no verdict"
    assert rows["netcal", "MMCE(), of one probability"]["bug"] and not rows["netcal", "MMCE(), of matrices"]["bug"]
    written = page.PROOFS.read_text("utf-8")
    assert "**a bug of this function**: of one probability per row" in written
    assert "no verdict | | | | not deterministic" in written.replace("  ", " ")


def test_proofs_are_about_worlds_that_have_something_to_predict():
    for name, row in PROVED:
        if not row["bug"]:
            assert any(0 < value < 1 for chances in row["audit"]["proof"]["world"] for value in chances), (name, row)


@pytest.mark.parametrize("library", RUN_HERE)
def test_the_scripts_print_what_the_page_says(library):
    pytest.importorskip({"scikit-learn": "sklearn"}.get(library, library))
    installed = tc.__version__ if library == "truecal" else importlib.metadata.version(library)
    if installed != FOUND[library]["version"]:
        pytest.skip(f"the page is about {library} {FOUND[library]['version']}")
    for row in FOUND[library]["metrics"]:
        if "script" in row:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(row["script"], {})
            words, said = printed.getvalue().split(), row["output"].split()
            assert [float(w) for w in words[1::2]] == pytest.approx([float(w) for w in said[1::2]], rel=1e-6, abs=1e-12)


def test_failed_checks_are_shown_by_a_script():
    for result in FOUND.values():
        for row in result["metrics"]:
            names = [check["name"] for check in page.failed(row["audit"])] if "audit" in row else []
            assert bool(names) == ("checks_script" in row)
            assert all(f"{name}:" in row["checks_output"] for name in names)


def test_one_bin_tells_an_edge_that_is_counted_apart():
    """The sample of the check: |mean − frequency| with both ends in the bin, something else without them."""
    binary = next(row for row in metrics.PEERS if row.one_bin == "positive" and row.binary == "column")
    top = next(row for row in metrics.PEERS if row.one_bin == "top")
    for row in (binary, top):
        y, p, expected = scripts.one_bin_check(row)
        prediction, came = (p, y) if p.ndim == 1 else (p.max(axis=1), p.argmax(axis=1) == y)
        inside = prediction < 1
        apart = abs((prediction - came)[inside].sum()) + abs((prediction - came)[~inside].sum())
        assert expected == pytest.approx(abs((prediction - came).mean())) and apart / len(y) > expected + 0.01
