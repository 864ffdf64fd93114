"""Long data: every further row takes at most three times the memory of its label and its prediction, in all."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.inference.binned_sample import BinnedSample
from truecal.inference.spread import paired_spread, spreads
from truecal.kinds.inputs import read_inputs

FEW, MANY = 110_000, 250_000

KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "spread out": lambda rng, n: rng.random(n),
    "sharp": lambda rng, n: 1e-4 * rng.random(n),  # few surprises: the exact law of their number
    "two digits": lambda rng, n: rng.random(n).round(2),  # ties: drawn bands
}


def predictions(kind: str, n: int, models: int, dtype: type) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    p = KINDS[kind](rng, n)
    y = (rng.random(n) < p**1.1).astype(np.int64)
    return y, [(p ** (1 + i / 20)).astype(dtype) for i in range(models)]


def peak(work: Callable[[], object]) -> int:
    """The most memory that numpy and Python held for it, beyond what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def cost_of_a_row(kind: str, models: int, dtype: type) -> float:
    """Bytes beyond the arrays that one more row takes; what does not grow with the rows cancels."""
    found = []
    for n in (FEW, MANY):
        y, several = predictions(kind, n, models, dtype)
        if models == 1:
            found.append(peak(partial(tc.evaluate, y, several[0])))
        else:
            found.append(peak(partial(tc.compare, y, {str(i): p for i, p in enumerate(several)})))
    return (found[1] - found[0]) / (MANY - FEW)


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calibration test looks at so many rows and no more, and what rows add is made anew, as with millions."""
    monkeypatch.setattr("truecal.inference.omnibus.MOST_ROWS", 1 << 12)
    monkeypatch.setattr("truecal.inference.view_sums.MOST_KEPT", 1 << 12)
    monkeypatch.setattr("truecal.evidence.memory.MOST_ORDERED", 1 << 12)


@pytest.mark.heavy
@pytest.mark.usefixtures("fixed")
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("spread out", np.float64),
        pytest.param("spread out", np.float32, marks=pytest.mark.heavy),
        pytest.param("sharp", np.float64, marks=pytest.mark.heavy),
        ("two digits", np.float32),
    ],
)
def test_evaluate_takes_three_times_its_arrays(kind, dtype):
    assert cost_of_a_row(kind, 1, dtype) <= 2 * (8 + np.dtype(dtype).itemsize)


@pytest.mark.slow
@pytest.mark.usefixtures("fixed")
@pytest.mark.heavy
def test_compare_takes_three_times_its_arrays():
    assert cost_of_a_row("spread out", 2, np.float64) <= 1.05 * 2 * (8 + 2 * 8)


def test_what_a_row_adds_to_a_gap_is_the_same_kept_or_made_anew(monkeypatch):
    y, (a, b) = predictions("two digits", 3000, 2, np.float64)
    found = []
    for most in (1 << 20, 0):
        monkeypatch.setattr("truecal.inference.view_sums.MOST_KEPT", most)
        samples = [read_inputs(y, p).sample("binary") for p in (a, b)]
        found.append([spreads(BinnedSample.of(tc.ERRORS["binary"].with_bins("auto"), sample))[0] for sample in samples])
    kept, anew = found
    assert isinstance(getattr(kept[0].influence, "__self__", None), np.ndarray)
    assert not hasattr(anew[0].influence, "__self__")
    assert_close(kept[0].h, anew[0].h, 1)
    assert_close(kept[0].interval(0.95), anew[0].interval(0.95), 1)
    assert_close(paired_spread(kept[0], kept[1], 0.95), paired_spread(anew[0], anew[1], 0.95), 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_confidence_of_one_probability_is_that_of_two_columns(dtype):
    y, (p,) = predictions("two digits", 500, 1, dtype)
    one, two = tc.Confidence().sample(y == 1, p), tc.Confidence().sample(y, np.column_stack([1 - p, p]))
    assert one.marks is not None and two.marks is not None
    assert_close(one.reports, two.reports, 1)
    np.testing.assert_array_equal(one.marks, two.marks)
    assert one.reports.dtype == dtype
