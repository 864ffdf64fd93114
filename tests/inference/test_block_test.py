"""The calibration test by blocks of rows: what it rejects, and what it says where it cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from truecal.inference.sign_flips import FEWEST_BLOCKS, BlockForm, block_test


def forms(sums: np.ndarray) -> list[BlockForm]:
    """Of residual sums (blocks, cells): the bins, and the sum over all of them."""
    whole = sums.sum(axis=1)
    return [BlockForm("10 bins", sums @ sums.T), BlockForm("mean", np.outer(whole, whole), float(whole.sum()))]


def test_sums_that_share_a_sign_are_rejected():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(64, 10))
    found = block_test(forms(noise + 0.5), 1000, 999, 0)
    assert found is not None and found.pvalue <= 0.001 and found.strongest == "probabilities are too high overall"
    turned = block_test(forms(noise + 0.5 * np.where(np.arange(10) % 2, 1, -1)), 1000, 999, 0)
    assert turned is not None and turned.pvalue <= 0.001 and "10 bins" in turned.strongest
    assert [detail.name for detail in turned.details] == ["10 bins", "mean"] and "64 blocks" in turned.null


@pytest.mark.slow
def test_the_level_is_kept():
    rng = np.random.default_rng(1)
    pvalues = []
    for _ in range(400):
        found = block_test(forms(rng.normal(size=(64, 10))), 1000, 199, 0)
        assert found is not None
        pvalues.append(found.pvalue)
    assert 0.02 <= np.mean(np.array(pvalues) <= 0.05) <= 0.09


def test_what_a_block_gives_with_itself_plays_no_part():
    rng = np.random.default_rng(2)
    sums = rng.normal(size=(64, 10))
    plain, large = forms(sums), [BlockForm(f.name, f.H + 1e6 * np.eye(64), f.sign) for f in forms(sums)]
    first, second = block_test(plain, 1000, 199, 0), block_test(large, 1000, 199, 0)
    assert first is not None and second is not None and abs(first.pvalue - second.pvalue) < 0.02


def test_few_blocks_are_not_tested():
    few = np.ones((FEWEST_BLOCKS - 1, 10))
    assert block_test(forms(few), 100, 99, 0) is None and block_test([], 100, 99, 0) is None
