"""Crafted states: whatever is in the file, loading ends in an object that works or in one FileError that names it.

The tests run the same few hundred states every time; `python -m tests.fuzz_states --cases 20000 --seed 7` runs as many
as wanted and prints each one that failed with the seed that repeats it.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import truecal as tc

sys.path.insert(0, str(Path(__file__).parent))  # python -m tests.fuzz_states finds the module beside it
import fuzzing
from truecal.io import FileError
from truecal.io.state_files import read_state, write_state

Generator = np.random.Generator
VERSIONS = {"stream": 3, "monitor": 1}


def _binary(rng: Generator, n: int) -> tuple[Any, Any]:
    p = rng.random(n)
    return (rng.random(n) < p).astype(int), p


def _classes(rng: Generator, n: int) -> tuple[Any, Any]:
    p = rng.dirichlet(np.ones(3), n)
    return rng.integers(0, 3, n), p


def makers() -> dict[str, Any]:
    """Valid states, each with data that goes on from it."""
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for name, data, errors, options in (
        ("stream of one probability", _binary, ("binary", "confidence"), {"edges": "uniform", "blocks": 8}),
        ("stream of classes", _classes, ("classwise", "confidence"), {"edges": "uniform"}),
        ("stream over a grid", _classes, ("classwise_two_bin",), {"blocks": 4}),
        ("stream without blocks", _classes, ("confidence",), {"edges": "uniform", "blocks": 0}),
    ):
        stream = tc.stream(errors, n_bins=4 if "edges" in options else None, **options)
        y, p = data(rng, 90)
        stream.update(y, p, sample_weight=rng.random(90))
        stream.update(y, p)
        made[name] = (stream, data)
    observed = tc.stream("confidence", n_bins=4)
    observed.observe(_classes(rng, 50)[1])
    made["stream that is not frozen"] = (observed, _classes)
    monitors: tuple[tuple[str, Any, dict[str, Any]], ...] = (
        ("monitor of one probability", _binary, {}),
        ("monitor of classes", _classes, {}),
        ("monitor with a reference", _binary, {"reference": _binary(rng, 150)}),
    )
    for name, data, options in monitors:
        monitor = tc.monitor(**options)
        monitor.update(*data(rng, 60))
        made[name] = (monitor, data)
    return made


VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 3, 2**31, 2**63, 10**30, 0.5, -0.0, float("nan"), float("inf"), -float("inf"), 1e308),
    *(
        "",
        "text",
        "a\nb",
        "nan",
        [],
        [[]],
        [1],
        [None],
        {},
        {"a": 1},
        [1, "a", None],
        [[0.0, 1.0]],
        "\ud800",
        "x" * 500,
    ),
)
DTYPES = ("float32", "float64", "int64", "uint8", "bool", "complex128", "<U3", "S2", "float16", ">f8")


def _pick(rng: Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _changed(rng: Generator, value: Any) -> Any:
    """The value with something inside it replaced, or another value altogether."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = _pick(rng, list(value))
        if rng.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: _changed(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = int(rng.integers(len(value)))
        if rng.random() < 0.2:
            return value[:place] if rng.random() < 0.5 else [*value, *value[place:]]
        return [*value[:place], _changed(rng, value[place]), *value[place + 1 :]]
    if isinstance(value, (int, float)) and rng.random() < 0.3:
        return value * _pick(rng, (-1, 2, 10**6, 0.5))
    return _pick(rng, VALUES)


def _changed_array(rng: Generator, array: Any) -> Any:
    kind = int(rng.integers(5))
    if kind == 0 and array.size:
        changed = array.copy()
        changed.flat[int(rng.integers(array.size))] = (
            _pick(rng, (np.nan, np.inf, -np.inf, -1.0, 1e308, 5e-324, 0.5)) if (array.dtype.kind == "f") else 255
        )
        return changed
    if kind == 1 and array.ndim:
        return _pick(rng, (array[..., :-1], array[None], array.ravel(), array.T, array[:0], np.zeros(()), array[::-1]))
    if kind == 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return array.astype(_pick(rng, DTYPES))
    if kind == 3 and array.size:
        return np.full_like(
            array, _pick(rng, (0, 1)) if array.dtype.kind != "f" else _pick(rng, (np.nan, -1.0, 0.0, 1e300))
        )
    return np.concatenate([array, array]) if array.ndim else array


def crafted(rng: Generator, kind: str, path: Path) -> None:
    """Change some fields of the state at `path`, or some of its bytes."""
    if rng.random() < 0.2:
        data = bytearray(path.read_bytes())
        for _ in range(int(rng.integers(1, 6))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        if rng.random() < 0.3:
            del data[int(rng.integers(len(data))) :]
        path.write_bytes(bytes(data))
        return
    about, arrays = read_state(path, kind, VERSIONS[kind])
    for _ in range(int(rng.integers(1, 3))):
        if rng.random() < 0.5 or not arrays:
            about = _changed(rng, about) if isinstance(about, dict) else about
            if not isinstance(about, dict):
                about = {}
        else:
            name = _pick(rng, list(arrays))
            arrays = (
                {n: x for n, x in arrays.items() if n != name}
                if rng.random() < 0.1
                else arrays | {name: _changed_array(rng, arrays[name])}
            )
    write_state(path, kind, VERSIONS[kind], {k: v for k, v in about.items() if isinstance(k, str)}, arrays)


def attempt(seed: int, number: int, folder: Path, made: dict[str, Any]) -> bool:
    """One crafted state of a seed, the same every time; whether it was loaded. Raises what should not be raised."""
    rng = np.random.default_rng([seed, number])
    names = list(made)
    original, data = made[names[number % len(names)]]
    kind = "stream" if isinstance(original, tc.Stream) else "monitor"
    path = folder / "state.npz"
    original.save(path)
    try:
        crafted(rng, kind, path)
    except (UnicodeEncodeError, OverflowError):  # JSON cannot hold it: nothing to load
        return False
    said: str | None = None
    try:
        loaded = type(original).load(path)
    except FileError as error:
        said = str(error)
    if said is not None:
        assert said.startswith(f"{path}: ") and "\n" not in said and len(said) < 1200, said
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        used(loaded, data(rng, 20))
    return True


def used(loaded: Any, rows: tuple[Any, Any]) -> None:
    """What was loaded goes on, or refuses in words; no number is NaN."""
    try:
        repr(loaded)
        if isinstance(loaded, tc.Stream) and not loaded.frozen:
            loaded.observe(rows[1])
            loaded.freeze()
        loaded.update(*rows)
        result = loaded.result()
    except (ValueError, TypeError) as error:
        if not str(error) or "\n" in str(error):
            raise AssertionError(f"the message is {str(error)!r}") from error
        return
    if isinstance(loaded, tc.Monitor):
        assert not np.isnan([result.evalue, result.largest]).any()
    repr(result)


def run(seed: int, numbers: range) -> Iterator[tuple[int, str]]:
    """The cases that fail, with what happened."""
    made = makers()
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            try:
                attempt(seed, number, Path(folder), made)
            except Exception as error:  # whatever it was, it is the finding
                yield number, fuzzing.failure(f"{list(made)[number % len(made)]}", error)


def main(given: list[str] | None = None) -> int:
    """Exit code 0 when every state ended as it should."""
    return fuzzing.main("fuzz_states", "Crafted states.", 2000, "states", run, given)


if __name__ == "__main__":
    sys.exit(main())
