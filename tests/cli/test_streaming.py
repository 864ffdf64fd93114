"""The command line on tables larger than its memory budget, on folders and on globs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from closeness import assert_close
from command_line import FAST, Run
from truecal.cli import streaming
from truecal.io.dataset import open_dataset


@pytest.mark.slow
def test_a_budget_decides(folder: Path, truecal: Run):
    code, whole, _ = truecal("evaluate", "sharp.parquet", *FAST)
    assert code == 0 and "read in batches" not in whole
    code, out, _ = truecal("evaluate", "sharp.parquet", "--memory", "1KB", "--json", "out.json", "-v")
    assert code == 0 and "read in batches: 1 file, two passes" in out and "need the rows" in out
    enough = re.search(r"with --memory (\d+MB) it is read as a whole", out)
    assert enough and "read in batches" not in truecal("evaluate", "sharp.parquet", "--memory", enough[1], *FAST)[1]
    found = json.loads((folder / "out.json").read_text())
    assert found["test"] is None and found["n_samples"] == 300 and found["gaps"]["confidence"]["high"] > 0
    code, out, _ = truecal("evaluate", "sharp.parquet", "--one-pass", "--bins", "4")
    assert code == 0 and "one pass" in out and "as a whole" not in out
    pd.read_parquet("sharp.parquet").to_csv("sharp.csv", index=False)
    code, _, err = truecal("evaluate", "sharp.csv", "--memory", "1KB", *FAST)
    assert code == 2 and "--memory" in err and "sharp.csv" in err and "parquet" in err
    assert truecal("evaluate", "sharp.csv", "--memory", "1GB", *FAST)[0] == 0


def test_folders_and_globs(folder: Path, truecal: Run, monkeypatch: pytest.MonkeyPatch):
    whole = pd.read_parquet("sharp.parquet").assign(site=[f"site {i % 3}" for i in range(300)])
    whole.to_parquet("sharp.parquet")
    options = (*FAST, "--errors", "classwise,confidence", "--weights", "prob_0", "--by", "site")
    assert truecal("evaluate", "sharp.parquet", *options, "--json", "one.json")[0] == 0
    (folder / "parts.parquet").mkdir()
    for i, rows in enumerate((whole[:130], whole[130:])):
        rows.to_parquet(f"parts.parquet/{i}.parquet")
    code, _, err = truecal("evaluate", "parts.parquet", *options, "--json", "parts.json")
    one, parts = (json.loads((folder / name).read_text()) for name in ("one.json", "parts.json"))
    for key in ("errors", "losses", "test", "subgroups"):  # what fits is read as a whole
        assert_close(parts[key], one[key], 1)
    small = ("--memory", "1KB")
    for name in ("parts.parquet", "parts.parquet/*.parquet"):
        code, out, _ = truecal("evaluate", name, "--bins", "5", *small)
        assert code == 0 and "300 samples, 4 classes" in out and "read in batches" in out
    code, out, _ = truecal("compare", "parts.parquet", "parts.parquet", "--bins", "5", "--csv", "rows.csv", *small)
    assert code == 0 and "2 models, 300 samples" in out and (folder / "rows.csv").read_text().count("\n") == 3
    (folder / "parts.parquet").rename("parts")
    code, _, err = truecal("compare", "parts", "sharp.parquet", *small)
    assert code == 1 and "each file of a folder or pattern is compared as a model" in err and "FOLDER.parquet" in err
    (folder / "parts").rename("parts.parquet")
    assert truecal("test", "parts.parquet", "--resamples", "19")[0] in (0, 3)
    monkeypatch.setattr("truecal.cli.streaming.available_memory", lambda: 1000)
    code, _, err = truecal("test", "parts.parquet")
    assert code == 1 and "expected rows that fit in memory, got 300" in err


@pytest.mark.slow
def test_what_needs_all_rows_is_refused(folder: Path, truecal: Run):
    for options, words in (
        (("--memory", "1KB", "--labels", "y.npy"), "--labels cannot be used, because the table is read in batches"),
        (("--memory", "1KB", "--groups", "label"), "with enough --memory it is read as a whole"),
        (("--memory", "1KB", "--weights", "y.npy"), "--weights FILE cannot be used"),
        (("--memory", "much"), "expected a size such as 500MB or 2GB, got 'much'"),
    ):
        code, _, err = truecal("evaluate", "sharp.parquet", *options)
        assert code in (1, 2) and words in err
    code, _, err = truecal("evaluate", "good.npz", "--one-pass")
    assert code == 2 and "takes parquet and arrow tables" in err


@pytest.mark.heavy
def test_a_cluster_counts(folder: Path, truecal: Run, monkeypatch: pytest.MonkeyPatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(streaming, "_worth_workers", lambda *_: True)
    code, _, _ = truecal("evaluate", "sharp.parquet", "--one-pass", "--bins", "4", "--json", "one.json")
    options = ("--one-pass", "--bins", "4", "--json", "many.json")
    code, out, err = truecal("evaluate", "sharp.parquet", "--workers", "1", *options)
    assert code == 0 and "counted in 1 partition by a Dask cluster, one pass" in out, err
    one, many = (json.loads((folder / name).read_text()) for name in ("one.json", "many.json"))
    assert_close(many["errors"], one["errors"], 1)
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as local:
        code, out, _ = truecal("compare", "sharp.parquet", "sharp.parquet", "--dask", local.scheduler_address)
        assert code == 0 and "2 models, 300 samples" in out and "by a Dask cluster, two passes" in out


@pytest.mark.slow
def test_workers_are_started_only_where_they_are_faster(folder: Path, truecal: Run, monkeypatch: pytest.MonkeyPatch):
    code, out, err = truecal("evaluate", "sharp.parquet", "--workers", "64", "--one-pass", "--bins", "4", "-v")
    assert code == 0 and "counted by threads of this process" in " ".join(out.split()), err
    table = open_dataset(folder / "sharp.parquet")
    assert not streaming._worth_workers([table], 64)
    monkeypatch.setattr(streaming, "FEWEST_FOR_WORKERS", 1)
    assert streaming._worth_workers([table], 64) and not streaming._worth_workers([table], 1)


@pytest.mark.slow
def test_clusters_that_cannot_be(folder: Path, truecal: Run):
    for file, options, words in (
        ("good.npz", ("--workers", "2"), "takes parquet and arrow tables"),
        ("sharp.parquet", ("--workers", "2", "--dask", "tcp://127.0.0.1:1"), "cannot be combined with --dask"),
        ("sharp.parquet", ("--workers", "0"), "--workers"),
        ("sharp.parquet", ("--dask", "nowhere://x"), "unknown address scheme"),
        ("sharp.parquet", ("--workers", "1", "--by", "label"), "without --workers it is read as a whole"),
    ):
        code, _, err = truecal("evaluate", file, *options)
        assert code in (1, 2) and words in err and "Traceback" not in err
