"""The folder of a run: whose it is (`run.json`), that only one run writes into it, and how its files are read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import truecal as tc
from truecal.core.extras import require
from truecal.io import write_atomic
from truecal.io.failures import failure, parsing

FORMAT = 1
"""Of `run.json` and the tables beside it; a later one is refused, and where no number stands it is this one."""
_KEYS: Any = {"preset": str, "title": str, "warm_up": (int, float), "settings": dict, "notes": list, "traces": dict}
_FREE = {"notes", "title", "truecal", "format"}  # what may differ between two runs of one experiment


def read_json(path: Path, expected: str) -> dict[str, Any]:
    """The object in a JSON file; FileError with the file's name where there is none."""
    with parsing(path, expected):
        found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise failure(path, f"expected {expected}, got a {type(found).__name__}")
    return found


def read_run_file(out: Path) -> dict[str, Any]:
    """What `run.json` says, checked."""
    path = out / "run.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected the folder of a run")
    run = read_json(path, "the description of a run")
    form = run.get("format", FORMAT)
    if not isinstance(form, int) or form > FORMAT:
        raise failure(path, f"expected a run of format {FORMAT} or older, got {form!r}: written by a later truecal")
    for key, kind in _KEYS.items():
        if not isinstance(run.get(key), kind):
            raise failure(path, f"expected {key!r} in the description of a run, got {run.get(key)!r}")
    for name, traces in run["traces"].items():
        inside = name not in ("", ".", "..") and Path(name).name == name  # a name stays inside its folder
        if not inside or not isinstance(traces, list):
            raise failure(path, f"expected the traces of each experiment, got {run['traces']!r}")
    return run


def claim(out: Path, description: Mapping[str, Any]) -> None:
    """Write `run.json`, or refuse a folder that holds another run; notes added to it stay."""
    mine = json.loads(json.dumps(description)) | {"truecal": tc.__version__, "format": FORMAT}
    if (out / "run.json").is_file():
        theirs = read_run_file(out)
        differing = sorted(key for key in {*mine, *theirs} - _FREE if mine.get(key) != theirs.get(key))
        if differing:
            raise ValueError(f"{out} holds another run (its {', '.join(differing)} differ); choose another folder")
        mine["notes"] += [note for note in theirs["notes"] if note not in mine["notes"]]  # such as what was run when
    write_atomic(out / "run.json", json.dumps(mine, indent=1) + "\n")


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Only one run at a time writes into a folder; the system lets go of the lock of a run that was killed."""
    filelock = require("filelock", "reproduction")
    path = out / "run.lock"
    try:
        with filelock.FileLock(path, timeout=0):
            try:
                yield
            finally:
                with suppress(OSError):  # an open file stays on Windows, where filelock removes it
                    path.unlink()
    except filelock.Timeout:
        what = "another run is using this folder; wait until it ends, or choose another folder"
        raise failure(path, what) from None
