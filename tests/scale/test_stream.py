"""A stream equals the in-memory result over the same frozen cells, however its rows are divided."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
import truecal as tc
from closeness import assert_close

CLASSES = ("classwise", "confidence", "confidence_uncorrected", "confidence_l1", "classwise_l1", "full")


def world(n: int = 600, k: int = 4, seed: int = 0, factor: float = 1.3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    p, q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (z, factor * z))
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), q


def observed(errors: Any, p: Any, **options: Any) -> tc.Stream:
    """A stream whose quantile bins are frozen at these predictions."""
    stream = tc.stream(errors, **options)
    stream.observe(p)
    return stream.freeze()


def unfrozen(p: Any) -> tc.Stream:
    stream = tc.stream("confidence")
    stream.observe(p)
    return stream


def fed(stream: tc.Stream, y: Any, p: Any, cuts: Any, w: Any = None) -> tc.Stream:
    for a, b in pairwise([0, *sorted(cuts), len(p)]):
        stream.update(y[a:b], p[a:b], sample_weight=None if w is None else w[a:b])
    return stream


def assert_equal(stream: tc.Stream, y: Any, p: Any, w: Any = None) -> None:
    """Every entry against the error over the same cells in memory."""
    for entry in stream.entries:
        error, table = entry.error, stream.table_of(entry)
        sample = error.read(y, p, sample_weight=w)
        value = float(error.of(sample)[0])
        scale = max(abs(value), 1e-300)
        if error.norm == "l2":
            wanted, found = error.parts(sample)[0], error.parts_of_table(table)
            scale = max(value, wanted.loss / sample.size)
            for name in ("error", "loss", "U"):
                unit = scale if name == "error" else scale * sample.size
                assert abs(getattr(found, name) - getattr(wanted, name)) <= 1e-12 * unit, (entry.name, name)
            if not isinstance(entry.rule, tc.rules.OnGrid):  # a kernel may give all pairs next to no weight
                assert found.gap_sq == pytest.approx(wanted.gap_sq, abs=1e-11, nan_ok=True)
        assert abs(error.of_table(table) - value) <= 1e-12 * max(scale, 1e-3), entry.name
        if isinstance(entry.rule, tc.rules.OnGrid):
            continue
        (memory,) = tc.analysis.tabulate(error.property, entry.rule, y, p, sample_weight=w)
        assert memory.edges is not None and table.edges is not None
        assert memory.edges.dtype == table.edges.dtype and (memory.edges == table.edges).all()
        if w is None:
            np.testing.assert_array_equal(memory.count, table.count)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(strategies.multiclass(max_n=30), st.data())
def test_any_division_into_batches_gives_the_same_table(arrays, data):
    y, p, w = arrays
    cuts = data.draw(st.lists(st.integers(0, len(y)), max_size=4))  # equal cuts are empty batches
    m, blocks = data.draw(st.integers(1, 7)), data.draw(st.sampled_from([0, 4, 64]))
    uniform = tc.stream([*CLASSES[:-1], "classwise_two_bin"], n_bins=m, blocks=blocks)
    uniform.observe(p)
    assert_equal(fed(uniform.freeze(), y, p, cuts, w), y, p, w)
    assert_equal(fed(observed("full", p, n_bins=m, blocks=blocks), y, p, cuts, w), y, p, w)
    even = tc.stream(CLASSES[:-1], n_bins=(m, 2 * m), edges="uniform", blocks=blocks)
    assert_equal(fed(even, y, p, cuts, w), y, p, w)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**20), st.lists(st.integers(0, 90), min_size=2, max_size=2), st.booleans())
def test_merged_in_any_order(seed, cuts, weighted):
    y, p = world(90, 3, seed)
    w = np.random.default_rng(seed).random(90) if weighted else None
    empty = observed(("classwise", "confidence"), p, n_bins=5)
    parts = [
        fed(empty.merge(empty), y[a:b], p[a:b], [], None if w is None else w[a:b])
        for a, b in pairwise([0, *sorted(cuts), 90])
    ]
    for order in permutations(parts):
        one, two, three = order
        assert_equal(one.merge(two).merge(three), y, p, w)
        assert_equal(one.merge(two.merge(three)), y, p, w)
    whole, merged = fed(empty.merge(empty), y, p, [], w), parts[0].merge(parts[1]).merge(parts[2])
    for entry in whole.entries:  # in the order of the rows the blocks are the same, and so are the intervals
        mine, theirs = whole.tally_of(entry).blocks, merged.tally_of(entry).blocks
        assert mine is not None and theirs is not None
        np.testing.assert_allclose(mine.residual, theirs.residual, atol=1e-12)
    rows = [row for row in merged.result().errors if row.gap_low is not None]
    for row, other in zip(rows, [r for r in whole.result().errors if r.gap_low is not None], strict=True):
        assert row.U_low == pytest.approx(other.U_low, abs=1e-9)


def test_soft_labels_one_probability_and_top_labels():
    y, p = world(200, 3)
    soft = np.random.default_rng(1).dirichlet([1, 1, 1], 200)
    assert_equal(fed(observed(("classwise", "confidence", "full"), p), soft, p, [7, 80]), soft, p)
    for stream in (tc.stream(("binary", "binary_l1", "binary_two_bin"), n_bins=8), tc.stream("top_label", n_bins=8)):
        stream.observe(p[:, 0])
        right = (y == 0).astype(int)
        assert_equal(fed(stream.freeze(), right, p[:, 0], [3, 150]), right, p[:, 0])


def test_a_block_is_every_64th_row():
    y, p = world(200)
    stream = fed(tc.stream("confidence", n_bins=5, edges="uniform"), y, p, [1, 70, 71])
    blocks = stream.tally_of(stream.entry("confidence")).blocks
    assert blocks is not None
    for b in range(64):
        table = tc.analysis.tabulate(tc.Confidence(), tc.EqualWidth(5), y[b::64], p[b::64])[0]
        np.testing.assert_allclose(blocks.residual[b], table.residual, atol=1e-14)
        assert blocks.of("weight")[b] == table.rows
        assert blocks.of("wrong")[b] == table.totals.wrong


def test_ties_stay_together_and_the_number_of_bins_stays():
    """Four rows in five share a prediction: edges repeat, and the bins between them are empty."""
    p = np.array([0.3] * 80 + list(np.linspace(0.01, 0.99, 20)))
    y = np.arange(100) % 3 == 0
    stream = fed(observed("binary", p, n_bins=10), y, p, [50])
    table = stream.table("binary")
    assert table.count.shape == (1, 10) and (table.count == 0).sum() >= 6 and table.count.max() >= 80
    assert stream.result().score == pytest.approx(tc.score(y, p), rel=1e-12)


def test_few_predictions_give_the_quantile_bins_themselves():
    """Up to the size of the sketch the edges are those of sorted rows."""
    y, p = world(500, 3)
    stream = fed(observed(("classwise", "confidence"), p, n_bins=7), y, p, [100])
    for name in ("classwise", "confidence"):
        error = tc.ERRORS[name]
        exact = tc.analysis.tabulate(error.property, tc.Quantile(7, ties="together"), y, p)[0]
        np.testing.assert_array_equal(stream.table(name).count, exact.count)


def test_many_rows_give_bins_of_nearly_equal_size():
    p = np.random.default_rng(0).beta(2, 5, 60_000)
    half = tc.stream("binary", n_bins=20)
    half.observe(p[:20_000])
    rest = tc.stream("binary", n_bins=20)
    for start in range(20_000, 60_000, 10_000):
        rest.observe(p[start : start + 10_000])
    stream = half.merge(rest).freeze()
    stream.update(np.zeros(60_000), p)
    assert np.abs(stream.table("binary").count / 3000 - 1).max() < 0.15


@pytest.mark.heavy
def test_a_hundred_thousand_sums_lose_no_digit():
    """Sums of very unequal size in ten cells, one batch after the other; exact fractions are the judge."""
    from fractions import Fraction

    from truecal.core.sample import Totals
    from truecal.core.table import BinTable
    from truecal.evidence.stream_table import StreamTable

    rng = np.random.default_rng(0)
    values = rng.choice([1.0, -1.0], (10_000, 10)) * 10.0 ** rng.uniform(-8, 8, (10_000, 10))
    values[1::2] = -values[::2] * (1 + 1e-9)  # nearly all of it cancels
    empty = BinTable.empty(tc.Binary(), tc.EqualWidth(10))
    total, one = StreamTable.of(empty), np.ones((1, 10))
    for row in values[:, None]:
        rows = Totals(10, 10.0, 10.0, 1.0)
        table = BinTable("binary", tc.EqualWidth(10), one, one, row, 0 * one, row * row, rows, edges=empty.edges)
        total = total.merge(StreamTable.of(table))
    found, plain = total.whole().residual[0], np.add.accumulate(values)[-1]
    worst = Fraction(0)
    for j in range(10):
        exact = sum(map(Fraction, values[:, j].tolist()), Fraction(0))
        assert abs(Fraction(float(found[j])) - exact) <= abs(exact) / 10**13
        worst = max(worst, abs(Fraction(float(plain[j])) - exact) / abs(exact))
    assert worst > Fraction(1, 10**13)  # adding up without care would not do


def test_a_batch_that_is_refused_changes_nothing():
    y, p = world(100, 3)
    stream = fed(tc.stream("confidence", n_bins=5, edges="uniform"), y, p, [])
    before = stream.result()
    bad = p.copy()
    bad[3, 1] = np.nan
    for labels, probabilities, words in (
        (y, bad, r"row 3, column 1.*begins at row 100"),
        (
            y,
            p.astype(np.float32),
            "as in earlier updates, float64 of 3 classes, got float32 of 3 classes",
        ),
        (y, p[:, :2], r"begins at row 100|same length|columns"),
        (y, p[:, 0], "expected a column per class"),
        (y + 1, p, "0..2|1-based|column indices"),
        (y, p[:0], "same length"),
    ):
        with pytest.raises(ValueError, match=words):
            stream.update(labels, probabilities)
    assert_close(stream.result(), before, 1)
    assert stream.rows == 100


def test_refusals_in_words():
    y, p = world(100, 3)
    for make, words in (
        (lambda: tc.stream("linear"), "cannot be streamed"),
        (lambda: tc.stream(tc.CalibrationError(tc.Full(), tc.rules.KdTree(4))), "cannot be streamed"),
        (
            lambda: tc.stream(tc.CalibrationError(tc.Full(), tc.rules.KdTree(4))),
            "makes its cells from all predictions at once",
        ),
        (lambda: tc.stream(("top_label", "classwise")), "one kind of predictions"),
        (lambda: tc.stream("binary", blocks=2), "blocks must be 0"),
        (lambda: tc.stream("binary", edges="equal"), "edges must be 'uniform'"),
        (lambda: tc.stream("binary", n_bins=3, edges=[0, 0.5, 1]), "n_bins=3 cannot be used"),
        (lambda: tc.stream("full", edges="uniform"), "cannot be used with 'full'"),
        (
            lambda: tc.stream("binary", edges=tc.analysis.tabulate(tc.Binary(), tc.Quantile(3), y == 0, p[:, 0])[0]),
            "observe",
        ),
        (lambda: unfrozen(p).update(y, p), r"freeze\(\) after the last observe"),
        (lambda: tc.stream("confidence").freeze(), "no predictions were observed"),
        (lambda: tc.stream("confidence", edges="uniform").observe(p), "known already"),
        (lambda: tc.stream("confidence", edges="uniform").result(), "no rows yet"),
        (lambda: observed("confidence", p).table("classwise"), "not measured here"),
        (lambda: tc.stream("binary", edges=[0.2, 0.5, 1]).update([0], [0.1]), "do not cover the prediction"),
    ):
        with pytest.raises(ValueError, match=words):
            make()
    frozen = observed("confidence", p, n_bins=5)
    for other, words in (
        (observed("classwise", p, n_bins=5), "different errors"),
        (observed("confidence", p, n_bins=6), "different bins"),
        (observed("confidence", p[:50], n_bins=5), "different edges"),
        (observed("confidence", p, n_bins=5, blocks=8), "numbers of blocks"),
        (observed("confidence", p, n_bins=5, labels=["a", "b", "c"]), "different labels"),
    ):
        with pytest.raises(ValueError, match=f"cannot merge streams of .*{words}"):
            frozen.merge(other)


def test_edges_of_another_stream_table_or_result():
    y, p = world(300, 3)
    first = fed(observed(("confidence", "classwise"), p, n_bins=6), y, p, [])
    for edges in ({"confidence": first.table("confidence")}, first.result(), {"confidence": first.rule("confidence")}):
        again = fed(tc.stream("confidence", edges=edges), y, p, [10])
        assert again.rule("confidence") == first.rule("confidence")
        assert_close(again.result().row("confidence").value, first.result().row("confidence").value, 1)


def test_the_result_reads_like_an_evaluation():
    y, p = world(8000, 4, factor=1.6)
    found = fed(observed(("classwise", "confidence", "confidence_l1"), p, n_bins=15), y, p, [1000]).result(name="net")
    memory = tc.evaluate(y, p, n_bins=15, errors=["classwise", "confidence"], n_resamples=99, name="net")
    assert_close(found.accuracy, memory.accuracy)
    assert found.n_classes == 4 and found.test is None
    for name in ("brier", "confidence_loss"):
        one, other = found.loss(name), memory.loss(name)
        assert one.value == pytest.approx(other.value, rel=1e-12)
        assert one.low is not None and other.low is not None
        assert one.value - one.low == pytest.approx(other.value - other.low, rel=0.4)
    gap, in_memory = found.gaps["confidence"], memory.gaps["confidence"]
    assert gap.direction == in_memory.direction == "over-confident"
    assert (gap.low, gap.high) == pytest.approx((in_memory.low, in_memory.high), abs=0.6)
    assert "need the rows" in found.notes[0] and "over-confident" in repr(found) and found.to_dict()["test"] is None
    assert found.direction.gap == pytest.approx(memory.direction.gap, abs=1e-12)
    assert found.direction.se == pytest.approx(memory.direction.se, rel=1e-3)


def test_without_blocks_there_are_values_but_no_intervals():
    y, p = world(300, 3)
    found = fed(tc.stream("confidence", n_bins=5, edges="uniform", blocks=0), y, p, [10]).result()
    assert found.gap is not None and "blocks=0" in found.gap.note and found.loss("confidence_loss").low is None
    assert found.row("confidence").gap_low is None and np.isfinite(found.gap.points)
