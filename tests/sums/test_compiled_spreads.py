"""The sums behind intervals in compiled loops: cells and numbers of the plain path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.core import cells, dispatch
from truecal.core.rules import quantile_cuts
from truecal.inference import spread, view_sums
from truecal.inference.binned_sample import BinnedSample

pytest.importorskip("numba", reason="loops are compiled with numba")
from truecal.sums.compiled_spreads import quantile_cells


def cases(rng):
    p = rng.dirichlet(np.full(5, 0.5), 700)
    votes = rng.multinomial(10, p) / 10
    y = (p.cumsum(axis=1) > rng.random((700, 1))).argmax(axis=1)
    return {
        "classwise": (y, p),
        "float32": (y, p.astype(np.float32) / p.astype(np.float32).sum(axis=1, keepdims=True)),
        "ties": (y, votes),
        "binary": (y == 0, p[:, 0]),
        "binary ties": (y == 0, votes[:, 0]),
        "certain": (y == 0, np.where(p[:, 0] > 0.5, 1.0, 0.0)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", ["classwise", "float32", "ties", "binary", "binary ties", "certain"])
def test_compiled_spreads_are_those_of_the_plain_path(rng, monkeypatch, case, weighted):
    y, p = cases(rng)[case]
    weights = rng.uniform(0, 2, len(p)).round(1) if weighted else None
    of = tc.Binary() if p.ndim == 1 else tc.Classwise()
    for ties in ("average", "together"):
        metric = tc.CalibrationError(of, tc.Quantile((4, 15, 300), ties=ties))
        frozen = BinnedSample.of(metric, metric.read(y, p, sample_weight=weights))
        for kept in (1 << 17, 1):  # what each row adds is kept, or recomputed
            monkeypatch.setattr(view_sums, "MOST_KEPT", kept)
            found = []
            for size in (1 << 40, 1):
                monkeypatch.setattr(spread, "DISPATCH", dispatch.Dispatch(compiled_spread=size, threads=2))
                assert (spread._compiled(frozen, (0, 2)) is None) == (size > 1)
                found.append(spread.spreads(frozen, counts=(0, 2)))
            for one, other in zip(*found, strict=True):
                for name in ("theta", "h", "H", "c0", "pairs", "even", "unit"):
                    assert_close(getattr(one, name), getattr(other, name), scale=1e-6)
                assert_close(one.variances(), other.variances())
                assert_close(one.interval(0.95), other.interval(0.95), scale=1e-3)


def test_cells_of_a_view_are_its_quantile_bins(rng):
    u = np.concatenate([rng.random(3000) ** 8, [0.0, 1.0, -0.0, 0.5]])
    cuts = tc.Quantile(90).shared_cuts(len(u))[0]
    found = quantile_cells(u, cuts)
    order = np.argsort(u, kind="stable")
    wanted = np.searchsorted(cuts, np.arange(len(u)), side="right")
    np.testing.assert_array_equal(found[order], wanted)


@pytest.mark.parametrize("digits", [1, 2, 12])
def test_blocks_of_equal_reports_go_to_the_cell_of_their_middle(rng, digits):
    u = rng.random(999).round(digits)
    wanted = np.empty(999, int)
    order = np.argsort(u, kind="stable")
    wanted[order] = cells.middle_cells(u, order, 40)
    np.testing.assert_array_equal(quantile_cells(u, quantile_cuts(999, 40)), wanted)


@pytest.mark.parametrize("digits", [1, 2, 12])
def test_every_way_to_the_bin_of_a_row_is_the_same(rng, digits):
    """The rule for ties of `block_bin`: cells of an error, forms of the test, folds, compiled loops."""
    u, n, m = rng.random(999).round(digits), 999, 40
    cuts, whole = quantile_cuts(n, m), (np.zeros(n, int), 1)
    order, formed = np.argsort(u, kind="stable"), np.empty(n, int)
    formed[order] = cells.middle_cells(u, order, m)
    np.testing.assert_array_equal(bins_of_cells(u, m, "average"), formed)
    np.testing.assert_array_equal(bins_of_cells(u, m, "together"), quantile_cells(u, cuts, True))
    np.testing.assert_array_equal(quantile_cells(u, cuts), formed)
    np.testing.assert_array_equal(spread.fold_bins(u, whole, m), formed)


def bins_of_cells(u, m, ties):
    seen = tc.Binary().read(np.ones(len(u)), u).seen
    (piece,) = tc.Quantile(m).pieces(seen, ties)
    cells: Any = piece.cells
    (bins,) = cells.bins
    return bins.occupied[bins.home][cells.atom]
