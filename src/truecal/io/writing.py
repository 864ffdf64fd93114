"""Results out: a file appears whole under its name or not at all."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from truecal.core.extras import require
from truecal.io.failures import failure

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # no such locks on this system: nothing is swept
    flock = None  # type: ignore[assignment]  # a function elsewhere


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the FileError that writing `path` would end in, before the work whose result it is to hold."""
    target = _target(path)
    if not target.exists() or target.is_file():
        with _temporary(path, target):
            pass  # it could be made: that is all


def _target(path: str | os.PathLike[str]) -> Path:
    """Where a file will be written: a link stays a link, its target is replaced."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise failure(path, "cannot write a file: this is a folder")
    if not target.parent.is_dir():
        raise failure(path, f"the folder {target.parent} does not exist: create it first")
    return target


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the folder of `path`, moved onto it when the block ends well and removed when it does not.

    For libraries that write to a path themselves; the temporary name ends as `path` does, so that formats chosen by
    suffix stay right. Whatever ends the block (an error, Ctrl-C), `path` keeps what it had before. A file that is
    replaced hands on its permissions; what a killed run left behind is swept by the next that writes `path`.

    >>> import os, tempfile
    >>> from truecal.io import atomic_path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(os.path.join(folder, "out.txt")) as temporary:
    ...         _ = temporary.write_text("done")
    ...     print(os.listdir(folder))
    ['out.txt']
    """
    target = _target(path)
    _sweep(target)
    with _temporary(path, target) as (temporary, mode):
        yield temporary
        os.chmod(temporary, mode)  # a library may have replaced the file
        os.replace(temporary, target)


@contextmanager
def _temporary(path: str | os.PathLike[str], target: Path) -> Iterator[tuple[Path, int]]:
    """An empty file beside `target` with its permissions, locked while the block runs, gone at its end."""
    try:
        temporary, handle = _made(target)
        try:
            mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
            os.chmod(temporary, mode)
            yield temporary, mode
        finally:
            with suppress(OSError):  # gone already when it was moved
                temporary.unlink()
            if handle is not None:
                os.close(handle)
    except OSError as error:
        raise failure(path, f"cannot be written ({error.strerror or error})") from error


def _made(target: Path) -> tuple[Path, int | None]:
    """A new file beside `target`, and a handle that holds its lock where there are locks."""
    while True:
        temporary = target.with_name(f".{target.stem[:100]}.{secrets.token_hex(8)}.tmp{target.suffix}")
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)  # never through a planted link
        if flock is None:
            os.close(handle)
            return temporary, None
        with suppress(OSError):  # a file system without locks, where nothing is swept either
            flock(handle, LOCK_EX)
        if temporary.exists():
            return temporary, handle
        os.close(handle)  # swept by another run before it was locked


def _sweep(target: Path) -> None:
    """Remove temporary files of `target` that nobody holds: a kill left them."""
    name = re.compile(rf"\.{re.escape(target.stem[:100])}\.[0-9a-f]{{16}}\.tmp{re.escape(target.suffix)}")
    for left in target.parent.iterdir() if flock is not None else ():
        if name.fullmatch(left.name):
            with suppress(OSError):  # still being written, or swept by another run
                handle = os.open(left, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
                try:
                    flock(handle, LOCK_EX | LOCK_NB)
                    left.unlink()
                finally:
                    os.close(handle)


@contextmanager
def taking_turns(path: str | os.PathLike[str]) -> Iterator[None]:
    """The block has `path` for itself, to read it, to work and to write it again: other processes that ask wait here.

    A hidden file beside `path` is locked; it stays there, because removing it could let two processes in. The lock ends
    with its process.
    """
    target = _target(path)
    if target.exists() and not target.is_file():  # a terminal, a pipe, /dev/null
        yield
        return
    lock = require("filelock", "cli").FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire()
    except OSError as error:
        raise failure(path, f"cannot be locked ({error.strerror or error})") from error
    try:
        yield
    finally:
        lock.release()


def write_atomic(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write `data` (text as UTF-8) to `path` in one step: readers see the old file or the whole new one.

    >>> import pathlib, tempfile
    >>> from truecal.io import write_atomic
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomic(pathlib.Path(folder, "out.json"), "{}")
    ...     print([(p.name, p.read_text()) for p in pathlib.Path(folder).iterdir()])
    [('out.json', '{}')]
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        try:  # a terminal, a pipe, /dev/null: nothing to replace
            with open(path, "wb") as stream:
                stream.write(content)
        except OSError as error:
            raise failure(path, f"cannot be written ({error.strerror or error})") from error
        return
    with atomic_path(path) as temporary, open(temporary, "r+b") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
