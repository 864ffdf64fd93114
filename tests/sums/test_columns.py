"""What a stream measures of each row, in one compiled pass: the numbers of the plain path."""

from __future__ import annotations

import numpy as np
import pytest

from closeness import assert_close
from truecal.core import dispatch
from truecal.evidence import stream_state as sums
from truecal.io import FileError, dataset
from truecal.io.dataset import open_dataset
from truecal.kinds import CLASSES
from truecal.kinds.inputs import Inputs
from truecal.scale import stream as streams
from truecal.scale.files import evaluate_dataset

pytest.importorskip("numba", reason="loops are compiled with numba")
from truecal.sums.compiled_columns import row_facts  # after importorskip


def rows(rng, dtype, n=2500, k=7):
    p = rng.dirichlet(np.full(k, 0.3), n)
    p[:20] = np.eye(k)[rng.integers(0, k, 20)]  # certain, and mostly wrong
    p[20:40] = 1 / k  # ties
    p[40:60, 2] = p[40:60, 5]
    p = (p / p.sum(axis=1, keepdims=True)).astype(dtype)
    return rng.integers(0, k, n), np.asfortranarray(p)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_facts_of_rows_are_those_of_numpy(rng, dtype):
    y, p = rows(rng, dtype)
    facts = row_facts(p)
    right, own = facts.of_labels(y)
    np.testing.assert_array_equal(right, p.argmax(axis=1) == y)
    assert_close(facts.confidence, p.max(axis=1))
    assert_close(own, p[np.arange(len(y)), y])
    assert_close(facts.squares, np.square(p.astype(np.float64)).sum(axis=1))
    assert_close([facts.least, facts.most], [p.min(), p.max()])
    assert facts.off == 0
    p[5, 1], p[7, 3] = np.nan, 3.0
    assert row_facts(p).off == 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_stream_of_columns_is_that_of_rows(rng, monkeypatch, dtype, weighted):
    y, p = rows(rng, dtype)
    w = rng.random(len(y)) if weighted else None

    def counted_stream(proba):
        made = streams.stream(("classwise", "confidence", "confidence_l1"), n_bins=6, edges="uniform")
        for batch in (slice(0, 1100), slice(1100, None)):
            part = np.asfortranarray(proba[batch]) if proba.flags.f_contiguous else proba[batch]
            made.count(Inputs(CLASSES, y[batch], part, None if w is None else w[batch]))
        return made.result()

    plain = counted_stream(np.ascontiguousarray(p))
    monkeypatch.setattr(sums, "DISPATCH", dispatch.Dispatch(compiled_stream=1))
    looked, known = [], Inputs.facts

    def facts(self, compiled):
        looked.append(known(self, compiled))
        return looked[-1]

    monkeypatch.setattr(Inputs, "facts", facts)
    found = counted_stream(p)
    assert [facts is None for facts in looked] == [weighted, weighted]
    for one, other in zip(found.losses, plain.losses, strict=True):
        if np.isfinite(other.value):
            assert_close([one.value, one.low or 0, one.high or 0], [other.value, other.low or 0, other.high or 0])
        else:
            assert one == other
    for one, other in zip(found.errors, plain.errors, strict=True):
        assert_close(one.value, other.value)
    assert found.notes == plain.notes  # rows with an infinite loss are counted


@pytest.mark.slow
def test_a_file_is_checked_and_measured_by_the_facts_of_its_rows(rng, monkeypatch, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    y, p = rows(rng, np.float32)

    def write(name, p):
        path = tmp_path / name
        parquet.write_table(pa.table({"label": y, **{f"p{j}": column.copy() for j, column in enumerate(p.T)}}), path)
        return path

    good = write("good.parquet", p)
    p[2000, 3] += 0.5
    bad = write("bad.parquet", p)

    def both():
        with pytest.raises(FileError, match="row 2000") as raised:
            evaluate_dataset(open_dataset(bad), one_pass=True)
        return evaluate_dataset(open_dataset(good), one_pass=True), str(raised.value)

    plain, said = both()
    seen = []
    monkeypatch.setattr(dataset, "DISPATCH", dispatch.Dispatch(compiled_rows=1))
    monkeypatch.setattr(Inputs, "facts", lambda self, compiled, known=Inputs.facts: seen.append(known(self, False)))
    assert both()[1] == said and seen and None not in seen
    monkeypatch.undo()
    monkeypatch.setattr(dataset, "DISPATCH", dispatch.Dispatch(compiled_rows=1))
    found, _ = both()
    for one, other in zip(found.errors, plain.errors, strict=True):
        assert_close(one.value, other.value)
    assert_close([loss.value for loss in found.losses[:1]], [loss.value for loss in plain.losses[:1]])
