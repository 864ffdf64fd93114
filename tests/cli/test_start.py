"""What small files do not need is not loaded: every command begins with these imports."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import truecal
from command_line import FAST, Run

LOADED = "import atexit, sys; atexit.register(lambda: print(*sorted(sys.modules)))"
START = "from truecal.cli import main; main()"
LATE = {"numba", "pandas", "polars", "dask", "matplotlib", "pyarrow.dataset", "numpy.f2py", "numpy.testing"}
LATE |= {"truecal.results.comparison", "truecal.inference.segments", "truecal.scale"}


def loaded(*arguments: str) -> tuple[str, set[str]]:
    """What a command prints, and the modules of its process."""
    done = subprocess.run([sys.executable, "-c", f"{LOADED}\n{START}", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *printed, modules = done.stdout.splitlines()
    return "\n".join(printed), {*modules.split()}


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_small_file_loads_no_library_that_it_does_not_need(folder: object, truecal: Run, suffix: str) -> None:
    rng = np.random.default_rng(0)
    rows = [(int(rng.random() < p), p) for p in rng.random(50).round(3).tolist()]
    lines = [f"{y},{p}" for y, p in rows] if suffix == "csv" else [f'{{"label": {y}, "proba": {p}}}' for y, p in rows]
    with open(f"few.{suffix}", "w") as file:
        file.write("\n".join([*(["label,proba"] if suffix == "csv" else []), *lines]) + "\n")
    printed, modules = loaded("evaluate", f"few.{suffix}", *FAST)
    assert "50 samples" in printed and "numpy" in modules
    assert not LATE & modules


def test_the_version_needs_no_library() -> None:
    printed, modules = loaded("--version")
    assert printed == f"truecal {truecal.__version__}"
    assert not {"numpy", "typer", "rich"} & modules


def test_numpy_shows_all_its_names_once_scipy_is_imported() -> None:
    code = "import numpy; names = dir(numpy), [*numpy.__all__]; from truecal import cli; cli._import_scipy()"
    code += "; assert names == (dir(numpy), numpy.__all__) and 'testing' in names[0]"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
