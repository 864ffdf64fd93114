"""How much memory a file may take: decoders charge a budget before they allocate what the file declares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from truecal.io.failures import FileError, failure, one_line

SMALL = 1 << 25  # bytes that are taken without asking the system how much there is
_CGROUP = "/sys/fs/cgroup"


class TooLargeError(FileError):
    """A file whose data do not fit in the memory that may be used."""


class Budget:
    """Bytes that the decoded parts of one file may take: its own size, and half of the memory that is free.

    What decoders charge is a lower bound of what reading needs. The ratio of sizes does not matter: equal values may
    be packed a thousandfold.
    """

    def __init__(self, path: str, most: int | None = None) -> None:
        self.path, self.taken = path, 0
        self._most = most

    @property
    def most(self) -> int:
        """How many bytes may be taken in all."""
        if self._most is None:
            self._most = _stored(self.path) + available_memory() // 2
        return self._most

    @property
    def left(self) -> int:
        """How many bytes may still be taken."""
        return max(0, self.most - self.taken)

    def check(self, size: int, what: str) -> None:
        """Refuse `what` where its bytes, with what was charged before, exceed the budget."""
        needed = self.taken + size
        if needed > SMALL and needed > self.most:
            held = _size(os.path.getsize(self.path)) if os.path.exists(self.path) else "nothing"
            found = f"with {what} the file of {held} needs {_size(needed)}"
            what = f"expected data that fit in memory ({_size(self.most)} may be used), {found}"
            raise TooLargeError(failure(self.path, what))

    def charge(self, size: int, what: str) -> None:
        """As `check`, for what stays in memory."""
        self.check(size, what)
        self.taken += size


def _size(count: int) -> str:
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"


def _stored(path: str) -> int:
    """Bytes that a file takes on the disk, without holes."""
    try:
        found = os.stat(path)
    except OSError:
        return 0
    return min(found.st_size, 512 * getattr(found, "st_blocks", found.st_size))


def available_memory() -> int:
    """Bytes that could be asked for now, as far as the system, its control group and the process's limit say."""
    found = [_free_memory()]
    with suppress(OSError, ValueError):
        most = int(Path(_CGROUP, "memory.max").read_text())
        found.append(most - int(Path(_CGROUP, "memory.current").read_text()))
    with suppress(ImportError, OSError, ValueError, StopIteration):
        import resource  # not on Windows

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            found.append(limit - 1024 * _kilobytes("/proc/self/status", "VmSize"))
    return max(0, min(found))


def _free_memory() -> int:
    try:
        return 1024 * _kilobytes("/proc/meminfo", "MemAvailable")
    except (OSError, StopIteration, ValueError):
        pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
        return max(0, pages) * os.sysconf("SC_PAGE_SIZE") // 2 if pages > 0 else 4 << 30


def _kilobytes(file: str, name: str) -> int:
    with open(file) as lines:
        return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


@contextmanager
def within_memory(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a lack of memory in the block into the one error of a file."""
    try:
        yield
    except MemoryError as error:
        wanted = one_line(error, 200).strip()
        raise failure(path, f"reading it needs more memory than there is{f' ({wanted})' if wanted else ''}") from error
