"""The command line: options in, public functions called."""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys

from truecal import __version__

INTERRUPTED = 130


def main() -> None:
    """Entry point of the `truecal` command."""
    signal.signal(signal.SIGINT, _leave)  # while libraries load there is nothing to tidy up
    _spell_in_any_encoding()
    if sys.argv[1:] == ["--version"]:
        raise SystemExit(_flush(0, f"truecal {__version__}\n"))
    try:
        code = _run()
    except ModuleNotFoundError as error:
        _complain(f'the truecal command needs {error.name}: run pip install "truecal[cli]"')
        code = 1
    except KeyboardInterrupt:
        code = INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the answer is out: no second Ctrl-C can spoil it
    if code == INTERRUPTED:
        _complain("interrupted")
    raise SystemExit(_flush(code))


def _run() -> int:
    _import_scipy()
    from .app import run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


def _import_scipy() -> None:
    """Import scipy.special without numpy.f2py, numpy.testing and others: it copies dir(numpy), which loads them all."""
    import numpy as np

    names = vars(np)
    loaded = [*names]
    few = {"__dir__": loaded.copy, "__all__": [name for name in np.__all__ if name in loaded]}
    whole = {key: names[key] for key in few if key in names}
    names |= {key: few[key] for key in whole}
    try:
        import scipy.special  # noqa: F401
    finally:
        names |= whole


_PLAIN = {
    "−": "-",
    "–": "-",
    "·": "*",
    "×": "x",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "²": "^2",
    "’": "'",
    "…": "...",
    "→": "->",
}


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """Characters that an encoding lacks, spelled in ASCII."""
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def _spell_in_any_encoding() -> None:
    """No character stops a result from being printed, whatever the encoding of the terminal or pipe."""
    codecs.register_error("truecal", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="truecal")


def _flush(code: int, text: str = "") -> int:
    """The exit code once all is printed. What cannot be printed is dropped, or Python would fail once more at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.write(text)
            sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        said = code in (1, 2, INTERRUPTED)
        if not said and not isinstance(error, BrokenPipeError):  # a reader that left is no failure
            _complain(f"error: standard output cannot be written ({error.strerror})")
            return 1
    return code


def _complain(text: str) -> None:
    try:  # noqa: SIM105  # contextlib takes its time to load
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass  # nowhere left to say it


def _leave(*_: object) -> None:
    """One line and the exit code at once; imports that are cut short would raise anything."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
