"""Results out: a file appears whole under its name or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from truecal.io.failures import failure


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the folder of `path`, moved onto it when the block ends well and removed when it does not.

    For libraries that write to a path themselves; the temporary name ends as `path` does, so that formats chosen by
    suffix stay right. Whatever ends the block (an error, Ctrl-C), `path` keeps what it had before.

    >>> import os, tempfile
    >>> from truecal.io import atomic_path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(os.path.join(folder, "out.txt")) as temporary:
    ...         _ = temporary.write_text("done")
    ...     print(os.listdir(folder))
    ['out.txt']
    """
    target = Path(os.path.realpath(path))  # a link stays a link; its target is replaced
    if target.is_dir():
        raise failure(path, "expected a file to write, it is a folder")
    if not target.parent.is_dir():
        raise failure(path, f"expected to write into the folder {target.parent}, which does not exist")
    temporary = target.with_name(f".{target.stem[:100]}.{secrets.token_hex(8)}.tmp{target.suffix}")
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        raise failure(path, f"cannot be written ({error.strerror or error})") from error
    finally:
        with suppress(OSError):  # gone already when the move succeeded
            temporary.unlink()


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
        _write_through(path, content)  # a terminal, a pipe, /dev/null: nothing to replace
        return
    with atomic_path(path) as temporary, open(temporary, "xb") as file:  # "x": never through a planted link
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _write_through(path: str | os.PathLike[str], content: bytes) -> None:
    try:
        with open(path, "wb") as stream:
            stream.write(content)
    except OSError as error:
        raise failure(path, f"cannot be written ({error.strerror or error})") from error
