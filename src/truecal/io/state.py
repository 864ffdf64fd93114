"""States of long runs, saved and restored: arrays and a few words about them in one npz file, never a pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from truecal.core.types import Array
from truecal.io.arrays import npz_entries
from truecal.io.failures import failure, parsing, quote
from truecal.io.writing import atomic_path

ABOUT = "about"


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
        raise failure(place, f"expected the state of a {kind}, there is no such file")
    entries = npz_entries(place)
    if ABOUT not in entries:
        raise failure(place, f"expected the state of a {kind}, found other arrays")
    words = entries.pop(ABOUT).load()
    with parsing(place, f"the state of a {kind}"):
        about = json.loads(words.tobytes())
        found, number = about.pop("truecal"), about.pop("version")
    if found != kind:
        raise failure(place, f"expected the state of a {kind}, it is that of a {quote(found)}")
    if number != version:
        raise failure(place, f"expected version {version} of the state of a {kind}, got version {quote(number)}")
    return about, {name: entry.load() for name, entry in entries.items()}
