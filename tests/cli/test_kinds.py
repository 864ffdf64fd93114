"""The command line with --task: ordered classes and several labels per row."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import source_worlds
import truecal as tc
from closeness import assert_close
from truecal.cli.app import app


def run(*arguments: object):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_ordered_classes(tmp_path, rng):
    p = rng.dirichlet([1.0, 2.0, 1.0], 200)
    y = (p.cumsum(axis=1) < rng.random((200, 1))).sum(axis=1).clip(0, 2)
    np.savez(tmp_path / "grades.npz", y=y, p=p)
    found = run("evaluate", tmp_path / "grades.npz", "--task", "ordered", "--json", tmp_path / "out.json")
    assert found.exit_code == 0 and "RPS" in found.stdout and "class 0 or below" in found.stdout
    assert_close(json.loads((tmp_path / "out.json").read_text())["score"], tc.score(y, p, error="ordinal"))
    assert run("test", tmp_path / "grades.npz", "--error", "ordinal", "--resamples", 99).exit_code in (0, 3, 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ordered", "multilabel", "numbers", "survival"])
def test_the_test_of_a_kind_is_that_of_evaluate(kind, tmp_path):
    (file, _), options = source_worlds.write_files(kind, tmp_path)
    one, other = tmp_path / "test.json", tmp_path / "evaluate.json"
    code = run("test", file, *options, "--json", one).exit_code
    assert run("evaluate", file, *options, "--json", other).exit_code == 0
    tested, whole = (json.loads(path.read_text()) for path in (one, other))
    assert_close({name: tested[name] for name in whole["test"]}, whole["test"])
    assert whole["calibrated"].startswith(tested["verdict"])
    assert code == {"yes": 0, "no": 3, "undecided": 4}[tested["verdict"]]
    tolerated = run("test", file, *options, "--max-gap", 90)
    assert tolerated.exit_code == 0 and "is at most 90 points" in tolerated.stdout
    refused = run("test", file, *options, "--error", "classwise")
    assert refused.exit_code == 2 and "cannot be used with --task" in refused.stderr.replace("\n", " ")


def test_too_few_rows_of_a_kind_are_an_error(tmp_path):
    np.savez(tmp_path / "two.npz", y=np.eye(2, dtype=int), p=np.full((2, 2), 0.4))
    found = run("test", tmp_path / "two.npz", "--task", "multilabel")
    assert found.exit_code != 0 and "2 rows are too few to test" in str(found.exception or "") + found.output


@pytest.mark.slow
def test_several_labels_as_tables_and_as_columns(tmp_path, rng):
    p = rng.uniform(0.05, 0.95, (150, 2))
    y = (rng.random((150, 2)) < p).astype(int)
    value = tc.score(y, p, error="labelwise")
    np.savez(tmp_path / "tags.npz", y=y, logits=np.log(p / (1 - p)))
    np.savez(tmp_path / "other.npz", y=y, logits=np.zeros((150, 2)))
    lines = ["y_a,y_b,p_a,p_b", *(f"{a[0]},{a[1]},{b[0]!r},{b[1]!r}" for a, b in zip(y, p.tolist(), strict=True))]
    (tmp_path / "tags.csv").write_text("\n".join(lines))
    out = tmp_path / "out.json"
    columns = ("--columns", "p_a,p_b", "--label-column", "y_a,y_b")
    for arguments in (("tags.npz", "--logits"), ("tags.csv", *columns)):
        file, *more = arguments
        found = run("evaluate", tmp_path / file, "--task", "multilabel", *more, "--json", out)
        assert found.exit_code == 0, found.stderr
        assert json.loads(out.read_text())["score"] == pytest.approx(value)
    assert "y_a" in found.stdout and "2 labels" in found.stdout
    refused = run("evaluate", tmp_path / "tags.npz", "--task", "multilabel", "--weights", "w")
    assert refused.exit_code == 2 and "cannot be used with --task multilabel" in refused.stderr.replace("\n", " ")
    both = run("compare", tmp_path / "tags.npz", tmp_path / "other.npz", "--task", "multilabel", "--logits")
    assert both.exit_code == 0 and "tags predicts best" in both.stdout.replace("\n", " ")


def test_tables_that_are_not_there_are_named(tmp_path):
    np.savez(tmp_path / "tags.npz", p=np.full((3, 2), 0.5))
    found = run("evaluate", tmp_path / "tags.npz", "--task", "multilabel")
    assert found.exit_code != 0 and "--label-column" in str(found.exception or "") + found.output


@pytest.mark.slow
def test_quantiles_and_members_of_a_number(tmp_path, rng):
    mean = rng.standard_normal(120)
    y, levels = mean + rng.standard_normal(120), np.array([0.25, 0.5, 0.75])
    quantiles = mean[:, None] + np.array([-0.6745, 0.0, 0.6745])
    np.savez(tmp_path / "rain.npz", y=y, quantiles=quantiles)
    np.savez(tmp_path / "members.npz", y=y, members=quantiles)
    out, at = tmp_path / "out.json", np.linspace(-3, 3, 13)
    common = ("--task", "distribution", "--thresholds=-3:3:13", "--json", out)
    found = run("evaluate", tmp_path / "rain.npz", *common, "--levels", "0.25,0.5,0.75")
    assert found.exit_code == 0 and "CRPS" in found.stdout, found.output
    forecast = tc.forecasts.quantiles(quantiles, levels)
    score = tc.distribution_error(y, forecast, thresholds=at, scale="score")
    assert json.loads(out.read_text())["score"] == pytest.approx(score)
    untold = run("evaluate", tmp_path / "rain.npz", *common)
    assert untold.exit_code != 0 and "levels of 'quantiles' are not in the file" in str(untold.exception)
    assert run("evaluate", tmp_path / "members.npz", *common).exit_code == 0  # members of an ensemble
    members = tc.distribution_error(y, tc.forecasts.ensemble(quantiles), thresholds=at, scale="score")
    assert json.loads(out.read_text())["score"] == pytest.approx(members)
    refused = run("evaluate", tmp_path / "rain.npz", "--task", "distribution")
    assert refused.exit_code != 0 and "--thresholds" in refused.output
