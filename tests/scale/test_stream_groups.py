"""Rows of clusters in a stream, such as tokens of documents: intervals rest on clusters."""

from __future__ import annotations

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close


def documents(rng: np.random.Generator, n: int = 300, spread: float = 0.9):
    """Tokens of documents, each document over- or under-confident by itself; calibrated on average over documents."""
    sizes = rng.integers(20, 60, n)
    document = np.repeat(np.arange(n), sizes)
    confidence = rng.uniform(0.3, 0.9, len(document))
    shift = rng.choice([-spread, spread], n)[document]
    return rng.random(len(document)) < confidence + shift * np.minimum(confidence, 1 - confidence), confidence, document


def stream_of(data, batches):
    correct, confidence, document = data
    stream = tc.stream("top_label", n_bins=15, edges="uniform")
    for rows in np.array_split(np.arange(len(correct)), batches):
        stream.update(correct[rows], confidence[rows], groups=document[rows])
    return stream


def test_intervals_rest_on_clusters(rng):
    data = documents(rng)
    stream = stream_of(data, 1)
    assert stream.units == 300
    grouped = stream.result().gap
    rows = tc.stream("top_label", n_bins=15, edges="uniform")
    rows.update(data[0], data[1])
    alone = rows.result().gap
    assert grouped is not None and alone is not None
    assert grouped.high - grouped.low > alone.high - alone.low
    assert any("300 images or groups" in note for note in stream.result().notes)


def test_batches_may_cut_a_cluster(rng):
    data = documents(rng)
    assert_close(stream_of(data, 7).result().to_dict(), stream_of(data, 1).result().to_dict(), scale=1, tolerance=1e-9)


def test_quantile_edges_come_from_the_first_batch(rng):
    correct, confidence, document = documents(rng)
    stream = tc.stream("top_label")
    half = document < 150
    stream.update(correct[half], confidence[half], groups=document[half])
    stream.update(correct[~half], confidence[~half], groups=document[~half])
    assert stream.rows == len(correct) and stream.kept == half.sum()


def test_groups_are_given_always_or_never(rng):
    correct, confidence, document = documents(rng)
    stream = stream_of((correct, confidence, document), 1)
    with pytest.raises(ValueError, match="groups are needed: earlier rows have them"):
        stream.update(correct, confidence)
    rows = tc.stream("top_label", edges="uniform", n_bins=5)
    rows.update(correct, confidence)
    with pytest.raises(ValueError, match="groups cannot follow rows without them"):
        rows.update(correct, confidence, groups=document)
    with pytest.raises(ValueError, match="one value per row"):
        stream.update(correct, confidence, groups=document[:-1])
    assert stream.rows == len(correct)


@pytest.mark.slow
@pytest.mark.heavy
def test_clusters_cover_a_calibrated_mean(rng):
    """Documents are off by themselves and right on average: intervals of clusters cover 0, those of rows do not."""
    clustered = plain = 0
    for _ in range(60):
        data = documents(rng, 200)
        found = stream_of(data, 3).result().gap
        rows = tc.stream("top_label", n_bins=15, edges="uniform")
        rows.update(data[0], data[1])
        other = rows.result().gap
        assert found is not None and other is not None
        clustered += found.low <= 0 <= found.high
        plain += other.low <= 0 <= other.high
    assert clustered >= 52 and plain < clustered
