"""A loss written in this file alone is measured in memory, in streams and by SQL: it is listed nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.core.losses import define_loss


@pytest.fixture(autouse=True)
def missed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The squared probability that was missing to 1."""

    @define_loss(lambda p: (1.0 - p) ** 2, streamed=lambda own, squares: (1.0 - own) ** 2)
    def missed(y: Any, proba: Any) -> Any:
        return (1.0 - np.take_along_axis(proba, y[:, None], 1)[:, 0]) ** 2

    monkeypatch.setitem(tc.LOSSES, "missed", missed)
    return missed


@pytest.mark.slow
def test_a_loss_is_measured_in_memory_stream_and_sql(missed: Any) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y = (p.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1).clip(0, 2)
    wanted = float(((1 - p[np.arange(300), y]) ** 2).mean())
    assert_close(missed(y, p), wanted)
    whole = tc.evaluate(y, p, n_resamples=19).loss("missed")
    assert_close(whole.value, wanted)
    assert whole.low is not None and whole.low < wanted
    stream = tc.stream()
    for rows in np.array_split(np.arange(300), 7):
        stream.update(y[rows], p[rows])
    assert_close(stream.result().loss("missed").value, wanted, 1)
    assert stream.result().loss("missed").low is not None
    both = tc.compare(y, {"a": p, "b": np.full_like(p, 1 / 3)}, n_resamples=19)
    assert_close(both.evaluations["b"].loss("missed").value, (2 / 3) ** 2)
    pytest.importorskip("ibis")
    from sql_engines import tables_in

    with tables_in("duckdb") as make:
        table = make({"id": np.arange(300), "y": y, **{f"p{j}": p[:, j] for j in range(3)}})
        found = tc.sql.evaluate(table, label="y", proba=["p0", "p1", "p2"], id="id")
    assert_close(found.loss("missed").value, wanted, 1)
    assert [value.name for value in found.losses] == [value.name for value in stream.result().losses]
