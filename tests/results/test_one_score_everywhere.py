"""One score: memory, streams, GPU tensors, SQL and Dask agree for every kind, with weights and with groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truecal
from closeness import assert_close

tc: Any = truecal  # what a test hands in need not be of the right type
N = 600


def kinds(rng: np.random.Generator) -> dict[str, tuple[Any, Any, dict[str, Any], str]]:
    """Labels, predictions, options of evaluate, and the name of the error."""
    p = rng.dirichlet(np.ones(4), N)
    y = np.minimum((p.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1), 3)
    u = rng.random(N)
    return {
        "binary": ((rng.random(N) < u**2).astype(int), u, {}, "binary"),
        "classes": (y, p, {}, "classwise"),
        "ordered": (y, p, {"task": "ordered"}, "ordinal"),
        "labels": ((rng.random((N, 4)) < p).astype(int), p, {"task": "multilabel"}, "labelwise"),
    }


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", ["binary", "classes", "ordered", "labels"])
def test_memory_streams_and_bins(kind, weighted, rng):
    y, p, options, error = kinds(rng)[kind]
    w = rng.random(N) + 0.2 if weighted else None
    score = tc.score(y, p, error=error, sample_weight=w)
    for bins in (None, (3, 30)):
        found = tc.evaluate(y, p, sample_weight=w, n_resamples=99, n_bins=bins, errors=[error], **options)
        assert_close(found.score, score)
    stream = tc.stream(errors=[error])
    for rows in np.array_split(np.arange(N), 5):
        stream.update(y[rows], p[rows], sample_weight=None if w is None else w[rows])
    assert_close(stream.result().score, score, 1)


@pytest.mark.parametrize("kind", ["binary", "classes", "ordered", "labels"])
def test_groups_in_memory_and_in_streams(kind, rng, tmp_path):
    y, p, options, error = kinds(rng)[kind]
    groups = np.sort(rng.integers(0, 90, N))
    found = tc.evaluate(y, p, groups=groups, n_resamples=99, errors=[error], **options)
    assert abs(found.score - tc.score(y, p, error=error)) > 1e-9
    stream = tc.stream(errors=[error])
    for rows in np.array_split(np.arange(N), 7):  # groups go on from one batch to the next
        stream.update(y[rows], p[rows], groups=groups[rows])
    assert_close(stream.result().score, found.score, 1)
    stream.save(tmp_path / "state.npz")
    assert_close(tc.Stream.load(tmp_path / "state.npz").result().score, found.score, 1)


def test_images_in_memory_and_in_streams(rng):
    p = np.moveaxis(rng.dirichlet(np.ones(3), (12, 6, 6)), 3, 1)
    y = rng.integers(0, 3, (12, 6, 6))
    found = tc.evaluate(y, p, n_resamples=99)
    stream = tc.stream()
    for images in np.array_split(np.arange(12), 4):
        stream.update(y[images], p[images])
    assert_close(stream.result().score, found.score, 1)


def test_tensors(rng):
    torch = pytest.importorskip("torch")
    y, p, _, _ = kinds(rng)["classes"]
    assert_close(tc.score(torch.tensor(y), torch.tensor(p)), tc.score(y, p), 1)


@pytest.mark.slow
def test_sql_and_dask(rng):
    ibis = pytest.importorskip("ibis")
    pd = pytest.importorskip("pandas")
    pytest.importorskip("duckdb")
    y, p, _, _ = kinds(rng)["classes"]
    frame = pd.DataFrame({f"p{j}": p[:, j] for j in range(4)} | {"y": y})
    table = ibis.duckdb.connect().create_table("predictions", frame)
    columns = [f"p{j}" for j in range(4)]
    assert_close(tc.sql.evaluate(table, label="y", proba=columns).score, tc.score(y, p), 1)
    dd = pytest.importorskip("dask.dataframe")
    from truecal.scale import cluster

    parts = dd.from_pandas(frame.rename(columns={"y": "label"}), npartitions=3)
    assert_close(cluster.evaluate(parts).score, tc.score(y, p), 1)


def test_one_large_cluster_does_not_hide_the_gap():
    """All residuals are .5: the gap is 50 points whatever the sizes of the clusters."""
    groups = np.repeat(np.arange(11), [90] + [1] * 10)
    found = tc.gap(np.ones(100, dtype=int), np.full(100, 0.5), error="binary", groups=groups)
    assert abs(found.points) == pytest.approx(50)
