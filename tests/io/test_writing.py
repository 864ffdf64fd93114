"""Results out: a file appears whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from truecal.io import FileError, atomic_path, write_atomic
from truecal.io.writing import check_writable, taking_turns


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
    with pytest.raises(FileError, match="cannot write a file: this is a folder"):
        write_atomic(tmp_path, "x")
    with pytest.raises(FileError, match="does not exist"):
        write_atomic(tmp_path / "no" / "out.txt", "x")


def test_overwriting_keeps_the_permissions(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("secret")
    path.chmod(0o600)
    seen = []
    with atomic_path(path) as temporary:
        seen.append(stat.S_IMODE(temporary.stat().st_mode))
        temporary.unlink()  # as a library that makes the file anew
        temporary.write_text("new")
    assert seen == [0o600]  # at no moment readable by others
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.read_text() == "new"
    write_atomic(path, "newer")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_kill_left_is_swept_by_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    code = f"from truecal.io import atomic_path; import os\nwith atomic_path({str(path)!r}): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    (left,) = tmp_path.iterdir()
    others = [tmp_path / name for name in (".out.tmp.json", ".out.0123456789abcdef.tmp.txt", "out.json.bak")]
    for other in others:
        other.write_text("not ours")
    with atomic_path(path) as held:  # a second run must leave the file of a first that is still at work
        write_atomic(path, "new")
        assert held.exists() and not left.exists()
        held.write_text("newer")
    assert path.read_text() == "newer"
    assert set(tmp_path.iterdir()) == {path, *others}


def test_a_folder_that_cannot_be_written_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    check_writable(path)
    check_writable(os.devnull)
    assert list(tmp_path.iterdir()) == []

    def deny(*_: Any, **__: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", deny)
    with pytest.raises(FileError, match=r"out.json: cannot be written \(Permission denied\)"):
        check_writable(path)


@pytest.mark.slow
def test_writing_at_the_same_time_never_fails(tmp_path: Path) -> None:
    """Nobody sweeps a file of another run that has just been made, before it is locked."""
    path = tmp_path / "out.txt"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: write_atomic(path, f"{i:06d}"), range(200)))
    assert len(path.read_text()) == 6 and list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
@pytest.mark.parametrize("there", [False, True])
def test_whoever_changes_a_file_waits_for_the_others(tmp_path: Path, there: bool) -> None:
    """Each adds one to what it read; every write makes a new file under the name, which those who wait must notice."""
    pytest.importorskip("filelock")
    path = tmp_path / "count"
    if there:
        path.write_text("0")

    def add(_: int) -> None:
        with taking_turns(path):
            write_atomic(path, str(1 + int(path.read_text() if path.exists() else 0)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert path.read_text() == "40" and {found.name for found in tmp_path.iterdir()} == {"count", ".count.lock"}
    with taking_turns(os.devnull), taking_turns(tmp_path / "other"):
        pass
