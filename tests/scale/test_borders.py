"""What a stream may be fed: roundings, weights of nothing, names that are not there, a batch that was interrupted."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import truecal as tc
from truecal.core import edges as core_edges
from truecal.evidence import stream_state as module
from truecal.evidence import stream_table as tally
from truecal.evidence.kept_rows import KeptRows


def sample(n: int = 200, k: int = 3, dtype: Any = np.float64) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(k), n).astype(dtype)
    return rng.integers(0, k, n), p


@pytest.mark.parametrize("exponent", [-390, -140, 140, 390])
def test_results_do_not_depend_on_the_unit_of_weights(exponent):
    y, p = sample(600)
    weights = np.random.default_rng(1).random(len(y))
    found = []
    for unit in (0, exponent):
        stream = tc.stream(n_bins=5, edges="uniform")
        stream.update(y, p, sample_weight=np.ldexp(weights, unit))
        found.append(stream.result())
    usual, far = found
    assert str(far.gap) == str(usual.gap) and "trusted" not in str(usual.gap)
    for mine, wanted in zip(far.losses, usual.losses, strict=True):
        ends = [[one.value, one.low, one.high] for one in (mine, wanted)]
        np.testing.assert_allclose(np.array(ends[0], float), np.array(ends[1], float), rtol=1e-12, err_msg=mine.name)


def test_labels_that_no_state_can_hold_are_named(tmp_path):
    stream = tc.stream("classwise", n_bins=3, edges="uniform", labels=np.array([b"a", b"b"]))
    stream.update(np.array([b"a", b"b"]), [[0.5, 0.5], [0.2, 0.8]])
    with pytest.raises(TypeError, match="text, numbers or booleans to be saved, got b'a'"):
        stream.save(tmp_path / "state.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [0, 1 << 60])
def test_a_prediction_above_1_by_a_rounding_is_in_the_last_bin(dtype, rows):
    """Validation lets it pass, as means of probabilities come out so: frozen quantiles must hold it too."""
    y, p = sample(dtype=dtype)
    p[7] = [1 + 4 * np.finfo(dtype).eps, -4 * np.finfo(dtype).eps, 0]
    stream = tc.stream(("classwise", "confidence"), n_bins=4).expect(rows)
    stream.observe(p)
    stream.freeze().update(y, p)
    for name in ("classwise", "confidence"):
        rule, property = stream.rule(name), tc.ERRORS[name].property
        (memory,) = tc.analysis.tabulate(property, rule, y, p)
        np.testing.assert_array_equal(stream.table(name).count, memory.count)
        assert stream.result().row(name).value == pytest.approx(tc.CalibrationError(property, rule)(y, p), rel=1e-12)
    with pytest.raises(ValueError, match=r"edges run from 0 to 0\.99 and do not cover the prediction 1 at row 0"):
        tc.stream("binary", edges=[0, 0.5, 0.99]).update([1], [1.0])


def test_merging_leaves_both_first_passes_as_they_were():
    first, second = (tc.stream("binary", n_bins=5) for _ in range(2))
    first.observe(np.linspace(0, 1, 50))
    for both in (first.merge(second), second.merge(first)):
        both.observe(np.full(50, 0.01))
        assert both.first_pass.number == 100
    assert (first.first_pass.number, second.first_pass.number) == (50, 0)


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_kept_rows_are_spread_evenly_whatever_the_batches(batch, monkeypatch):
    monkeypatch.setattr("truecal.evidence.kept_rows.MOST_ROWS", 100)
    kept, rows = KeptRows(), np.arange(1000.0)
    for start in range(0, 1000, batch):
        kept.add(rows[start : start + batch])
    np.testing.assert_array_equal(kept.rows, np.arange(0, 1000, 16))
    assert (kept.stride, kept.observed, kept.number) == (16, 1000, 63)
    few = KeptRows()
    few.add(rows[:40])
    both = few.merge(kept)
    assert (both.stride, both.observed) == (16, 1040)
    np.testing.assert_array_equal(both.rows, np.r_[0:40:16, 0:1000:16])
    assert few.number == 40 and kept.number == 63


def test_weights_of_nothing():
    y, p = sample(50)
    stream = tc.stream("confidence", n_bins=5, edges="uniform")
    for weights in (np.zeros(7), np.zeros((50, 1))):
        with pytest.raises(ValueError, match=r"sample_weight must have shape \(50,\), got"):
            stream.update(y, p, sample_weight=weights)
    stream.update(y, p, sample_weight=np.zeros(50))
    with pytest.raises(ValueError, match="expected rows with weights above 0, all 50 so far have weights of 0"):
        stream.result()
    stream.update(y, p)
    assert stream.rows == 100 and stream.result().loss("confidence_loss").value > 0


def test_names_and_numbers_that_cannot_apply_are_refused_in_words():
    with pytest.raises(
        ValueError, match=r"edges has 'bniary', which is not measured here; expected some of \['binary'\]"
    ):
        tc.stream("binary", edges={"bniary": [0, 0.5, 1]})
    blocks: Any = np.int64(8)
    assert tc.stream("binary", edges="uniform", blocks=blocks).settings["blocks"] == 8
    stream = tc.stream("binary", edges="uniform", n_bins=5)
    with pytest.raises(ValueError, match=r"expected one probability per row, got predictions of shape \(\)"):
        stream.update(1, 0.5)
    with pytest.raises(ValueError, match="must be one-dimensional, got shape"):
        tc.stream("binary").observe(0.5)


def test_few_rows_are_not_said_to_be_without_blocks():
    stream = tc.stream("binary", n_bins=5, edges="uniform")
    stream.update([1, 0, 1], [0.5, 0.4, 0.3])
    gap = stream.result().gap
    assert gap is not None and "too few rows" in gap.note and np.isnan(gap.low)


def test_a_batch_that_was_interrupted_is_never_half_counted(monkeypatch, tmp_path):
    """Ctrl-C between two tables of a batch: blocks and tables no longer agree, and nothing is read off them."""
    y, p = sample()
    stream = tc.stream(("classwise", "confidence"), n_bins=5, edges="uniform")
    stream.update(y, p)
    stream.save(tmp_path / "state.npz")

    def interrupted(found: Any, rule: Any, *more: Any, **options: Any) -> Any:
        if found.kind == "confidence":
            raise KeyboardInterrupt
        return tally.tally(found, rule, *more, **options)

    monkeypatch.setattr(module, "tally", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream.update(y, p)
    monkeypatch.undo()
    calls: tuple[Any, ...] = (
        stream.result,
        lambda: stream.table("confidence"),
        lambda: stream.update(y, p),
        lambda: stream.merge(stream),
        lambda: stream.save(tmp_path / "state.npz"),
    )
    for call in calls:
        with pytest.raises(ValueError, match="a batch was interrupted while it was counted"):
            call()
    assert tc.Stream.load(tmp_path / "state.npz").rows == len(y)


@pytest.mark.parametrize("views", [1, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_table_of_intervals_is_a_search(views, dtype):
    """Few and many edges, repeated, crowded and tiny; values at edges, beside them, and outside by a rounding."""
    rng = np.random.default_rng(0)
    for m in (1, 2, 15, 600):
        inner = rng.choice(
            [0.0, 0.3, 1.0, *rng.random(m), *(0.7 + 1e-6 * rng.random(m)), *10.0 ** (-40 * rng.random(m))], m
        )
        edges = np.concatenate([[0], np.sort(inner.clip(0, 1)), [1]]).astype(dtype)
        ends = [-0.0, -1e-9, 1 + 4 * np.finfo(dtype).eps, np.finfo(dtype).tiny, 5e-324]
        one = dtype(1)
        values = np.concatenate([edges, np.nextafter(edges, one), np.nextafter(edges, -one), rng.random(999), ends])
        values = values.astype(dtype)
        wanted = core_edges.interval_index(values, edges)
        np.testing.assert_array_equal(core_edges.IntervalLookup(edges, views)(values), wanted)


@pytest.mark.slow
def test_nothing_is_kept_of_a_stream_that_is_gone():
    """A process that makes a stream a day, each over edges of its own."""
    gc.collect()
    before = len(tally._MADE)
    y, p = sample()
    for day in range(3):
        edges = np.sort(np.random.default_rng(day).random((3, 6)), axis=1)
        edges[:, 0], edges[:, -1] = 0, 1
        tc.stream("classwise", edges=edges).update(y, p)
    gc.collect()
    assert len(tally._MADE) <= before


def test_reading_the_blocks_takes_no_copy_of_them():
    """They are most of what a stream of many classes keeps."""
    y, p = sample(300, 100)
    stream = tc.stream("classwise", n_bins=200, edges="uniform")
    stream.update(y, p)
    stream.result()  # what is loaded or made once
    blocks = stream.tally_of(stream.entry("classwise")).blocks
    assert blocks is not None
    tracemalloc.start()
    stream.result()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < blocks.residual.nbytes


@pytest.mark.parametrize("errors", ["classwise_two_bin", "classwise"])
def test_what_is_made_of_edges_is_made_once(monkeypatch, errors):
    """Also of the grid under an average, and of the one bin that gives the accuracy."""
    y, p = sample(3000)
    made: list[Any] = []
    made_by = core_edges.IntervalLookup

    def counted(*args: Any) -> Any:
        made.append(args)
        return made_by(*args)

    monkeypatch.setattr(core_edges, "IntervalLookup", counted)
    monkeypatch.setattr(tally, "_MADE", WeakKeyDictionary())  # streams of other tests may have the same rule
    stream = tc.stream(errors, edges=None if "two" in errors else "uniform")
    stream.update(y, p)
    first = len(made)
    stream.update(y, p)
    assert first and len(made) == first
