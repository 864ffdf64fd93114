"""The commands.

Exit codes: 0 done, 1 bad input, 2 usage, 3 rejected, gamed, alarm or no threshold, 4 no verdict or time limit,
130 Ctrl-C.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import typer

from truecal.io.failures import one_line

from .common import app

from . import evaluating  # isort: skip  # the commands, in the order of the help
from . import deciding  # isort: skip
from . import decide  # isort: skip
from . import serving  # isort: skip

__all__ = ["app", "decide", "deciding", "evaluating", "run", "serving"]

USAGE: type[Exception] = typer.BadParameter.__mro__[2]  # every error of the parser, which some typers bring along


def run() -> int:
    """The exit code of one invocation: bad input is one line on standard error, never a traceback."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as leaving:
        asked = not sys.argv[1:] or {"--help", "--version"} & {*sys.argv[1:]}
        if leaving.code == 1 and asked:
            return 0  # whoever reads the help has left before its end, as head does
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except USAGE as problem:
        return _refused(getattr(problem, "format_message", problem.__str__)(), 2)
    except MemoryError as problem:
        return _refused(f"not enough memory: {problem or 'the allocation failed'}", 1)
    except (ValueError, TypeError, OSError, ImportError) as problem:
        return _refused(str(problem) or type(problem).__name__, 1)


def _refused(what: str, code: int) -> int:
    with suppress(OSError):  # a full disk under standard error
        print(f"error: {one_line(what, 2000)}", file=sys.stderr, flush=True)
    return code
