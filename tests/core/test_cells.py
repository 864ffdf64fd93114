"""The cells of inference against the matrix G written out, for every rule."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import reference
import truecal as tc
from inference_cases import SCALAR_RULES, SPREAD, TIED, VECTOR_RULES, counts, rows_of, scalar_chance, vector_chance
from truecal.core.cells import KernelCells
from truecal.core.rules import resolve_ties
from truecal.kinds.named_errors import COMPOSED


@pytest.mark.slow
@pytest.mark.parametrize("reports", [TIED, SPREAD, np.full(6, 0.5), TIED.astype(np.float32)], ids=str)
@pytest.mark.parametrize("rule", SCALAR_RULES, ids=repr)
def test_scalar_cells_are_the_matrix_G(rule, reports):
    rng = np.random.default_rng(1)
    n = len(reports)
    y = rng.random(n) < reports
    sample = tc.Binary().read(y.astype(int), reports)
    (piece,) = rule.pieces(sample.seen, resolve_ties(rule, "l2"))
    r = rng.normal(size=(3, n))
    s = rng.random(n)
    group = np.arange(n) % 4
    for c, m in enumerate(counts(rule)):
        g = scalar_chance(reports, rule, m)
        off = g - np.diag(np.diag(g))
        assert np.diag(g) == pytest.approx(1.0)
        np.testing.assert_allclose(piece.cells.pairs(r)[c], [v @ off @ v for v in r], atol=1e-12)
        if isinstance(piece.cells, KernelCells):
            np.testing.assert_allclose(piece.cells.others(r), r @ off, atol=1e-12)
        np.testing.assert_allclose(piece.cells.pairs_of_squares(s)[c], s @ off**2 @ s, atol=1e-12)
        inside = [sum(v[group == a] @ off[np.ix_(group == a, group == a)] @ v[group == a] for v in r) for a in range(4)]
        np.testing.assert_allclose(piece.cells.within(r, group, 4)[c], inside, atol=1e-12)


@pytest.mark.parametrize("rule", VECTOR_RULES, ids=repr)
def test_vector_cells_are_the_matrix_G(rule):
    y, p = rows_of(3, 14, 2)
    sample = tc.Full().read(y, p)
    found = list(rule.pieces(sample.seen, resolve_ties(rule, "l2")))
    r = np.random.default_rng(0).normal(size=(3, 14))
    for c, m in enumerate(counts(rule)):
        g = vector_chance(p, rule, m)
        off = g - np.diag(np.diag(g))
        pairs = sum(piece.weight * piece.cells.pairs(r)[c] for piece in found)
        np.testing.assert_allclose(pairs, [v @ off @ v for v in r], atol=1e-12)


def test_tie_orders_listed_one_by_one_give_the_same_G():
    """The formula for divided blocks against every order of the rows, so that it does not rest on itself."""
    reports = [0.3, 0.5, 0.5, 0.5, 0.8, 0.8]
    sample = tc.Binary().read([0, 1] * 3, reports)
    for m in (2, 3, 4, 5):
        g = np.array([[float(x) for x in row] for row in reference.quantile_average_by_orders(reports, m)])
        (piece,) = tc.Quantile(m).pieces(sample.seen, "average")
        for i, j in product(range(6), repeat=2):
            if i != j:
                r = np.zeros((1, 6))
                r[0, [i, j]] = 1.0
                assert piece.cells.pairs(r)[0, 0] == pytest.approx(2 * g[i, j], abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in COMPOSED if not name.startswith(("linear", "dist", "surv"))])
@pytest.mark.parametrize("weighted", [False, True])
def test_tables_read_from_cells_that_are_made_are_the_same(name, weighted):
    error = tc.ERRORS[name] if not tc.ERRORS[name].binning.has_counts else tc.ERRORS[name].with_bins((2, 6))
    y, p = rows_of(3, 40, 3)
    if error.property.label_by_label:
        y = np.eye(3)[y]
    if isinstance(error.property, (tc.Binary, tc.TopLabel)):
        y, p = (y == 0).astype(int), p[:, 0]
    sample = error.read(y, p, sample_weight=np.arange(1.0, 41.0) if weighted else None)
    cells = list(error.binning.pieces(sample.seen, error.ties))
    np.testing.assert_allclose(error.of(sample, cells=cells), error.of(sample), rtol=1e-12)
    if error.norm == "l2":
        np.testing.assert_allclose(error.parts(sample, cells=cells), error.parts(sample), rtol=1e-12, atol=1e-15)
