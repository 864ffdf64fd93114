"""Figures hold the right points, curves and annotations; the words follow from the numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import truecal as tc
from lab_tables import N_CLASSES, N_TEST, made_up_table
from truecal.lab.checkpoints import BINS, LOSSES, error_column, u_column
from truecal.lab.correlations import ALL_PAIRS, PAPER_PAIRS, beside_paper, spearman_table, threshold_table
from truecal.lab.results_text import _reason, overturned_pairs, results_text, u_part
from truecal.ranking import spearman

pytest.importorskip("matplotlib")

from matplotlib.colors import to_hex

from truecal.lab import figures


def points(axis: object) -> np.ndarray:
    return np.concatenate([np.asarray(c.get_offsets()) for c in axis.collections])


@pytest.fixture(params=[("within", 1), ("cross", 3)], ids=["within", "cross"])
def case(request: pytest.FixtureRequest) -> tuple[str, pd.DataFrame]:
    experiment, models = request.param
    return experiment, made_up_table(models=models)


class TestFigures:
    def test_figure_1_has_every_checkpoint_in_its_traces_colour(self, case: tuple[str, pd.DataFrame]) -> None:
        experiment, table = case
        figure = figures.figure_1(table, experiment)
        panels = [axis for axis in figure.axes if axis.get_xlabel() == "classification error"]
        assert len(panels) == 6
        expected = [("ConfECE", "fix"), ("ConfCE_corr", "qua"), ("LinCE_cw", "qua")]
        columns = [error_column(*name, bins) for bins in (2000, 5) for name in expected]
        for axis, column in zip(panels, columns, strict=True):
            assert len(axis.collections) == table["trace"].nunique()
            assert len({to_hex(c.get_facecolor()[0]) for c in axis.collections}) == table["trace"].nunique()
            drawn = points(axis)
            wanted = table[["classification_error", column]].to_numpy()
            np.testing.assert_allclose(drawn[np.lexsort(drawn.T)], wanted[np.lexsort(wanted.T)])
            bins = column.rsplit("_", 1)[1]
            assert f"{bins} " in axis.get_title() and "truthful" in axis.get_title()
        assert ["not truthful" in axis.get_title() for axis in panels] == [True, False, False] * 2

    def test_assumption_has_three_clouds_and_the_calibrated_line(self, case: tuple[str, pd.DataFrame]) -> None:
        experiment, table = case
        confidence, classwise = figures.assumption(table, experiment).axes
        losses = table["confidence_loss"], table["brier"] / N_CLASSES
        for axis, loss, family in zip((confidence, classwise), losses, ("ConfCE_corr", "LinCE_cw"), strict=True):
            assert len(axis.collections) == 3
            for cloud, bins in zip(axis.collections, BINS, strict=True):
                drawn = np.asarray(cloud.get_offsets())
                np.testing.assert_allclose(drawn[:, 0], loss)
                np.testing.assert_allclose(drawn[:, 1], loss + table[u_column(family, "qua", bins)])
            (line,) = axis.get_lines()
            np.testing.assert_array_equal(line.get_xdata(), line.get_ydata())

    def test_dominance_has_the_chain_and_its_correlations(self, case: tuple[str, pd.DataFrame]) -> None:
        experiment, table = case
        figure = figures.dominance(table, experiment)
        chain = list(tc.dominance(table[list(LOSSES)].to_numpy()).chain)
        assert len(chain) > 5
        for axis, family in zip(figure.axes, ("ConfCE_corr", "LinCE_cw"), strict=True):
            assert len(axis.get_lines()) == 3
            (note,) = axis.texts
            for line, bins, text in zip(axis.get_lines(), BINS, note.get_text().splitlines(), strict=True):
                values = table[error_column(family, "qua", bins)].to_numpy()[chain]
                np.testing.assert_array_equal(line.get_ydata(), values)
                assert text == f"{bins} bins: r = {spearman(np.arange(len(chain)), values):.3f}"

    def test_trends_have_points_and_one_curve_per_bin_count(self, case: tuple[str, pd.DataFrame]) -> None:
        experiment, table = case
        figure = figures.trends(table, experiment)
        families = [("ConfECE", "fix"), ("ConfCE", "qua"), ("ConfCE_corr", "qua"), ("LinCE_cw", "qua")]
        assert len(figure.axes) == 4
        for axis, name in zip(figure.axes, families, strict=True):
            assert len(axis.collections) == len(axis.get_lines()) == 3
            assert len(points(axis)) == 3 * len(table)
            for cloud, line, bins in zip(axis.collections, axis.get_lines(), BINS, strict=True):
                values = table[error_column(*name, bins)]
                np.testing.assert_allclose(np.asarray(cloud.get_offsets())[:, 1], values)
                assert values.min() <= min(line.get_ydata()) <= max(line.get_ydata()) <= values.max()
                assert to_hex(line.get_color()) == to_hex(cloud.get_facecolor()[0]) == to_hex(figures.BIN_COLOURS[bins])

    def test_files(self, tmp_path: Path) -> None:
        written = figures.draw_all(made_up_table(traces=3, epochs=3), "within", tmp_path / "figures", ("png",))
        assert sorted(path.name for path in tmp_path.glob("figures/*")) == sorted(path.name for path in written)
        assert len(written) == 4
        assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


class TestU:
    def test_parts_against_plain_loops(self) -> None:
        table = made_up_table()
        part = u_part(table, "LinCE_cw", 20)
        losses = [row["brier"] / N_CLASSES for _, row in table.iterrows()]
        us = [N_TEST * row["LinCE_cw_qua_20"] - loss for (_, row), loss in zip(table.iterrows(), losses, strict=True)]
        assert part.mean_loss == pytest.approx(sum(losses) / len(losses))
        assert part.mean_u == pytest.approx(sum(us) / len(us))
        assert part.spread_u == pytest.approx((sum((u - part.mean_u) ** 2 for u in us) / len(us)) ** 0.5)
        twins = [N_TEST * row["twin_LinCE_cw_qua_20"] - row["twin_brier"] / N_CLASSES for _, row in table.iterrows()]
        assert part.twin_mean_u == pytest.approx(sum(twins) / len(twins))
        wrong = decided = 0
        for i in range(len(us)):
            for j in range(i):
                by_loss = losses[i] - losses[j]
                by_error = by_loss + us[i] - us[j]
                decided += by_loss * by_error != 0
                wrong += by_loss * by_error < 0
        assert part.overturned == pytest.approx(wrong / decided)

    def test_overturned(self) -> None:
        assert overturned_pairs(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])) == 0
        assert overturned_pairs(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == 1
        assert overturned_pairs(np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 3.0])) == pytest.approx(1 / 3)

    def test_reasons(self) -> None:
        table = made_up_table(traces=10, epochs=10)
        loss = table["confidence_loss"]

        def reason(u: pd.Series) -> str:
            part = u_part(table.assign(**{u_column("ConfCE_corr", "qua", 5): u}), "ConfCE_corr", 5)
            return _reason(part, 0.5, 0.9)

        assert "small against the gaps" in reason(loss * 0.0)
        twin = table["n_test"] * table["twin_ConfCE_corr_qua_5"] - table["twin_confidence_loss"]
        assert "sampling noise" in reason(twin)
        assert "grows with the loss" in reason(20 * loss)
        assert "does not follow the loss" in reason(-20 * loss)


class TestWords:
    def write(self, within: pd.DataFrame, paper: bool = False) -> str:
        tables = {"within": within, "cross": made_up_table(models=3, seed=1)}
        main = spearman_table(tables, PAPER_PAIRS, repeats=5)
        run = {
            "title": "A title", "notes": ["A note."], "preset": "x", "settings": {"seed": 1}, "warm_up": 1.0,
            "beside_paper": paper, "traces": {"within": ["a"] * 7, "cross": []},
        }  # fmt: skip
        combinations = spearman_table(tables, ALL_PAIRS, repeats=2)
        return results_text(
            run, tables, tables, beside_paper(main) if paper else main, combinations, threshold_table(tables)
        )

    def test_claims_follow_the_numbers(self) -> None:
        quiet = made_up_table(noise=0.0)
        text = self.write(quiet).split("## Across models")[0]
        assert "nearly calibrated: holds" in text
        assert "keep the dominance order: holds" in text
        assert "follow predictive quality whatever the bins: holds" in text
        assert "not seen here" in text

    def test_claims_fail_when_the_numbers_do(self) -> None:
        table = made_up_table()
        for family in ("ConfCE_corr", "ConfECE"):
            for binning in ("qua", "fix"):
                column = error_column(family, binning, 5)
                table[column] = (3 - table["confidence_loss"]) / N_TEST * 2
                if family == "ConfCE_corr":
                    table[u_column(family, binning, 5)] = N_TEST * table[column] - table["confidence_loss"]
        text = self.write(table).split("## Across models")[0]
        assert "nearly calibrated: does not hold" in text
        assert "keep the dominance order: does not hold throughout" in text
        assert "whatever the bins: does not hold throughout" in text
        assert "flip with the number of bins: holds for ConfECE" in text
        assert "the theorem's condition" in text

    def test_missing_traces_and_the_paper_are_named(self) -> None:
        text = self.write(made_up_table(), paper=True)
        assert "6 traces (1 planned traces are missing)" in text
        assert text.count("**Beside the paper's table**") == 2
        assert "in the paper -0.277: in this run miscalibration itself falls along with" in text
        assert "Beside the paper" not in self.write(made_up_table())

    def test_nobody_is_called_better_calibrated(self) -> None:
        assert "better calibrated" not in self.write(made_up_table(), paper=True)
