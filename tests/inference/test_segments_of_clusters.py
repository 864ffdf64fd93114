"""Segments where rows come in clusters, such as tokens of documents."""

from __future__ import annotations

import numpy as np
import pytest

import truecal as tc
from promise_worlds import clustered_segments


def documents(rng: np.random.Generator, n: int = 60, size: int = 50, spread: float = 0.8, off: float = 0.0):
    """Documents that are off by themselves and right on average, unless `off` in the first places of each."""
    document = np.repeat(np.arange(n), size)
    position = np.tile(np.arange(size), n)
    u = rng.uniform(0.2, 0.9, n * size)
    shift = rng.choice([-spread, spread], n)[document] * np.minimum(u, 1 - u) - off * (position < 10)
    features = {"position": position, "kind": rng.choice(["a", "b", "c"], n)[document]}
    return rng.random(n * size) < u + shift, u, features, document


def test_a_segment_that_is_off_is_found(rng):
    y, u, features, document = documents(rng, 200, off=0.2, spread=0.3)
    found = tc.segments(y, u, features, groups=document, bins=5, n_resamples=199)
    assert "position ≤ 9" in found.findings[0].segment.name
    assert found.findings[0].segment.low > 0


def test_rows_of_their_own_clusters_are_as_independent_rows(rng):
    """Signs or labels drawn row by row: intervals of about the same width."""
    y, u, features, _ = documents(rng, 60, spread=0.0)
    kept = {"position": features["position"]}
    alone = tc.segments(y, u, kept, n_resamples=199).segments
    each = tc.segments(y, u, kept, groups=np.arange(len(y)), n_resamples=199).segments
    width = {s.name: s.high - s.low for s in alone}
    for s in each:
        assert 0.8 < (s.high - s.low) / width[s.name] < 1.25


def test_confidence_and_classes(rng):
    y, u, features, document = documents(rng, spread=0.0)
    both = np.stack([1 - u, 0.5 * u, 0.5 * u], axis=1)
    found = tc.segments(y.astype(int), both, features, groups=document, error="classwise", n_resamples=99)
    assert {s.of for s in found.segments} == {"0", "1", "2"}
    top = tc.TopPredictions(y, u)
    assert tc.evaluate(None, top, features=features, groups=document, n_resamples=99).segments is not None


def test_rare_outcomes_of_clusters_find_nothing_where_nothing_is():
    """Segments without an outcome had hardly any variance, and were significant in .58 of these samples."""
    assert clustered_segments("2,000 clusters of 1 row, rare", 6) <= 1 / 6


@pytest.mark.slow
@pytest.mark.heavy
def test_the_familywise_rate_with_clusters(rng):
    """Right on average, though every document is off by itself: rows as independent would find something."""
    clustered = plain = 0
    for _ in range(100):
        y, u, features, document = documents(rng, spread=0.6)
        clustered += bool(tc.segments(y, u, features, groups=document, n_resamples=199).findings)
        plain += bool(tc.segments(y, u, features, n_resamples=199).findings)
    assert clustered <= 11 and plain > 60
