"""The command line: files in, results out; it measures nothing by itself."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `truecal` command."""
    try:
        from .app import run

        code = run()
    except ModuleNotFoundError as error:
        print(f'the truecal command needs {error.name}: run pip install "truecal[cli]"', file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    raise SystemExit(code)
