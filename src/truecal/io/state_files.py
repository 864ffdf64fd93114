"""States of long runs, saved and restored: arrays and a few words about them in one npz file, never a pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from truecal.core.types import Array
from truecal.io.array_files import npz_entries
from truecal.io.failures import FileError, failure, one_line, parsing, quote
from truecal.io.writing import atomic_path

ABOUT = "about"


def damaged(path: str | os.PathLike[str], kind: str, name: str, what: str) -> FileError:
    """The error for a state one of whose fields cannot be what was saved."""
    return failure(path, f"the state of a {kind} is damaged: {quote(name)} {what}")


@contextmanager
def reading_field(path: str | os.PathLike[str], kind: str, name: str) -> Iterator[None]:
    """Read one field of a state; whatever is wrong with it, the error names the file and the field."""
    try:
        yield
    except FileError:
        raise
    except KeyError as error:
        raise damaged(path, kind, str(error.args[0]), "is missing") from error
    except Exception as error:  # a crafted field may be anything
        raise damaged(path, kind, name, f"cannot be read ({one_line(error, 200) or type(error).__name__})") from error


def check_array(
    path: str | os.PathLike[str], kind: str, name: str, array: Any, shape: tuple[int, ...], *, logs: bool = False
) -> None:
    """Refuse an array that is no float64 of the given shape (-1: any length), or has values that are no numbers; only
    logarithms may be infinite."""
    good = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.ndim == len(shape)
    if not good or any(want not in (-1, size) for want, size in zip(shape, array.shape, strict=True)):
        found = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "nothing"
        raise damaged(path, kind, name, f"must be float64 of shape {shape}, got {found}")
    if np.isnan(array).any() or not (logs or np.isfinite(array).all()):
        raise damaged(
            path, kind, name, "has values that are not a number" if logs else "has values that are not finite"
        )


def write_state(
    path: str | os.PathLike[str], kind: str, version: int, about: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write the state of a `kind` of run: what JSON can hold, and arrays. The file appears whole or not at all."""
    words = json.dumps({"truecal": kind, "version": version, **about}).encode()
    with atomic_path(path) as temporary, open(temporary, "r+b") as file:
        named = {ABOUT: np.frombuffer(words, dtype=np.uint8), **arrays}
        np.savez(file, **named)  # type: ignore[arg-type]  # numpy 2.0 would take allow_pickle for one more array
        file.flush()
        os.fsync(file.fileno())


def read_state(path: str | os.PathLike[str], kind: str, version: int) -> tuple[dict[str, Any], dict[str, Array]]:
    """What `write_state` wrote; refused if it is damaged, of another kind, or of another version."""
    place = os.fsdecode(path)
    if not os.path.isfile(place):
        raise failure(place, f"file not found (expected the state of a {kind})")
    entries = npz_entries(place)
    if ABOUT not in entries:
        raise failure(place, f"expected the state of a {kind}, but it holds other arrays")
    words = entries.pop(ABOUT).load()
    with parsing(place, f"the state of a {kind}"):
        about = json.loads(words.tobytes())
        found, number = about.pop("truecal"), about.pop("version")
    if found != kind:
        raise failure(place, f"expected the state of a {kind}, but it is that of a {quote(found)}")
    if number != version:
        raise failure(place, f"expected version {version} of the state of a {kind}, got version {quote(number)}")
    return about, {name: entry.load() for name, entry in entries.items()}
