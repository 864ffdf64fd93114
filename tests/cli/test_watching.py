"""`truecal monitor`: files counted once and in order, a state between runs, and exit codes for cron."""

from __future__ import annotations

import gzip
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kill_monitor
import truecal as tc
from command_line import Run
from truecal.cli import watching
from truecal.io.state_files import read_state, write_state

STATE = ("--state", "state.npz")


def write(name: str, n: int, rng: np.random.Generator, slope: float = 1.0) -> pd.DataFrame:
    """Labelled predictions of one probability a row, logits `slope` times too large."""
    z = rng.normal(0, 1.5, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    frame = pd.DataFrame({"label": y, "prob": 1 / (1 + np.exp(-slope * z))})
    frame.to_csv(name, index=False)
    return frame


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_week_of_files(truecal: Run, rng: np.random.Generator) -> None:
    days = [write(f"day{i}.csv", 300, rng, slope) for i, slope in enumerate((1, 1, 2.5))]
    code, out, _ = truecal("monitor", "day0.csv", "day1.csv", *STATE)
    assert code == 0 and "Monitor, 600 rows: no alarm" in out and "day1.csv: 300 new rows" in out
    code, out, _ = truecal("monitor", ".", *STATE, "--json", "now.json")  # the folder holds the state as well
    assert code == 3 and "day0.csv and day1.csv: 0 new rows, 300 counted before" in out and "over-confident" in out
    said = json.loads(Path("now.json").read_text())
    monitor = tc.monitor()
    for day in days:
        expected = monitor.update(day["label"], day["prob"])
    assert said["n_samples"] == 900 and said["since"] == expected.since and said["since_time"] == "day2.csv"
    assert said["evalue"] == pytest.approx(expected.evalue, rel=1e-9)
    assert said["new"] == 300  # of this run
    assert truecal("monitor", "day0.csv", *STATE, "--json", "now.json")[0] == 3  # an alarm stays
    assert json.loads(Path("now.json").read_text())["new"] == 0


def test_rows_of_all_files_are_said_together(truecal: Run, rng: np.random.Generator) -> None:
    for i in range(3):
        write(f"day{i}.csv", 20, rng)
    out = truecal("monitor", ".", *STATE, "--json", "now.json")[1]
    assert "60 new rows in 3 files" in out and json.loads(Path("now.json").read_text())["new"] == 60


def test_a_day_without_rows(truecal: Run, rng: np.random.Generator) -> None:
    """It is passed over; but a file whose rows have been counted must still have them."""
    Path("monday.csv").write_text("label,prob\n")
    code, _, err = truecal("monitor", "monday.csv", "--state", "s.npz")
    assert code == 1 and "monday.csv: no rows; a new state needs at least one" in err
    assert not Path("s.npz").exists()
    write("tuesday.csv", 100, rng)
    code, out, _ = truecal("monitor", "monday.csv", "tuesday.csv", "--state", "s.npz")
    assert code == 0 and "monday.csv: no rows" in out and "tuesday.csv: 100 new rows" in out
    Path("tuesday.csv").write_text("label,prob\n")
    code, _, err = truecal("monitor", "tuesday.csv", "--state", "s.npz")
    assert code == 1 and "its first 100 rows were counted before and have changed" in err
    assert truecal("monitor", "tuesday.csv", "--state", "s.npz", "--replaced")[0] == 0


@pytest.mark.slow
def test_a_file_that_grows_and_one_that_changes(truecal: Run, rng: np.random.Generator) -> None:
    frame = write("log.csv", 50, rng)
    frame[:30].to_csv("log.csv", index=False)
    truecal("monitor", "log.csv", *STATE)
    frame.to_csv("log.csv", index=False)
    code, out, _ = truecal("monitor", "log.csv", *STATE)
    assert code == 0 and "Monitor, 50 rows" in out and "log.csv: 20 new rows, 30 counted before" in out
    before = Path("state.npz").read_bytes()
    write("log.csv", 50, rng)
    code, _, err = truecal("monitor", "log.csv", *STATE)
    assert code == 1 and "its first 50 rows were counted before and have changed" in err
    frame[:10].to_csv("log.csv", index=False)
    assert truecal("monitor", "log.csv", *STATE)[0] == 1
    assert Path("state.npz").read_bytes() == before
    code, out, _ = truecal("monitor", "log.csv", *STATE, "--replaced")
    assert code == 0 and "Monitor, 60 rows" in out and "log.csv: 10 new rows" in out


def test_nothing_is_kept_of_a_run_that_fails(truecal: Run, rng: np.random.Generator) -> None:
    write("good.csv", 20, rng)
    Path("bad.csv").write_text("label,prob\n1,1.7\n")
    code, _, err = truecal("monitor", "good.csv", "bad.csv", *STATE)
    assert code == 1 and "bad.csv" in err and not Path("state.npz").exists()
    code, _, err = truecal("monitor", "good.csv", *STATE, "--plot", "picture.xyz")
    assert code == 2 and "--plot" in err and ".png" in err and not Path("state.npz").exists()


def test_a_picture_that_cannot_be_drawn_counts_nothing(truecal: Run, rng, monkeypatch) -> None:
    """Exit code 1 says that nothing was counted, and hides no alarm from the next run."""

    def full(*_: Any) -> None:
        raise OSError("no space left")

    write("day.csv", 300, rng, 3.0)
    with monkeypatch.context() as patch:
        patch.setattr(watching, "save_picture", full)
        code, out, err = truecal("monitor", "day.csv", *STATE, "--plot", "day.png")
    assert code == 1 and "no space left" in err and "Monitor" not in out and not Path("state.npz").exists()
    assert truecal("monitor", "day.csv", *STATE)[0] == 3


def test_a_run_has_its_state_for_itself(truecal: Run, rng, monkeypatch) -> None:
    """Two runs that read a state, count and write it would each lose the rows of the other: the second waits."""
    filelock = pytest.importorskip("filelock")
    count = watching.count
    held: list[Any] = []

    def noted(*given: Any) -> Any:
        with pytest.raises(filelock.Timeout):
            filelock.FileLock(".state.npz.lock", timeout=0).acquire()
        held.append(given)
        return count(*given)

    monkeypatch.setattr(watching, "count", noted)
    write("a.csv", 50, rng)
    write("b.csv", 50, rng)
    assert truecal("monitor", "a.csv", *STATE)[0] == truecal("monitor", "b.csv", *STATE)[0] == 0
    assert len(held) == 2


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.heavy
def test_a_run_that_is_killed_and_repeated_has_the_same_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    assert kill_monitor.main(["--kills", "4", "--seed", "5"]) == 0, capsys.readouterr().out


@pytest.mark.slow
def test_a_reference_is_read_once(truecal: Run, rng: np.random.Generator) -> None:
    write("accepted.csv", 800, rng, 1.8)
    write("today.csv", 800, rng, 1.8)
    code, out, _ = truecal("monitor", "today.csv", *STATE, "--reference", "accepted.csv", "--alpha", "0.01")
    assert code == 0 and "the usual miscalibration, from 800 reference rows" in out and "alarm at 100" in out
    assert truecal("monitor", "today.csv", "--state", "plain.npz")[0] == 3
    for option, value in (("--reference", "accepted.csv"), ("--alpha", "0.05")):
        code, _, err = truecal("monitor", "today.csv", *STATE, option, value)
        assert code == 2 and "use another state file" in err and option in err


def test_columns_keep_their_classes(truecal: Run) -> None:
    for name, first, second in (("a.csv", "cat", "dog"), ("b.csv", "dog", "cat")):
        frame = pd.DataFrame({"label": ["cat", "dog"], f"prob_{first}": [0.7, 0.4], f"prob_{second}": [0.3, 0.6]})
        frame.to_csv(name, index=False)
    assert truecal("monitor", "a.csv", *STATE)[0] == 0
    code, _, err = truecal("monitor", "b.csv", *STATE)
    assert code == 1 and "b.csv: expected columns of the classes cat, dog as before, got dog, cat" in err


@pytest.mark.slow
def test_top_labels_and_what_cannot_apply(truecal: Run, rng: np.random.Generator) -> None:
    pd.DataFrame({"correct": [1, 0, 1], "confidence": [0.8, 0.6, 0.9]}).to_csv("top.csv", index=False)
    code, out, _ = truecal("monitor", "top.csv", *STATE)
    assert code == 0 and "Monitor, 3 rows" in out
    write("two.csv", 20, rng)
    code, _, err = truecal("monitor", "two.csv", *STATE)
    assert code == 1 and "as before, got binary" in err
    code, _, err = truecal("monitor", "top.csv", "two.csv", "--labels", "y.csv", *STATE)
    assert code == 2 and "--labels" in err
    assert truecal("monitor", "top.csv")[0] == 2 and truecal("monitor", "top.csv", *STATE, "--alpha", "2")[0] == 2
    code, _, err = truecal("monitor", "top.csv", "--state", "two.csv")
    assert code == 1 and "two.csv" in err


@pytest.mark.slow
def test_a_picture_for_the_wall(truecal: Run, rng: np.random.Generator) -> None:
    write("a.csv", 200, rng)
    assert truecal("monitor", "a.csv", *STATE, "--plot", "a.png")[0] == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prob", *(pytest.param(k, marks=pytest.mark.heavy) for k in ("logit", "classes"))])
def test_tables_are_counted_in_batches_with_equal_results(truecal: Run, rng, monkeypatch, kind: str) -> None:
    from truecal.inference.monitoring import Monitor
    from truecal.io import dataset

    z = rng.normal(size=(1000, 3))
    proba = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    columns: dict[str, object] = {f"prob_{name}": proba[:, j] for j, name in enumerate("abc")}
    if kind != "classes":
        columns = {kind: z[:, 0] if kind == "logit" else proba[:, 0]}
    label = np.array(list("abc"))[(proba.cumsum(axis=1) < rng.random((1000, 1))).sum(axis=1)]
    frame = pd.DataFrame({"label": label if kind == "classes" else (label == "a").astype(int), **columns})
    sizes: list[int] = []
    count = Monitor.count

    def noted(batch):
        sizes.append(batch.n_samples)
        return batch

    def counted(self, batches, *rest):
        return count(self, map(noted, batches), *rest)

    monkeypatch.setattr(Monitor, "count", counted)
    monkeypatch.setattr(dataset, "BATCH_ROWS", 100)
    for name, rows in (("early", frame[:450]), ("log", frame)):
        rows.to_parquet(f"{name}.parquet", row_group_size=170)
        rows.to_csv(f"{name}.csv", index=False)
    for suffix in ("parquet", "csv"):  # a file that grows: its first rows are counted once
        Path(f"early.{suffix}").rename(f"now.{suffix}")
        truecal("monitor", f"now.{suffix}", "--state", f"{suffix}.npz")
        Path(f"log.{suffix}").rename(f"now.{suffix}")
        code, out, err = truecal("monitor", f"now.{suffix}", "--state", f"{suffix}.npz", "--json", f"{suffix}.json")
        assert code in (0, 3) and f"now.{suffix}: 550 new rows, 450 counted before" in out, err
    batches, whole = (json.loads(Path(f"{suffix}.json").read_text()) for suffix in ("parquet", "csv"))
    assert max(sizes[:-2]) <= 100 and sum(sizes) == 2000 and sizes[-2:] == [450, 550]
    assert batches["n_samples"] == whole["n_samples"] == 1000 and batches["new"] == whole["new"] == 550
    for mine, theirs in zip(batches["processes"], whole["processes"], strict=True):
        assert mine["evalue"] == pytest.approx(theirs["evalue"], rel=1e-8)
    changed = frame.copy()
    changed.loc[449, "label"] = frame["label"][frame["label"] != frame["label"][449]].iloc[0]
    changed.to_parquet("now.parquet", row_group_size=170)
    before = Path("parquet.npz").read_bytes()
    code, _, err = truecal("monitor", "now.parquet", "--state", "parquet.npz")
    assert code == 1 and "its first 1000 rows were counted before and have changed" in err
    frame[:300].to_parquet("now.parquet")
    assert truecal("monitor", "now.parquet", "--state", "parquet.npz")[0] == 1
    assert Path("parquet.npz").read_bytes() == before
    code, out, _ = truecal("monitor", "now.parquet", "--state", "parquet.npz", "--replaced")
    assert "now.parquet: 300 new rows" in out and "1300 rows" in out


# -- rows that are not there yet, and rows that were there before ------------------------------------------------------


def lines(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    p = rng.random(n).round(6)
    return [f"{int(came)},{chance}\n" for came, chance in zip(rng.random(n) < p, p, strict=True)]


HEAD = "label,prob\n"
WAITS = "its last line has no line break and is left for the next run"


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_is_still_written_waits(truecal: Run, packed: bool) -> None:
    """`0,0.` is no row yet: counted as one, the grown file would no longer begin with the rows counted."""

    def put(text: str) -> None:
        Path(name).write_bytes(gzip.compress(text.encode()) if packed else text.encode())

    name = "log.csv.gz" if packed else "log.csv"
    rows = lines(60)
    put(HEAD + "".join(rows[:40]) + "0,0.")
    code, out, _ = truecal("monitor", name, *STATE)
    assert code == 0 and f"{name}: 40 new rows; {WAITS}" in out
    put(HEAD + "".join(rows))
    code, out, _ = truecal("monitor", name, *STATE, "--json", "now.json")
    assert code == 0 and f"{name}: 20 new rows, 40 counted before" in out and "waits" not in out
    Path("whole.csv").write_text(HEAD + "".join(rows))
    truecal("monitor", "whole.csv", "--state", "other.npz", "--json", "whole.json")
    now, whole = (json.loads(Path(file).read_text())["evalue"] for file in ("now.json", "whole.json"))
    assert now == pytest.approx(whole, rel=1e-9)


def test_half_a_header_and_half_an_object_wait(truecal: Run) -> None:
    Path("a.csv").write_text(HEAD + "".join(lines(5)))
    Path("b.csv").write_text("label,pr")
    Path("c.jsonl").write_text('{"label": 1, "prob": 0.3}\n{"label": 0, "prob": 0.')
    Path("d.jsonl").write_text('{"label": 1, "prob": 0.3}\n{"label": 0, "prob": 0.2}')  # whole without a line break
    code, out, _ = truecal("monitor", "a.csv", "b.csv", "c.jsonl", "d.jsonl", *STATE, "-v")
    assert code == 0 and f"b.csv: no rows; {WAITS}" in out and f"c.jsonl: 1 new rows; {WAITS}" in out
    assert "d.jsonl: 2 new rows" in out and "8 new rows in 4 files" in out


@pytest.mark.slow
def test_a_file_is_known_by_its_rows_whatever_its_name(truecal: Run, rng: np.random.Generator) -> None:
    """A renamed, copied or packed file counted twice is a false alarm in the making."""
    write("day.csv", 300, rng)
    truecal("monitor", "day.csv", *STATE)
    before = tc.Monitor.load("state.npz").result()
    os.rename("day.csv", "renamed.csv")
    Path("copy.csv").write_bytes(Path("renamed.csv").read_bytes())
    Path("packed.csv.gz").write_bytes(gzip.compress(Path("renamed.csv").read_bytes()))
    pd.read_csv("copy.csv").to_parquet("table.parquet")
    code, out, _ = truecal("monitor", "renamed.csv", "copy.csv", "packed.csv.gz", "table.parquet", *STATE)
    assert code == 0 and "0 new rows in 4 files" in out and "300 counted before as " in out and "--again" in out
    after = tc.Monitor.load("state.npz").result()
    assert (after.n_samples, after.evalue) == (300, before.evalue)
    assert "copy.csv: 0 new rows, 300 counted before" in truecal("monitor", "copy.csv", *STATE)[1]
    code, out, _ = truecal("monitor", "copy.csv", *STATE, "--again")  # as the note said
    assert "copy.csv: 300 new rows" in out and "Monitor, 600 rows" in out
    code, out, _ = truecal("monitor", "copy.csv", *STATE, "--again")  # counted under its own name by now
    assert "copy.csv: 0 new rows, 300 counted before" in out and "Monitor, 600 rows" in out
    Path("third.csv").write_bytes(Path("copy.csv").read_bytes())
    code, out, _ = truecal("monitor", "third.csv", *STATE, "--again")
    assert "third.csv: 300 new rows" in out and "Monitor, 900 rows" in out


@pytest.mark.slow
def test_a_copy_that_has_grown_brings_its_new_rows(truecal: Run) -> None:
    rows = lines(120)
    Path("log.csv").write_text(HEAD + "".join(rows[:60]))
    truecal("monitor", "log.csv", *STATE)
    Path("moved.csv").write_text(HEAD + "".join(rows[:100]))
    code, out, _ = truecal("monitor", "moved.csv", *STATE)
    assert code == 0 and "moved.csv: 40 new rows, 60 counted before as " in out and "Monitor, 100 rows" in out
    Path("again.csv").write_text(HEAD + "".join(rows[:100]))
    assert "again.csv: 0 new rows, 100 counted before as " in truecal("monitor", "again.csv", *STATE)[1]
    Path("again.csv").write_text(HEAD + "".join(rows))
    out = truecal("monitor", "again.csv", *STATE)[1]
    assert "again.csv: 20 new rows, 100 counted before" in out and "Monitor, 120 rows" in out
    assert "again.csv: 0 new rows, 120 counted before" in truecal("monitor", "again.csv", *STATE, "--again")[1]


def test_a_few_equal_rows_are_no_copy(truecal: Run) -> None:
    """Three rows may begin two files by chance; three rows that are a whole file are taken for a copy."""
    rows = lines(100)
    Path("a.csv").write_text(HEAD + "".join(rows[:3]))
    Path("b.csv").write_text(HEAD + "".join(rows[:50]))
    out = truecal("monitor", "a.csv", "b.csv", *STATE)[1]
    assert "Monitor, 53 rows" in out
    Path("c.csv").write_text(HEAD + "".join(rows[:3]))
    assert "c.csv: 0 new rows, 3 counted before as " in truecal("monitor", "c.csv", *STATE)[1]


@pytest.mark.slow
def test_what_a_replaced_file_held_is_still_known(truecal: Run) -> None:
    Path("log.csv").write_text(HEAD + "".join(lines(50)))
    truecal("monitor", "log.csv", *STATE)
    os.rename("log.csv", "yesterday.csv")
    Path("log.csv").write_text(HEAD + "".join(lines(50, seed=1)))
    truecal("monitor", "log.csv", *STATE, "--replaced")
    code, out, _ = truecal("monitor", "yesterday.csv", *STATE)
    assert code == 0 and "yesterday.csv: 0 new rows, 50 counted before as " in out and "Monitor, 100 rows" in out


def test_a_crafted_state_is_one_line(truecal: Run, rng: np.random.Generator) -> None:
    write("a.csv", 20, rng)
    truecal("monitor", "a.csv", *STATE)
    about, arrays = read_state("state.npz", "monitor", 1)
    for name, value in (("setup", ["binary", 2, [0.0, 2.0, 1.0]]), ("setup", ["binary", 2, []]), ("state", {})):
        write_state("state.npz", "monitor", 1, {**about, name: value}, arrays)
        code, out, err = truecal("monitor", "a.csv", *STATE)
        assert code == 1 and not out and "state.npz: the state of a monitor is damaged: '" in err
        assert err.count("\n") == 1
