"""The comparison with peers: what a process measures, how a run deals with the slow and the broken, and its pages."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))  # benchmarks are no part of the package
calls: Any = importlib.import_module("benchmarks.calls")
contestants: Any = importlib.import_module("benchmarks.peers.contestants")
data: Any = importlib.import_module("benchmarks.peers.data")
page: Any = importlib.import_module("benchmarks.peers.page")
running: Any = importlib.import_module("benchmarks.peers.running")
language: Any = importlib.import_module("benchmarks.language")

STAND_INS = """
import os, signal
import numpy as np
from benchmarks.peers.contestants import Task
from benchmarks.peers.measuring import WARM_UP_ROWS

IMPORTS = {"absent": ("no_such_module_anywhere",)}


def large(data):
    return len(data.y) > WARM_UP_ROWS


def takes_64_mb(data):
    return lambda: float(np.ones(1 << 23).mean()) * data.bins


def takes_24_mb(data):
    def call():
        np.ones(1 << 21)  # glibc then keeps smaller arrays for later calls
        return float(len([np.ones(1 << 17) for _ in range(24)]))
    return call


def never_ends(data):
    def call():
        while large(data):
            pass
        return 0.0
    return call


def refuses(data):
    def call():
        if large(data):
            raise ValueError("too many\\n  rows")
        return 0.0
    return call


def dies(data):
    return lambda: os.kill(os.getpid(), signal.SIGKILL) if large(data) else 0.0


def task(prepare, names=("one",)):
    return Task("", "", dict.fromkeys(names, prepare), 0.0, "", grows=("rows",))


TASKS = {"plain": task(takes_64_mb, ("one", "absent")), "small": task(takes_24_mb)}
TASKS |= {"broken": task(refuses), "dead": task(dies)}
"""
ENDLESS = "from stand_ins import *; TASKS = {'endless': task(never_ends)}"
LONG, SHORT = 120.0, 0.1


def run(module: str, budget: float, *rows: int) -> dict[tuple[str, str, int], Any]:
    plan = running.Plan({"rows": tuple(running.Size(n, 2, 7) for n in rows)})
    found = running.run(plan, budget, module)
    return {(cell["task"], cell["contestant"], cell["rows"]): cell for cell in found}


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """A run of stand-ins, of which some misbehave where there are more rows than those of the warm-up."""
    folder = tmp_path_factory.mktemp("stand-ins")
    (folder / "stand_ins.py").write_text(STAND_INS)
    (folder / "endless.py").write_text(ENDLESS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT / "src")]))
        return run("stand_ins", LONG, 100, 7000) | run("endless", SHORT, 6000, 7000)


@pytest.mark.heavy
def test_every_contestant_is_asked_at_every_size(cells):
    names = [("plain", "one"), ("plain", "absent"), ("small", "one"), ("broken", "one"), ("dead", "one")]
    wanted = {(*name, rows) for name in names for rows in (100, 7000)}
    assert set(cells) == wanted | {("endless", "one", rows) for rows in (6000, 7000)}


@pytest.mark.slow
def test_a_process_tells_value_time_and_memory(cells):
    cell = cells["plain", "one", 7000]
    assert cell["value"] == 7.0 and cell["classes"] == 2 and cell["bins"] == 7
    assert 1 <= cell["calls"] <= 5 and cell["seconds"] > 0 and cell["cpu_seconds"] > 0
    if Path("/proc/self/clear_refs").exists():
        assert 60 < cell["peak_mb"] < 80
        assert 22 < cells["small", "one", 7000]["peak_mb"] < 45


@pytest.mark.slow
def test_who_is_too_slow_is_cut_off_and_not_tried_at_a_larger_size(cells):
    assert cells["endless", "one", 6000].items() >= {"over": SHORT, "tried": True}.items()
    assert cells["endless", "one", 7000].items() >= {"over": SHORT, "tried": False}.items()


@pytest.mark.slow
def test_who_fails_is_named_with_its_message(cells):
    assert cells["broken", "one", 100]["value"] == cells["dead", "one", 100]["value"] == 0.0
    assert cells["broken", "one", 7000]["problem"] == "ValueError: too many rows"
    assert cells["dead", "one", 7000]["problem"] == "ended by SIGKILL"
    assert "No module named 'no_such_module_anywhere'" in cells["plain", "absent", 100]["problem"]


def test_data_are_the_same_every_time_and_over_confident():
    y, p = data.make(3000, 4)
    again = data.make(3000, 4)
    assert (y == again[0]).all() and (p == again[1]).all()
    assert p.dtype == np.float32 and np.allclose(p.sum(axis=1), 1, atol=1e-5)
    assert 0.02 < p.max(axis=1).mean() - (p.argmax(axis=1) == y).mean() < 0.2


def test_batches_are_all_rows_once():
    whole = data.Data(*data.make(20_000, 2), 5)
    ys, ps = zip(*whole.batches(), strict=True)
    assert len(ys) == 3 and (np.concatenate(ys) == whole.y).all() and (np.concatenate(ps) == whole.p).all()


@pytest.mark.parametrize("task", contestants.TASKS)
def test_builders_of_one_process_agree(task):
    """What needs neither a peer nor a cluster; the stored run compares all of them."""
    of, sample = contestants.TASKS[task], data.Data(*data.make(2000, 3), 10)
    found = {name: of.contestants[name](sample)() for name in ("truecal", "truecal, stream") if name in of.contestants}
    assert all(abs(value / found["truecal"] - 1) <= of.tolerance for value in found.values())


# -- words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (0.0123, "0.012"), (0.5, "0.50"), (1, "1.0"), (9.96, "10"), (12.4, "12"), (1234, "1,200")],
)
def test_numbers_have_two_digits(number, said):
    assert page.digits(number) == said


def test_ratios_are_of_the_first_contestant():
    first = {"seconds": 0.5, "peak_mb": 0.2}
    assert page.time_ratio({"seconds": 6.0}, first) == "12x"
    assert page.time_ratio({"over": 60, "tried": True}, first) == "> 120x"
    assert page.time_ratio({"problem": "no"}, first) == "fails"
    assert page.memory_ratio({"peak_mb": 30.0}, first) == "30x"  # less than 1 MB counts as 1
    assert page.memory_ratio({"peak_mb": None}, first) == "–"


def test_a_page_without_a_place_for_the_tables_is_refused():
    text = f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n"
    assert page.with_tables(text, "new") == f"before\n{page.BEGIN}\n\nnew\n\n{page.END}\nafter\n"
    with pytest.raises(ValueError, match="expected a page with"):
        page.with_tables("no place", "new")


# -- the stored run ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored():
    return page.stored()


def test_the_stored_run_has_every_contestant_at_every_size(stored):
    wanted = {
        (name, contestant, size)
        for name, task in contestants.TASKS.items()
        for contestant in task.contestants
        for size in running.FULL.sizes(task.grows)
    }
    assert set(page.by_key(stored["cells"])) == wanted and len(stored["cells"]) == len(wanted)


def test_the_pages_show_the_stored_run(stored):
    for path, tables in page.PAGES.items():
        text = path.read_text("utf-8")
        assert page.with_tables(text, tables(stored)) == text, f"python -m benchmarks.peers --page writes {path.name}"


def test_readme_names_two_of_the_stored_ratios(stored):
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    for peer in ("torchmetrics", "netcal"):
        (ratio,) = re.findall(rf"([\d.]+) times as fast as with {peer}\b", text)
        assert f"| {peer} | {ratio}x |" in page.summary(stored)


def test_nobody_failed_and_values_agree(stored):
    """netcal measures the second class where there are two; nobody else may differ."""
    cells = page.by_key(stored["cells"])
    assert not [key for key, cell in cells.items() if "problem" in cell]
    for name, task in contestants.TASKS.items():
        assert all("value" in cells[name, "truecal", size] for size in running.FULL.sizes(task.grows))
        found = page.differences(name, task, running.FULL, cells)
        far = {(who, size.classes) for who, size, away in found if abs(away) > task.tolerance}
        assert far == ({("netcal", 2)} if name == "confidence" else set())


@pytest.mark.slow
@pytest.mark.heavy
def test_the_picture_is_drawn(stored, tmp_path):
    importlib.import_module("benchmarks.peers.picture").draw(stored, running.FULL, tmp_path / "peers.png")
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_of_sampled_answers_is_that_of_the_stored_results() -> None:
    text = language.PAGE.read_text()
    assert language.page(json.loads(language.RESULTS.read_text()), text) == text


def test_an_evaluation_and_a_comparison_make_few_calls():
    """Calls of a warm call on 1,000 rows x 3 classes, and those from one package into another; caches may differ."""
    for name, (most, most_changes) in {"evaluate": (1_810, 490), "compare": (4_700, 1_130)}.items():
        found = calls.count(name)
        assert found.functions.total() <= most
        assert found.changes.total() <= most_changes
