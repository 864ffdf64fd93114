"""States of streams: whole or refused in words, and what is restored goes on as if nothing had happened."""

from __future__ import annotations

import json
import pickle
import zipfile
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import fuzz_states
import truecal as tc
from closeness import assert_close
from truecal.io import FileError
from truecal.io.state_files import read_state, write_state


def arrays(n: int = 300, k: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(k), n).astype(np.float32)
    return rng.integers(0, k, n), p / p.sum(axis=1, keepdims=True)


def made(errors: Any = ("classwise", "confidence", "full", "classwise_two_bin"), **options: Any) -> tc.Stream:
    stream = tc.stream(errors, n_bins=4, **options)
    stream.observe(arrays()[1])
    return stream.freeze()


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [0, 8])
def test_a_restored_stream_goes_on(tmp_path, blocks):
    y, p = arrays()
    path = tmp_path / "state.npz"
    stream = made(blocks=blocks)
    for half in (slice(0, 100), slice(100, 250)):  # saved between any two batches
        stream.update(y[half], p[half], sample_weight=np.linspace(0.5, 2, 300)[half])
        stream.save(path)
        stream = tc.Stream.load(path)
    stream.update(y[250:], p[250:])
    whole = made(blocks=blocks)
    assert whole.entries == stream.entries
    for half in (slice(0, 100), slice(100, 250)):
        whole.update(y[half], p[half], sample_weight=np.linspace(0.5, 2, 300)[half])
    whole.update(y[250:], p[250:])
    assert_close(stream.result(), whole.result(), 1)
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]


def test_before_it_is_frozen_and_with_names(tmp_path):
    _, p = arrays()
    stream = tc.stream("confidence", n_bins=4, labels=["a", "b", "c"])
    stream.observe(p[:100])
    stream.save(tmp_path / "half.npz")
    again = tc.Stream.load(tmp_path / "half.npz")
    for half in (stream, again):
        half.observe(p[100:])
    assert stream.freeze().entries == again.freeze().entries
    again.update(["c", "a"], p[:2])
    assert again.rows == 2
    assert_close(pickle.loads(pickle.dumps(again)).result(), again.result(), 1)  # as a cluster hands it on


def test_no_pickle_inside(tmp_path):
    y, p = arrays()
    stream = made()
    stream.update(y, p)
    stream.save(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz", allow_pickle=False) as found:
        about = json.loads(found["about"].tobytes())
        assert about["truecal"] == "stream" and about["version"] == 3
        assert all(found[name].dtype != object for name in found.files)


@pytest.mark.slow
def test_refused_in_words(tmp_path):
    y, p = arrays()
    stream = made()
    stream.update(y, p)
    path = tmp_path / "state.npz"
    stream.save(path)
    about, found = read_state(path, "stream", 3)

    def refused(words: str) -> None:
        with pytest.raises(FileError, match=words):
            tc.Stream.load(path)

    write_state(path, "stream", 1, about, found)
    refused("expected version 3 of the state of a stream, got version 1")
    write_state(path, "monitor", 1, about, found)
    refused("expected the state of a stream, but it is that of a 'monitor'")
    for name in ("0.count", "0.blocks.residual", "losses"):
        write_state(path, "stream", 3, about, {**found, name: found[name][..., :-1]})
        refused("damaged")
        write_state(path, "stream", 3, about, {key: x for key, x in found.items() if key != name})
        refused("the state of a stream")
    write_state(path, "stream", 3, {**about, "rows": 5}, found)
    refused("damaged")
    np.savez(path, probs=p)
    refused("holds other arrays")
    path.write_bytes(b"PK nothing of the kind")
    refused("expected an npz archive")
    path.unlink()
    refused("file not found")


@pytest.mark.slow
def test_every_flipped_byte_is_noticed_or_harmless(tmp_path):
    y, p = arrays(60)
    stream = tc.stream("confidence", n_bins=2, edges="uniform", blocks=4)
    stream.update(y, p)
    path = tmp_path / "state.npz"
    stream.save(path)
    good, wanted = path.read_bytes(), stream.result()
    for place in range(0, len(good), 37):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x55]) + good[place + 1 :])
        with suppress(FileError):
            assert_close(tc.Stream.load(path).result(), wanted, 1)
    path.write_bytes(good[:-40])
    with pytest.raises(FileError):
        tc.Stream.load(path)
    assert zipfile.is_zipfile(tmp_path / "state.npz") is False


def test_a_first_pass_comes_back_and_is_checked(tmp_path):
    stream = tc.stream("binary", n_bins=4)
    stream.observe(np.linspace(0, 1, 50))
    stream.save(tmp_path / "good.npz")
    loaded = tc.Stream.load(tmp_path / "good.npz")
    assert not loaded.frozen and loaded.freeze().rule("binary") == stream.freeze().rule("binary")
    about, arrays = read_state(tmp_path / "good.npz", "stream", 3)
    rows = arrays["first_pass"]
    for changed, extra in ((rows + 1, {}), (rows * np.nan, {}), (np.stack([rows] * 2), {}), (rows, {"observed": 49})):
        write_state(tmp_path / "bad.npz", "stream", 3, about | extra, arrays | {"first_pass": changed})
        with pytest.raises(FileError, match=r"bad.npz.*'first_pass'"):
            tc.Stream.load(tmp_path / "bad.npz")
    write_state(tmp_path / "old.npz", "stream", 3, about | {"sketches": [["binary", "Quantile", 1]]}, arrays)
    with pytest.raises(FileError, match=r"old.npz.*'sketches' are those of an earlier version"):
        tc.Stream.load(tmp_path / "old.npz")


@pytest.mark.heavy
def test_crafted_states_are_refused_or_work():
    assert list(fuzz_states.run(0, range(60))) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [2518, 2828])
def test_states_that_once_ended_in_other_errors(number, tmp_path):
    """An alarm without the sums that date it, and a first pass of no shape."""
    fuzz_states.attempt(42, number, tmp_path, fuzz_states.makers())


@pytest.mark.slow
@pytest.mark.heavy
def test_many_crafted_states_are_refused_or_work():
    assert list(fuzz_states.run(1, range(800))) == []


@pytest.mark.slow
def test_weights_of_any_unit_come_back(tmp_path):
    y, p = arrays(60)
    for unit in (1e-100, 1.0, 1e70):
        stream = made()
        for _ in range(2):
            stream.update(y, p, sample_weight=unit * np.linspace(0.5, 2, 60))
        stream.save(tmp_path / "state.npz")
        assert tc.Stream.load(tmp_path / "state.npz").result() == stream.result()
