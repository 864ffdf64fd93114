"""Hypothesis strategies for samples with heavy ties, vertices, bin edges, unseen classes, both dtypes and weights."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

DENOMINATORS = (1, 2, 3, 4, 5, 10, 20, 64)


@st.composite
def distributions(draw, n: int, k: int, dtype) -> np.ndarray:
    """Rows of the simplex: multiples of 1/d (ties, vertices, bin edges) or generic, some within 1e-9 of a vertex."""
    kind = draw(st.sampled_from(["grid", "generic", "vertex"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    if kind == "grid":
        d = draw(st.sampled_from(DENOMINATORS))
        rows = rng.multinomial(d, np.full(k, 1 / k), size=n) / d
    elif kind == "generic":
        rows = rng.dirichlet(np.full(k, draw(st.sampled_from([0.2, 1.0, 5.0]))), size=n)
    else:
        rows = np.full((n, k), 1e-9)
        rows[np.arange(n), rng.integers(0, k, n)] = 1 - (k - 1) * 1e-9
    return rows.astype(dtype)


@st.composite
def multiclass(draw, max_n: int = 12, max_k: int = 4, weighted: bool | None = None):
    """(labels, probabilities, weights or None)."""
    n = draw(st.integers(1, max_n))
    k = draw(st.integers(2, max_k))
    proba = draw(distributions(n, k, draw(st.sampled_from([np.float32, np.float64]))))
    seen = draw(st.integers(1, k))  # classes at or above this never come
    y = np.array(draw(st.lists(st.integers(0, seen - 1), min_size=n, max_size=n)))
    weights = None
    if draw(st.booleans()) if weighted is None else weighted:
        weights = np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.7]), min_size=n, max_size=n)))
        weights[draw(st.integers(0, n - 1))] = 1.5
    return y, proba, weights


bin_counts = st.integers(1, 17)
