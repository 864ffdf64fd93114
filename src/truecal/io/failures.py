"""The one error a prediction file can end in, and the guard that turns what libraries raise into it."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

LONGEST_QUOTE = 60  # characters of a user's value repeated in a message
LONGEST_PATH = 400
LONGEST_NAME = 200
LONGEST_REASON = 300  # characters of a library's own message repeated in ours

_ROW = re.compile(r"'[^']*'|\brow (\d+)\b")  # what stands in quotes is the user's

EXTRAS = {
    "sql": ("ibis", "sqlglot", "pyarrow"),
    "report": ("altair", "vl_convert", "jinja2"),
    "recalibration": ("sklearn",),
}
"""What an extra of the package brings, as far as a whole command needs it."""


class FileError(ValueError):
    """A file that cannot be read or written: one line, ``path: what is wrong (row, column or key), and what to do``.

    >>> from truecal.io import FileError, read_predictions
    >>> try:
    ...     read_predictions("no-such-file.npz")
    ... except FileError as error:
    ...     print(error)
    no-such-file.npz: file not found
    """


class NoRowsError(FileError):
    """No rows, or rows of which none has a prediction where those without one are to be left out."""


class SeveralModelsError(FileError):
    """One table with the probabilities of several models: `columns` are theirs."""

    def __init__(self, message: str, columns: tuple[str, ...]) -> None:
        super().__init__(message)
        self.columns = columns


def _nowhere(row: int) -> str:
    return ""


def counted_from(start: int, place: Callable[[int], str] = _nowhere) -> AbstractContextManager[None]:
    """`numbered` for rows from row `start` of a table on."""
    return numbered(lambda row: start + row, place)


@contextmanager
def numbered(number: Callable[[int], int], place: Callable[[int], str] = _nowhere) -> Iterator[None]:
    """Let a FileError about some rows of a table name them by their numbers in the table; `place` may say of a row
    where else to look for it."""
    try:
        yield
    except NoRowsError:
        raise
    except FileError as error:
        path, colon, said = str(error).partition(": ")
        found = [number(int(row)) for row in _ROW.findall(said) if row]
        if not found:
            raise
        words = _ROW.sub(lambda match: f"row {number(int(match[1]))}" if match[1] else match[0], said)
        raise FileError(f"{path}{colon}{words}{place(found[0])}") from error


def one_line(text: object, longest: int) -> str:
    """`text` without line breaks and control characters, cut to `longest` characters."""
    flat = re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in str(text)))
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def quote(value: object) -> str:
    """A user's value for a message: short, on one line, with quotes around text."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return f"'{one_line(value, LONGEST_QUOTE)}'" if isinstance(value, str) else one_line(value, LONGEST_QUOTE)


def listing(values: object, most: int = 8) -> str:
    """The first few of several values for a message."""
    items = [quote(v) for v in values]  # type: ignore[attr-defined]  # whatever can be listed
    return ", ".join(items[:most]) + (f", … ({len(items)} in all)" if len(items) > most else "") if items else "none"


def path_text(path: str | os.PathLike[str]) -> str:
    """A path for a message or a note: whole unless absurdly long, without control characters."""
    return one_line(os.fsdecode(path), LONGEST_PATH)


def readable(name: str) -> str:
    """A part of a path as text for people: no control characters, no bytes that are no text, never empty."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return one_line(text, LONGEST_NAME).strip() or "model"


def failure(path: str | os.PathLike[str], what: str) -> FileError:
    """The FileError for `path`; raising is left to the caller, so that a type checker sees the control flow."""
    return FileError(f"{path_text(path)}: {one_line(what, 600)}")


@contextmanager
def parsing(path: str | os.PathLike[str], expected: str) -> Iterator[None]:
    """Run a library's parser on bytes nobody vouches for.

    Damaged bytes make parsers raise nearly anything (struct.error, SyntaxError, KeyError, RecursionError, ...), so
    every Exception becomes a FileError here; the block must hold library calls only, so that our own mistakes show.
    Warnings of parsers speak of bytes, not of the user's code, and are dropped.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (FileError, ImportError):
        raise
    except MemoryError as error:
        wanted = one_line(error, LONGEST_REASON).strip() or "no details"
        raise failure(path, f"expected {expected}, but it needs more memory than there is ({wanted})") from error
    except Exception as error:  # any parser, any damage: see above
        reason = _own_words(str(error)) or one_line(error, LONGEST_REASON).strip() or type(error).__name__
        raise failure(path, f"expected {expected}, but it cannot be read ({reason})") from error


def _own_words(reason: str) -> str | None:
    """Our words for messages that advise to trust the file: that advice is never passed on."""
    if "max_header_size" in reason:
        return "its header is longer than that of any plain array"
    if "allow_pickle" in reason:
        return "it holds something else, or is damaged"
    return None


def need(module: str, extra: str, purpose: str) -> Any:
    """Import an optional library, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f'reading {purpose} needs {package}: pip install "truecal[{extra}]"') from error


def need_extra(purpose: str, *extras: str) -> None:
    """Say which extras to install for `purpose`, all at once and before any work."""
    missing = {extra: [m for m in EXTRAS[extra] if not _is_there(m)] for extra in extras}
    wanted = [extra for extra, modules in missing.items() if modules]
    if wanted:
        modules = ", ".join(module for extra in wanted for module in missing[extra])
        raise ImportError(f'{purpose} needs {modules}: pip install "truecal[{",".join(wanted)}]"')


def _is_there(module: str) -> bool:
    return sys.modules.get(module, False) is not None and importlib.util.find_spec(module) is not None
