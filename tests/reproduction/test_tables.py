"""The tables' arithmetic against plain loops, and the paper's own ± from its own r."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from reproduction.checkpoints import BINS, error_column
from reproduction.correlations import (
    ALL_PAIRS,
    PAPER_PAIRS,
    after_warm_up,
    beside_paper,
    by_clusters,
    paper_table,
    plus_minus,
    rank_correlations,
    spearman_table,
    threshold_table,
    to_latex,
    to_markdown,
)
from scipy.stats import spearmanr

from reproduction_tables import made_up_table


def plain_ranks(values: list[float]) -> list[float]:
    """1 + how many are smaller + half of how many others are equal."""
    return [1 + sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]


def plain_spearman(a: list[float], b: list[float]) -> float:
    x, y = plain_ranks(a), plain_ranks(b)
    mx, my = sum(x) / len(x), sum(y) / len(y)
    top = sum((p - mx) * (q - my) for p, q in zip(x, y, strict=True))
    return top / math.sqrt(sum((p - mx) ** 2 for p in x) * sum((q - my) ** 2 for q in y))


class TestRankCorrelations:
    def test_against_plain_loops_with_ties(self) -> None:
        values = np.random.default_rng(0).integers(0, 6, (30, 4)).astype(float)
        result = rank_correlations(values)
        for i, j in itertools.product(range(4), repeat=2):
            assert result[i, j] == pytest.approx(plain_spearman(values[:, i].tolist(), values[:, j].tolist()))

    def test_against_scipy(self) -> None:
        values = np.random.default_rng(1).normal(size=(50, 3))
        np.testing.assert_allclose(rank_correlations(values), spearmanr(values).statistic)

    def test_undefined(self) -> None:
        assert np.isnan(rank_correlations(np.array([[1.0, 2.0], [2.0, 1.0]]))).all()
        assert np.isnan(rank_correlations(np.column_stack([np.arange(5.0), np.ones(5)]))[0, 1])


class TestTable:
    def test_every_entry_against_plain_loops(self) -> None:
        table = made_up_table()
        result = spearman_table({"within": table}, PAPER_PAIRS)
        assert len(result) == 24
        for (_, line), pair in zip(result.iterrows(), PAPER_PAIRS, strict=True):
            first, second = (table[column].tolist() for column in pair.columns)
            r = plain_spearman(first, second)
            assert line["within_r"] == pytest.approx(r)
            assert line["within_pm"] == pytest.approx(1.96 * (1 - r**2) / math.sqrt(len(table) - 1))
            twin = plain_spearman(*(table[f"twin_{column}"].tolist() for column in pair.columns))
            assert line["within_twin_r"] == pytest.approx(twin)
            assert line["within_low"] <= line["within_high"]

    def test_lines_are_the_papers(self) -> None:
        ours = [(pair.family, *pair.items) for pair in PAPER_PAIRS]
        assert ours == [(row["error"], row["item1"], row["item2"]) for row in paper_rows()]

    def test_all_combinations_of_norm_and_binning(self) -> None:
        result = spearman_table({"within": made_up_table()}, ALL_PAIRS)
        assert len(result) == 5 * 2 * 6
        assert set(zip(result["error"], result["item2"].str[:3], strict=True)) == {
            (family, binning)
            for family in ("ConfECE", "ConfCE", "ConfCE_corr", "LinECE_cw", "LinCE_cw")
            for binning in ("fix", "qua")
        }

    def test_threshold_is_applied_to_validation_error(self) -> None:
        table = made_up_table()
        limit = float(table["validation_error"].median())
        kept = after_warm_up(table, limit)
        assert set(kept.index) == {i for i in table.index if table["validation_error"][i] <= limit}
        changed = table.assign(classification_error=0.0)
        assert list(after_warm_up(changed, limit).index) == list(kept.index)

    def test_grid_of_thresholds(self) -> None:
        table = made_up_table()
        grid = threshold_table({"within": table}, (0.3, 0.35, 1.0))
        assert len(grid) == 3 * (24 + 12)  # the paper's lines and those of the two scores
        for threshold in (0.3, 0.35, 1.0):
            kept = table[table["validation_error"] <= threshold]
            part = grid[grid["threshold"] == threshold]
            assert set(part["n"]) == {len(kept)}
            line = part[(part["error"] == "LinCE_cw") & (part["item1"] == "qua-20") & (part["item2"] == "qua-5")]
            expected = plain_spearman(*(kept[error_column("LinCE_cw", "qua", bins)].tolist() for bins in (20, 5)))
            assert line["r"].item() == pytest.approx(expected)


class TestByTraces:
    def test_against_the_jackknife_written_out(self) -> None:
        rng = np.random.default_rng(3)
        values, clusters = rng.normal(size=(12, 2)), ["b", "a", "c"] * 4

        def z(rows: list[int]) -> float:
            return math.atanh(plain_spearman(values[rows, 0].tolist(), values[rows, 1].tolist()))

        left_out = [z([i for i in range(12) if clusters[i] != name]) for name in "abc"]
        mean = sum(left_out) / 3
        width = 4.302652729911275 * math.sqrt(2 / 3 * sum((value - mean) ** 2 for value in left_out))  # t(2) at .975
        low, high = by_clusters(values, clusters)
        whole = z(list(range(12)))
        assert (low[0, 1], high[0, 1]) == pytest.approx((math.tanh(whole - width), math.tanh(whole + width)))

    def test_wider_than_independent_rows_when_traces_matter(self) -> None:
        """Rows of a trace are copies of one another, so only the number of traces counts."""
        rng = np.random.default_rng(0)
        values = np.repeat(rng.permuted(np.tile(np.arange(8.0), (2, 1)), axis=1).T, 50, axis=0)
        by_trace = by_clusters(values, np.repeat(np.arange(8), 50).tolist())
        by_row = by_clusters(values, list(range(400)))
        assert by_trace[1, 0, 1] - by_trace[0, 0, 1] > 3 * (by_row[1, 0, 1] - by_row[0, 0, 1])

    def test_limits_contain_their_estimate(self) -> None:
        """Twelve traces that rank nearly alike: a bootstrap's percentiles exclude what they are the limits of."""
        trend = np.repeat(np.arange(12.0), 30) + np.tile(np.linspace(0, 3, 30), 12)
        values = np.column_stack([trend, trend + 0.2 * np.random.default_rng(1).normal(size=360)])
        low, high = by_clusters(values, np.repeat(np.arange(12), 30).tolist())
        assert low[0, 1] < rank_correlations(values)[0, 1] < high[0, 1] < 1

    def test_perfect_agreement_has_limits_too(self) -> None:
        values = np.column_stack([np.arange(9.0)] * 2)
        assert by_clusters(values, [0, 1, 2] * 3)[:, 0, 1] == pytest.approx([1, 1])

    def test_one_trace_has_no_interval(self) -> None:
        assert np.isnan(by_clusters(np.random.default_rng(0).normal(size=(9, 2)), ["a"] * 9)).all()


def paper_rows() -> list[dict[str, Any]]:
    return cast(Any, paper_table().to_dict("records"))


def inferred_n(rows: Sequence[Mapping[str, Any]], experiment: str) -> tuple[int, int, list[tuple[str, str, str]]]:
    """The sample sizes under which most printed ± follow from the printed r, and the entries that do not."""
    ranges, half = {}, 0.0005  # both are known to three decimals
    for row in rows:
        r, pm = abs(row[f"{experiment}_r"]), row[f"{experiment}_pm"]
        widest = 1.96 * (1 - max(r - half, 0.0) ** 2)
        narrowest = 1.96 * (1 - (r + half) ** 2)
        high = math.inf if pm <= half else (widest / (pm - half)) ** 2 + 1
        ranges[row["error"], row["item1"], row["item2"]] = ((narrowest / (pm + half)) ** 2 + 1, high)
    ends = [math.floor(end) + step for pair in ranges.values() for end in pair if end < math.inf for step in (0, 1)]

    def fitting(n: int) -> int:
        return sum(low <= n <= high for low, high in ranges.values())

    best = max(map(fitting, ends))
    good = sorted(n for n in ends if fitting(n) == best)
    missed = [key for key, (low, high) in ranges.items() if not low <= good[0] <= high]
    return good[0], good[-1], missed


class TestPaper:
    """± = 1.96 (1 − r²) / sqrt(N − 1) explains the paper's figures for one N each, but for a single entry."""

    def test_inferred_n(self) -> None:
        assert inferred_n(paper_rows(), "within") == (3542, 3544, [("ConfCE_corr", "qua-20", "qua-5")])
        assert inferred_n(paper_rows(), "cross") == (3683, 3775, [])

    @pytest.mark.parametrize(("experiment", "n"), [("within", 3543), ("cross", 3700)])
    def test_every_other_entry_follows(self, experiment: str, n: int) -> None:
        for row in paper_rows():
            r, printed = row[f"{experiment}_r"], row[f"{experiment}_pm"]
            possible = [plus_minus(r + shift, n) for shift in np.linspace(-0.0005, 0.0005, 101)]
            fits = any(abs(value - printed) <= 0.0005 + 1e-12 for value in possible)
            entry = (experiment, row["error"], row["item1"], row["item2"])
            odd = entry == ("within", "ConfCE_corr", "qua-20", "qua-5")
            assert fits != odd

    def test_inferred_n_of_made_up_figures(self) -> None:
        rows = [
            {"error": "e", "item1": str(r), "item2": "", "within_r": r, "within_pm": round(plus_minus(r, 900), 3)}
            for r in np.round(np.linspace(-0.9, 0.9, 37), 3)
        ]
        low, high, unexplained = inferred_n(rows, "within")
        assert low <= 900 <= high < low + 40 and not unexplained

    def test_beside_ours(self) -> None:
        ours = spearman_table({"cross": made_up_table()}, PAPER_PAIRS)
        both = beside_paper(ours)
        line = both[(both["error"] == "ConfCE_corr") & (both["item1"] == "classification_error")]
        assert line["paper_cross_r"].tolist() == [0.999, 0.891, 0.753]
        assert "paper_within_r" not in both


class TestWriting:
    @pytest.fixture
    def table(self) -> pd.DataFrame:
        return spearman_table({"within": made_up_table(), "cross": made_up_table(seed=1)}, PAPER_PAIRS)

    def test_markdown(self, table: pd.DataFrame) -> None:
        lines = to_markdown(beside_paper(table), ["within", "cross"]).splitlines()
        assert len(lines) == 2 + 24
        assert len({line.count("|") for line in lines}) == 1
        first = table.iloc[0]
        assert f"{first['within_r']:.3f} ± {first['within_pm']:.3f}" in lines[2]
        assert "0.972 ± 0.002" in lines[2]

    def test_latex(self, table: pd.DataFrame) -> None:
        text = to_latex(table, ["within", "cross"])
        assert text.count(r"\multirow{6}{*}") == 4
        assert text.count(r"\\") == 1 + 24
        assert r"$\mathrm{ConfCE}^{\mathrm{corr}}_{(\mathrm{qua}, 2k)}$" in text
        assert {line.count("&") for line in text.splitlines() if "&" in line} == {4}
        assert text.count("{") == text.count("}")

    def test_undefined_is_said(self) -> None:
        constant = made_up_table().assign(**{error_column("ConfECE", "fix", bins): 0.5 for bins in BINS})
        text = to_markdown(spearman_table({"within": constant}, PAPER_PAIRS), ["within"])
        assert "n/a ± n/a" in text and "nan" not in text
