"""Parsers that could abort run in a child process, so that the worst a file can do is one error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from truecal.io.failures import failure, need, one_line, parsing
from truecal.io.limits import Budget

_SCRIPT = Path(__file__).with_name("child_parsers.py")
_LONGEST_ANSWER = 1 << 26  # bytes of the line about a table
_LEAST = 1 << 26  # bytes that a child may take whatever the budget


def in_child(
    file: str, expected: str, budget: Budget, task: str, *, modules: Sequence[str] = (), **options: Any
) -> tuple[dict[str, Any], Any]:
    """Run a task of `child_parsers` and return its answer and its table, None where it has none.

    The child may take as much memory as the budget has left. If it ends before its answer, for whatever reason, that is
    one FileError.
    """
    with _answers(file, expected, budget, task, modules, options) as (about, batches):
        if batches is None:
            return about, None
        return about, need("pyarrow", "cli", "tables").Table.from_batches(list(batches), batches.schema)


@contextmanager
def _answers(
    path: str, expected: str, budget: Budget, task: str, modules: Sequence[str], options: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], Any]]:
    asked = {"task": task, "modules": list(modules), "limit": max(_LEAST, budget.left), "sys_path": sys.path, **options}
    with parsing(path, expected):
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    assert child.stdin is not None and child.stdout is not None
    try:
        about: Any = None
        with parsing(path, expected):
            child.stdin.write(json.dumps(asked).encode() + b"\n")
            child.stdin.close()
            line = child.stdout.readline(_LONGEST_ANSWER)
            about = json.loads(line) if line.endswith(b"\n") else None
        if about is None:
            raise _ended(path, expected, child)
        if "error" in about:
            raise failure(path, f"expected {expected}, but it cannot be read ({one_line(about['error'], 300)})")
        yield about, _Batches(path, expected, budget, child.stdout) if about["table"] else None
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        child.stdin.close()


def _ended(path: str, expected: str, child: subprocess.Popen[bytes]) -> Exception:
    """The error for a parser that ended before its answer."""
    code = child.wait()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return failure(
        path, f"expected {expected}, but its parser ended ({how}): it may ask for more memory than may be used"
    )


class _Batches:
    """The batches of a table, each charged as it comes."""

    def __init__(self, path: str, expected: str, budget: Budget, stream: IO[bytes]) -> None:
        self.path, self.expected, self.budget = path, expected, budget
        with parsing(path, expected):
            self._reader = need("pyarrow", "cli", "tables").ipc.open_stream(stream)
        self.schema = self._reader.schema

    def __iter__(self) -> Iterator[Any]:
        while True:
            with parsing(self.path, f"{self.expected} that fits in memory"):
                batch = next(self._reader, None)
            if batch is None:
                return
            self.budget.charge(batch.nbytes, "the table")
            yield batch
