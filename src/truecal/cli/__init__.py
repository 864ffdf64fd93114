"""The command line: files in, results out; it measures nothing by itself."""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Entry point of the `truecal` command."""
    signal.signal(signal.SIGINT, _leave)  # while libraries load there is nothing to tidy up
    try:
        from .app import run

        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run()
    except ModuleNotFoundError as error:
        print(f'the truecal command needs {error.name}: run pip install "truecal[cli]"', file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the answer is out: no second Ctrl-C can spoil it
    if code == INTERRUPTED:
        print("interrupted", file=sys.stderr)
    raise SystemExit(code)


def _leave(*_: object) -> None:
    """One line and the exit code at once; imports that are cut short would raise anything."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
