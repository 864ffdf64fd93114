"""How a stream chooses its bins: as many as its memory allows; notes on fewer bins and on equal predictions."""

from __future__ import annotations

import numpy as np
import pytest

import truecal as tc
from truecal.core.rules import auto_bins
from truecal.evidence.stream_plan import STATE_BYTES, at_rows, read_plan, state_bytes


@pytest.mark.parametrize("rows", [10**4, 10**9, 10**12])
@pytest.mark.parametrize("classes", [2, 10, 1000, 20_000])
@pytest.mark.parametrize("blocks", [0, 64])
def test_sums_at_the_automatic_number_of_bins_fit_into_the_budget(rows, classes, blocks):
    entries = read_plan(("classwise", "confidence"), "auto", None)
    made = at_rows(entries, rows, classes, blocks)
    each = [state_bytes(entry, classes, blocks) for entry in made]
    fewest = sum(state_bytes(e, classes, blocks) / (e.n_bins or 1) * 2 for e in made)
    assert sum(each) <= max(STATE_BYTES, fewest)
    for entry, views in zip(made, (classes, 1), strict=True):
        wanted = auto_bins(rows, views)
        assert entry.n_bins == wanted or (entry.automatic == wanted and (entry.n_bins or 0) < wanted)
    assert at_rows(made, rows, classes, blocks) == made


def test_small_needs_are_met_before_large_ones():
    classwise, confidence = at_rows(read_plan(("classwise", "confidence"), "auto", None), 10**10, 1000, 64)
    assert confidence.automatic is None and confidence.n_bins == auto_bins(10**10)
    assert classwise.automatic == 158_489 and (classwise.n_bins or 0) < 100


@pytest.mark.slow
def test_a_note_names_the_bins_that_are_left_out(rng, tmp_path, monkeypatch):
    monkeypatch.setattr("truecal.evidence.stream_plan.STATE_BYTES", 1 << 16)
    p = rng.dirichlet(np.ones(5), 2000)
    y = rng.integers(0, 5, 2000)
    stream = tc.stream()
    stream.update(y, p)
    stream.save(tmp_path / "state.npz")
    for one in (stream, stream.merge(stream), tc.Stream.load(tmp_path / "state.npz")):
        result = one.result()
        used = result.row("classwise").n_bins
        assert any(f"classwise has {used} bins, not the automatic 40" in note for note in result.notes)
    named = tc.stream(n_bins=40)
    named.update(y, p)
    assert not any("automatic" in note for note in named.result().notes)


@pytest.mark.slow
@pytest.mark.parametrize("first_pass", [False, True])
def test_a_note_tells_that_equal_predictions_stay_together(rng, first_pass):
    chances = rng.dirichlet(np.ones(4), 3000)
    y = (chances.cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    for p, tied in ((rng.multinomial(10, chances) / 10, True), (chances, False)):
        stream = tc.stream()
        if first_pass:
            stream.observe(p)
            stream.freeze()
        stream.update(y, p)
        assert any("many predictions of classwise" in note for note in stream.result().notes) == tied
