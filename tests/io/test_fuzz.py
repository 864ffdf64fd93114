"""Hostile files, some of every kind: predictions that are whole, or FileError; nothing else."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import fuzz
import fuzz_malformed
from truecal.io import FileError, read_labels, read_predictions


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("name", fuzz.SEEDS)
def test_the_seeds_are_valid(folder: Path, name: str) -> None:
    assert fuzz.attempt(folder / name, fuzz.SEEDS[name]) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", fuzz.HARD)
def test_files_that_were_trouble(folder: Path, name: str) -> None:
    file, content = fuzz.HARD[name]
    assert fuzz.attempt(folder / file, content) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", fuzz.READERS)
def test_hostile_files(folder: Path, kind: str) -> None:
    fuzz.fuzz(fuzz.READERS[kind], 8, folder)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", fuzz.READERS)
def test_many_hostile_files(folder: Path, kind: str) -> None:
    fuzz.fuzz(fuzz.READERS[kind], 80, folder)


def test_the_long_run_can_be_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--cases", "3", "--only", "plain.npy"]) == 0
    assert "damaged plain.npy: 3 cases" in capsys.readouterr().out


@pytest.mark.slow
def test_files_of_another_generator() -> None:
    assert list(fuzz_malformed.run(0, range(200))) == []


@pytest.mark.slow
@pytest.mark.heavy
def test_many_files_of_another_generator() -> None:
    assert list(fuzz_malformed.run(1, range(2000))) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.jsonl.gz", gzip.compress(b'{"label": 1, "prob": 0.3}\n' * 50, mtime=0)[:40]),
        ("cut.csv.gz", gzip.compress(b"label,prob\n1,0.3\n" * 50, mtime=0)[:40]),
        ("cut.json.gz", gzip.compress(b'[{"label": 1, "prob": 0.3}]' * 50, mtime=0)[:40]),
    ],
)
def test_archives_that_are_cut_short(folder: Path, name: str, content: bytes) -> None:
    with pytest.raises(FileError, match=r"cannot be read|it is empty"):
        read_predictions(_put(folder / name, content))


def test_whole_numbers_that_no_double_holds(folder: Path) -> None:
    """In a list of probabilities they are out of range, which is said; arrow's own error would not name the file."""
    text = b"label\tprobs\n1\t[0.25, 0.75]\n0\t[14578791522792697, 0.5]\n"
    with pytest.raises(FileError, match="row 1"):
        read_predictions(_put(folder / "big.tsv", text))


def test_labels_of_bytes_and_of_half_precision(folder: Path) -> None:
    np.save(folder / "y.npy", np.array([b"cat", b"dog"]))
    assert read_labels(folder / "y.npy").tolist() == ["cat", "dog"]
    np.save(folder / "h.npy", np.array([1, 0], dtype=np.float16))
    assert read_labels(folder / "h.npy").tolist() == [1, 0]
    np.save(folder / "z.npy", np.array([b"\xff", b"b"]))
    with pytest.raises(FileError, match="expected text in UTF-8"):
        read_labels(folder / "z.npy")


def _put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
