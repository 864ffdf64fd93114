"""A stream without edges in a single pass: the first rows are kept, and give the edges by their predictions alone."""

from __future__ import annotations

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.scale import stream as module


def world(n: int, seed: int = 0, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    p = np.exp(1.3 * z)
    return (z + rng.gumbel(size=z.shape)).argmax(axis=1), p / p.sum(axis=1, keepdims=True)


@pytest.fixture
def few(monkeypatch):
    """Edges from 500 rows."""
    monkeypatch.setattr(module, "KEPT_ROWS", 500)


def fed(y, p, size: int, **options) -> tc.Stream:
    made = tc.stream(**options)
    for start in range(0, len(y), size):
        made.update(y[start : start + size], p[start : start + size])
    return made


def test_a_result_before_the_edges_are_frozen_is_that_of_memory():
    y, p = world(2000)
    found = fed(y, p, 300, errors=("classwise", "confidence"), n_bins=10)
    assert not found.frozen and found.rows == 2000
    result = found.result()
    for error in ("classwise", "confidence"):
        assert_close(result.row(error).value, tc.CalibrationError(tc.ERRORS[error].property, tc.Quantile(10))(y, p))
    assert any("first 2,000 rows" in note for note in result.notes)
    assert not found.frozen and result == found.result()
    found.update(*world(100, 1))
    assert found.result().n_samples == 2100


def test_the_edges_come_from_the_first_rows_however_they_are_divided(few):
    y, p = world(3000)
    streams = [fed(y, p, size, errors="confidence", n_bins=10) for size in (70, 500, 3000)]
    assert all(stream.frozen and stream.kept == 500 for stream in streams)
    edges = [stream.rule("confidence") for stream in streams]
    assert edges[0] == edges[1] == edges[2]
    twice = tc.stream("confidence", edges=edges[0])
    twice.update(y, p)
    assert_close(streams[0].result().row("confidence").value, twice.result().row("confidence").value)
    assert streams[0].result().n_samples == 3000
    assert any("first 500 rows" in note for note in streams[0].result().notes)


def test_the_edges_look_at_no_label(few):
    y, p = world(600)
    first, second = (fed(labels, p, 100, errors="confidence", n_bins=10) for labels in (y, (y + 1) % 4))
    assert first.rule("confidence") == second.rule("confidence")


def test_rows_that_wait_are_copies(few):
    y, p = world(200)
    expected = fed(y, p, 100, errors="confidence", n_bins=5).result()
    made, given = tc.stream("confidence", n_bins=5), p.copy()
    made.update(y, given)
    given[:] = 0.25
    assert made.result().row("confidence").value == pytest.approx(expected.row("confidence").value)


def test_merging_while_rows_wait_and_after(few):
    y, p = world(900)
    options = {"errors": "confidence", "n_bins": 5}
    whole = fed(y, p, 100, **options).result().row("confidence").value
    a, b = fed(y[:300], p[:300], 100, **options), fed(y[300:], p[300:], 100, **options)
    assert not a.frozen and b.frozen
    merged = a.merge(b)
    assert merged.rows == 900 and merged.frozen and a.rows == 300 and not a.frozen
    assert merged.rule("confidence") == b.rule("confidence")
    assert b.merge(a).rows == 900
    c = fed(y[300:450], p[300:450], 50, **options)
    both = a.merge(c)
    assert both.rows == 450 and not both.frozen
    both.update(y[450:], p[450:])
    assert both.frozen and both.result().row("confidence").value == pytest.approx(whole)
    with pytest.raises(ValueError, match="cannot merge streams of different errors"):
        b.merge(fed(y[:100], p[:100], 100, errors="classwise", n_bins=5))


def test_saving_freezes_the_edges(few, tmp_path):
    y, p = world(400)
    made = fed(y, p, 100)
    made.save(tmp_path / "state.npz")
    assert made.frozen and made.kept == 400
    loaded = tc.Stream.load(tmp_path / "state.npz")
    assert_close(loaded.result().score, made.result().score)


def test_one_probability_per_row_and_weights():
    rng = np.random.default_rng(0)
    p = rng.random(1000)
    y, weight = rng.random(1000) < p, rng.random(1000)
    made = tc.stream()
    made.update(y, p, sample_weight=weight)
    assert [error.error for error in made.result().errors] == ["binary", "binary_l1"]
    assert made.freeze() is made and made.frozen


def test_a_refused_batch_leaves_no_trace():
    y, p = world(100)
    made = fed(y, p, 100)
    with pytest.raises(ValueError, match=r"in the batch that begins at row 100 of the stream"):
        made.update(y, 2 * p)
    with pytest.raises(ValueError, match="expected predictions as in earlier updates"):
        made.update(*world(10, k=3))
    assert made.rows == 100
    with pytest.raises(ValueError, match="observe comes before update"):
        made.observe(p)
