"""What all tests share: one thread a process, hypothesis, a seeded generator, and skipping what is not installed."""

from __future__ import annotations

import os

# Before numpy is loaded, and for every process started from here. The matrices of the tests are too small to gain from
# threads, and threads that wait for a core which another worker holds burn the other one meanwhile.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import random
import re
from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "truecal", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("quick", settings.get_profile("truecal"), max_examples=40)
settings.load_profile("truecal")

OPTIONAL = (
    *("altair", "calibration", "dask", "distributed", "duckdb", "jinja2", "matplotlib", "netcal"),
    *("numba", "pandas", "polars", "pyarrow", "rich", "safetensors"),
    *("betacal", "openpyxl", "python_calamine", "venn_abers"),
    *("evaluate", "inspect_ai", "lm_eval", "mlflow", "wandb"),
    *("sklearn", "timm", "torch", "torchmetrics", "torchvision", "typer", "vl_convert"),
)
ABSENT = {name for name in OPTIONAL if find_spec(name) is None}
"""Optional libraries that are not installed: with `make test` only those of the GPU experiment and the frameworks."""

_SAID = re.compile(r"ModuleNotFoundError: (?:No module named '(\w+)|import of (\w+))")


def _skipped(report: pytest.CollectReport | pytest.TestReport, where: str, library: str) -> None:
    report.outcome = "skipped"
    report.longrepr = (where, 0, f"Skipped: {library} is not installed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in a random order")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr in ("not slow", "not heavy"):  # make quick and make test; make heavy has all examples
        settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests come first: idle workers take tests from the end of another's list, and the last to run are short.
    Before all come those that share what is costly to make, so that nobody takes some of them and makes it again."""
    for item in items:
        if item.get_closest_marker("heavy"):
            item.add_marker("slow")
    seed = config.getoption("--shuffle")
    if seed is not None:  # tests of a file stay together: they share fixtures
        shuffled = random.Random(seed)
        files = {item.path: shuffled.random() for item in items}
        shuffled.shuffle(items)
        items.sort(key=lambda item: files[item.path])
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    slow = item.get_closest_marker("slow")
    return 2 if slow is None else 0 if slow.kwargs.get("shared") else 1


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file that imports what is not installed is skipped and says so."""
    report = yield
    said = _SAID.search(str(report.longrepr)) if report.failed else None
    if said and (said[1] or said[2]) in ABSENT:
        _skipped(report, collector.nodeid, said[1] or said[2])
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """So is a single test."""
    report = yield
    error = call.excinfo.value if report.failed and call.excinfo is not None else None
    while error is not None:  # what is missing may be the cause of another error
        library = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
        if library in ABSENT:
            _skipped(report, item.nodeid, library)
        error = error.__cause__
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why tests were skipped, one line per reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count:4d}  {reason}")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20251006)
