"""Losses of a stream are those of all its rows, however they are divided, with intervals from blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truecal as tc
from truecal.scale.stream import compare_streams

KINDS = {
    "classwise": ("multiclass", tc.LOSSES),
    "confidence": ("multiclass", [name for name in tc.LOSSES if name != "brier"]),
    "full": ("multiclass", tc.LOSSES),
    "binary": ("binary", tc.LOSSES),
    "top_label": ("top_label", ("classification_error", "confidence_loss")),
}


def world(n: int = 700, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.5, 1, 2], n)
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2), p, rng.random(n) * (rng.random(n) < 0.8)


def stream_of(error: str, **options: Any) -> tc.Stream:
    edges = np.tile(np.linspace(0, 1, 6), (3, 1)) if error == "full" else "uniform"
    return tc.stream(error, **({"edges": edges} if error == "full" else {"edges": edges, "n_bins": 5}), **options)


def seen(error: str, y: Any, p: Any) -> tuple[Any, Any]:
    """Labels and predictions as the error takes them."""
    if KINDS[error][0] == "multiclass":
        return y, p
    return (y == 0, p[:, 0]) if error == "binary" else (y == p.argmax(axis=1), p.max(axis=1))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("error", KINDS)
def test_every_loss_equals_that_of_all_rows(error, weighted):
    y, p, w = world()
    parts = []
    for rows in (slice(0, 1), slice(1, 300), slice(300, 700)):
        parts.append(stream_of(error))
        parts[-1].update(*seen(error, y[rows], p[rows]), sample_weight=w[rows] if weighted else None)
    found = parts[0].merge(parts[1].merge(parts[2])).result()
    assert [loss.name for loss in found.losses] == list(KINDS[error][1])
    if error == "binary":  # of both classes
        y, p = (y == 0).astype(int), np.column_stack([1 - p[:, 0], p[:, 0]])
    for loss in found.losses:
        each = tc.LOSSES[loss.name](y, p, per_example=True)
        weights = w if weighted else np.ones(len(y))
        assert loss.value == pytest.approx(float(weights @ each / weights.sum()), rel=1e-12)
        low, high = delete_a_block(each, weights)
        assert (loss.low, loss.high) == pytest.approx((low, high), rel=1e-9)


def test_two_columns_of_single_precision_have_one_brier_loss():
    """1 − p is no float32: both columns would give another loss than the one that streams and SQL read."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1], 3000).astype(np.float32)
    y = (rng.random(3000) < p[:, 1]).astype(int)
    stream = tc.stream(edges="uniform", n_bins=5)
    stream.update(y, p)
    wanted = float(np.square(p[:, 1].astype(float) - y).mean())
    memory = tc.evaluate(y, p, n_resamples=19).brier
    for found in (memory, stream.result().brier, tc.brier(y, p), tc.evaluate(y, p[:, 1], n_resamples=19).brier):
        assert found == pytest.approx(wanted, rel=1e-13)


def delete_a_block(each: Any, w: Any) -> tuple[float, float]:
    """The interval by plain loops: the mean without each of 64 blocks of rows."""
    from scipy.stats import t

    without = []
    for b in range(64):
        kept = np.arange(len(each)) % 64 != b
        without.append((w * each)[kept].sum() / w[kept].sum())
    spread = sum((m - np.mean(without)) ** 2 for m in without)
    half = t.ppf(0.975, 63) * np.sqrt(63 / 64 * spread)
    mean = (w * each).sum() / w.sum()
    return mean - half, mean + half


def test_what_nothing_bounds_has_no_interval():
    y, p, _ = world()
    never = np.array([[0.0, 0.5, 0.5]])
    stream = stream_of("confidence")
    stream.update(y, p)
    assert stream.result().loss("cross_entropy").low is not None
    stream.update([1], never)  # a label that did not come, and would have cost infinitely much
    assert stream.result().loss("cross_entropy").low is None and stream.result().loss("spherical").low is not None
    stream.update([0, 0], np.repeat(never, 2, axis=0), sample_weight=[0, 1])
    found = stream.result()
    assert found.loss("cross_entropy").value == np.inf and found.to_dict()["losses"]
    assert "cross_entropy is infinite: the observed label had probability 0 in 1 rows" in found.notes
    rare = stream_of("confidence")
    rare.update(np.arange(6400) % 320 // 319, np.tile([0.98, 0.01, 0.01], (6400, 1)))
    rare.update([1], [[1 - 2e-30, 1e-30, 1e-30]])  # one row in 6401 carries all the spread
    assert rare.result().loss("cross_entropy").low is None and rare.result().loss("spherical").low is not None


def test_without_blocks_there_are_values_alone():
    y, p, _ = world()
    bare = stream_of("confidence", blocks=0)
    bare.update(y, p)
    loss = bare.result().loss("cross_entropy")
    assert loss.value == pytest.approx(tc.cross_entropy(y, p), rel=1e-12) and loss.low is None


@pytest.mark.parametrize("wrong", [9, 10])
def test_few_surprises_say_nothing_of_how_far_losses_stray(wrong):
    """Without a single miss all blocks are alike, and an interval of no width would be the surest of all."""
    y = (np.arange(3000) < wrong).astype(int)
    sure, surer = (np.tile([c, 1 - c], (3000, 1)) for c in (0.99, 0.995))
    streams = {}
    for name, p in (("sure", sure), ("surer", surer)):
        streams[name] = stream_of("classwise")
        streams[name].update(y, p)
    enough = wrong == 10
    result = streams["sure"].result()
    assert all((loss.low is not None) == enough for loss in result.losses)
    assert any("losses have no intervals: fewer than 10 rows" in note for note in result.notes) != enough
    part = compare_streams(streams).pair("sure", "surer", "classwise").loss
    assert bool(part.note) != enough and (enough or not part.beyond_noise)
