"""What the tests of the command line share: how to call it, here and in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Run = Callable[..., tuple[int, str, str]]

FAST = ("--bins", "2,5", "--resamples", "19")


@contextmanager
def child(*arguments: str, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """`truecal` in a process of its own, after the code `before`; whatever happens, it is gone afterwards."""
    code = f"import sys; sys.argv = ['truecal', *{arguments!r}]\n{before}\nfrom truecal.cli import main\nmain()"
    started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()
