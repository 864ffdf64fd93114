"""The commands.

Exit codes: 0 done, 1 bad input, 2 usage, 3 rejected, gamed, alarm or no threshold, 4 no verdict or time limit,
130 Ctrl-C.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from typing import Any

import typer

from truecal.io.failures import one_line

from . import common

_COMMANDS = {
    "evaluating": ("evaluate", "compare"),
    "deciding": ("test", "recalibrate", "threshold", "gate", "estimate"),
    "decide": ("decide",),
    "serving": ("monitor", "sql", "audit", "demo"),
}
"""The commands of each module, in the order of the help."""
USAGE: type[Exception] = typer.BadParameter.__mro__[2]  # every error of the parser, which some typers bring along


def __getattr__(name: str) -> Any:
    """The application with all its commands, or the module of some."""
    if name == "app":
        return _with_commands(None)
    if name not in _COMMANDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f".{name}", __package__)


def _with_commands(asked: str | None) -> typer.Typer:
    """The application with the command that is asked for, or with all: to import and build the others takes long."""
    for module in [name for name, commands in _COMMANDS.items() if asked in commands] or _COMMANDS:
        importlib.import_module(f".{module}", __package__)
    return common.app


def run() -> int:
    """The exit code of one invocation: bad input is one line on standard error, never a traceback."""
    try:
        app = _with_commands(sys.argv[1] if sys.argv[1:] else None)
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
