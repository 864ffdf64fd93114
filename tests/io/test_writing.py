"""Results out: a file appears whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from truecal.io import (
    FileError,
    atomic_path,
    write_atomic,
)


@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_nothing_half_written_is_left(tmp_path: Path, before: str | None, error: type[BaseException]) -> None:
    path = tmp_path / "out.json"
    if before is not None:
        path.write_text(before)
    expected = FileError if error is OSError else error

    def stopped() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise error("stop")

    with pytest.raises(expected):
        stopped()
    assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else ["out.json"])
    assert before is None or path.read_text() == before


def test_an_interrupt_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    write_atomic(path, "old")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, "new")
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_atomic_writes(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_atomic(path, "é")
    write_atomic(str(path), b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    link = tmp_path / "link.txt"
    link.symlink_to(path)
    write_atomic(link, "through")
    assert link.is_symlink() and path.read_text() == "through"
    write_atomic(os.devnull, "nothing")
    with atomic_path(tmp_path / "figure.png") as temporary:
        assert temporary.suffix == ".png" and temporary.parent == tmp_path
        temporary.write_bytes(b"x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure.png", "link.txt", "out.txt"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="expected a file to write, it is a folder"):
        write_atomic(tmp_path, "x")
    with pytest.raises(FileError, match="which does not exist"):
        write_atomic(tmp_path / "no" / "out.txt", "x")
