"""Hostile files, some of every kind: predictions that are whole, or FileError; nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuzz


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("name", fuzz.SEEDS)
def test_the_seeds_are_valid(folder: Path, name: str) -> None:
    assert fuzz.attempt(folder / name, fuzz.SEEDS[name]) is not None


@pytest.mark.parametrize("name", fuzz.HARD)
def test_files_that_were_trouble(folder: Path, name: str) -> None:
    file, content = fuzz.HARD[name]
    assert fuzz.attempt(folder / file, content) is None


@pytest.mark.parametrize("kind", fuzz.READERS)
def test_hostile_files(folder: Path, kind: str) -> None:
    fuzz.fuzz(fuzz.READERS[kind], 8, folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", fuzz.READERS)
def test_many_hostile_files(folder: Path, kind: str) -> None:
    fuzz.fuzz(fuzz.READERS[kind], 80, folder)


def test_the_long_run_can_be_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--cases", "3", "--only", "plain.npy"]) == 0
    assert "damaged plain.npy: 3 cases" in capsys.readouterr().out
