"""Figures hold the right points, curves and annotations; the words follow from the numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from reproduction.checkpoints import BINS, LOSSES, error_column, gap_column, u_column
from reproduction.correlations import (
    ALL_PAIRS,
    beside_paper,
    chain_correlation,
    rank_correlations,
    spearman_table,
    threshold_table,
)
from reproduction.mechanism import ALL, mechanism_table
from reproduction.results_text import overturned_pairs, results_text, u_part

import truecal as tc
from reproduction_tables import N_CLASSES, N_TEST, made_up_table, overfitting_table

pytest.importorskip("matplotlib")

from matplotlib.colors import to_hex

from reproduction import figures


def points(axis: Any) -> np.ndarray:
    return np.concatenate([np.asarray(c.get_offsets()) for c in axis.collections])


@pytest.fixture(params=[("within", 1), ("cross", 3)], ids=["within", "cross"])
def case(request: pytest.FixtureRequest) -> tuple[str, pd.DataFrame]:
    experiment, models = request.param
    return experiment, made_up_table(models=models)


class TestFigures:
    @pytest.mark.slow
    def test_figure_1_has_every_checkpoint_in_its_traces_colour(self, case: tuple[str, pd.DataFrame]) -> None:
        experiment, table = case
        figure = figures.figure_1(table, experiment)
        panels = [axis for axis in figure.axes if axis.get_xlabel() == "classification error"]
        assert len(panels) == 8
        expected = [("ConfECE", "fix"), ("ConfCE_corr", "qua"), ("LinCE_cw", "qua"), ("score_ConfCE_corr", "qua")]
        columns = [error_column(*name, bins) for bins in (2000, 5) for name in expected]
        for axis, column in zip(panels, columns, strict=True):
            assert len(axis.collections) == table["trace"].nunique()
            assert len({to_hex(c.get_facecolor()[0]) for c in cast(Any, axis).collections}) == table["trace"].nunique()
            drawn = points(axis)
            wanted = table[["classification_error", column]].to_numpy()
            np.testing.assert_allclose(drawn[np.lexsort(drawn.T)], wanted[np.lexsort(wanted.T)])
            bins = column.rsplit("_", 1)[1]
            assert f"{bins} " in axis.get_title() and "truthful" in axis.get_title()
        assert ["not truthful" in axis.get_title() for axis in panels] == [True, False, False, False] * 2

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
        chain = list(tc.analysis.dominance(table[list(LOSSES)].to_numpy()).chain)
        assert len(chain) > 5
        for axis, family in zip(figure.axes, ("ConfCE_corr", "LinCE_cw"), strict=True):
            assert len(axis.get_lines()) == 3
            r = []
            for line, bins in zip(axis.get_lines(), BINS, strict=True):
                values = table[error_column(family, "qua", bins)].to_numpy()[chain]
                np.testing.assert_array_equal(line.get_ydata(), values)
                r.append(f"{chain_correlation(values, range(len(chain))):.3f}")
            assert axis.get_title().endswith(f"\nr = {' / '.join(r)} at 5 / 20 / 2000 bins")

    @pytest.mark.slow
    def test_trends_have_points_and_one_curve_per_bin_count(self, case: tuple[str, pd.DataFrame]) -> None:
        experiment, table = case
        figure = figures.trends(table, experiment)
        families = [("ConfECE", "fix"), ("ConfCE", "qua"), ("ConfCE_corr", "qua"), ("LinCE_cw", "qua")]
        families += [("score_ConfCE_corr", "qua"), ("score_LinCE_cw", "qua")]
        assert len(figure.axes) == 6
        for axis, name in zip(figure.axes, families, strict=True):
            assert len(axis.collections) == len(axis.get_lines()) == 3
            assert len(points(axis)) == 3 * len(table)
            for cloud, line, bins in zip(axis.collections, axis.get_lines(), BINS, strict=True):
                values = table[error_column(*name, bins)]
                np.testing.assert_allclose(np.asarray(cloud.get_offsets())[:, 1], values)
                drawn = np.asarray(line.get_ydata(), dtype=float)
                assert values.min() <= drawn.min() <= drawn.max() <= values.max()
                assert (
                    to_hex(cast(Any, line).get_color())
                    == to_hex(cast(Any, cloud).get_facecolor()[0])
                    == to_hex(figures.BIN_COLOURS[bins])
                )

    @pytest.mark.slow
    @pytest.mark.heavy
    def test_files(self, tmp_path: Path) -> None:
        written = figures.draw_all(made_up_table(3, 3, models=3), "cross", tmp_path / "figures", ("png",))
        assert sorted(path.name for path in tmp_path.glob("figures/*")) == sorted(path.name for path in written)
        assert len(written) == 4
        assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


class TestMechanism:
    @pytest.mark.slow
    def test_one_line_per_trace_and_one_for_all(self) -> None:
        table = overfitting_table()
        lines = mechanism_table({"within-lr0.02": table}).set_index(["recalibration", "trace"])
        for prefix, name in (("", "temperature"), ("none_", "none"), ("top_", "top")):
            assert set(lines.loc[name].index) == {ALL, "trace-0", "trace-1", "trace-2"}
            for trace in ("trace-0", ALL):
                part = table if trace == ALL else table[table["trace"] == trace]
                gap = f"{prefix}gap_ConfCE_corr_qua_auto"
                expected = rank_correlations(part[["classification_error", gap]].to_numpy(dtype=float))[0, 1]
                assert lines.loc[(name, trace), "r_gap"] == pytest.approx(expected)
                assert lines.loc[(name, trace), "gap_last"] == part[gap].iloc[-1]
        assert lines.loc[("temperature", ALL), "r_gap"] == pytest.approx(-1)
        assert lines.loc[("top", ALL), "r_ConfECE_fix_5"] == pytest.approx(1)
        assert "vector" not in lines.index  # nothing was measured under it

    def test_checkpoints_without_a_recalibration_are_left_out_of_it(self) -> None:
        table = overfitting_table()
        columns = [column for column in table if str(column).startswith("top_")]
        table.loc[table["trace"] == "trace-1", columns] = np.nan
        lines = mechanism_table({"within": table})
        assert set(lines[lines["recalibration"] == "top"]["trace"]) == {ALL, "trace-0", "trace-2"}
        assert set(lines[lines["recalibration"] == "none"]["trace"]) == {ALL, "trace-0", "trace-1", "trace-2"}

    @pytest.mark.slow
    @pytest.mark.heavy
    def test_figures(self, tmp_path: Path) -> None:
        tables = {"within-lr0.001": made_up_table(3, 15), "within-lr0.02": overfitting_table()}
        mechanism = mechanism_table(tables)
        figure = figures.along_traces(tables)
        gap = next(axis for axis in figure.axes[::-1] if axis.get_ylabel() == "gap (points)")
        drawn = gap.get_lines()[:3]
        wanted = [part["gap_ConfCE_corr_qua_auto"] for _, part in tables["within-lr0.02"].groupby("fraction")]
        for line, values in zip(drawn, wanted, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), values)
        clouds = figures.recalibrated(mechanism, list(tables)).axes[0].collections
        assert [len(np.asarray(cloud.get_offsets())) for cloud in clouds] == [3, 9]
        names = [path.name for path in figures.draw_mechanism(tables, mechanism, tmp_path, ("png",))]
        assert names == ["along_traces.png", "recalibrated.png"]
        plain = {"within": tables["within-lr0.001"], "cross": made_up_table(models=3)}
        assert len(figures.draw_mechanism(plain, mechanism_table(plain), tmp_path, ("png",))) == 1


class TestU:
    def test_parts_against_plain_loops(self) -> None:
        table = made_up_table()
        part = u_part(table, "LinCE_cw", 20)
        losses = [row["brier"] / N_CLASSES for _, row in table.iterrows()]
        us = [N_TEST * row["LinCE_cw_qua_20"] - loss for (_, row), loss in zip(table.iterrows(), losses, strict=True)]
        assert part.loss.mean() == pytest.approx(sum(losses) / len(losses))
        assert part.u.mean() == pytest.approx(sum(us) / len(us))
        assert part.u.std() == pytest.approx((sum((u - part.u.mean()) ** 2 for u in us) / len(us)) ** 0.5)
        twins = [N_TEST * row["twin_LinCE_cw_qua_20"] - row["twin_brier"] / N_CLASSES for _, row in table.iterrows()]
        assert part.twin_u.mean() == pytest.approx(sum(twins) / len(twins))
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

    def test_causes(self) -> None:
        table = made_up_table(traces=10, epochs=10)
        loss = table["confidence_loss"]

        def cause(u: pd.Series) -> str:
            return u_part(table.assign(**{u_column("ConfCE_corr", "qua", 5): u}), "ConfCE_corr", 5).cause

        assert cause(loss * 0.0) == "small"
        assert cause(table["n_test"] * table["twin_ConfCE_corr_qua_5"] - table["twin_confidence_loss"]) == "noise"
        assert cause(20 * loss) == "with_loss"
        assert cause(-20 * loss) == "against"


@pytest.mark.heavy
class TestWords:
    def write(self, within: pd.DataFrame, paper: bool = False) -> str:
        tables = {"within": within, "cross": made_up_table(models=3, seed=1)}
        main = spearman_table(tables)
        run = {
            "title": "A title", "notes": ["A note."], "preset": "x", "settings": {"seed": 1}, "warm_up": 1.0,
            "beside_paper": paper, "traces": {"within": ["a"] * 7, "cross": []},
        }  # fmt: skip
        combinations = spearman_table(tables, ALL_PAIRS)
        main = beside_paper(main) if paper else main
        grid, mechanism = threshold_table(tables), mechanism_table(tables)
        return results_text(run, tables, tables, main, combinations, grid, mechanism)

    def test_claims_follow_the_numbers(self) -> None:
        quiet = made_up_table(noise=0.0)
        text = self.write(quiet).split("## Across models")[0]
        assert "nearly calibrated: holds" in text
        assert "keep the dominance order: holds" in text
        assert "follow predictive quality whatever the bins: holds" in text
        assert "not seen here" in text
        assert "U is small against the gaps in loss" in text

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
        assert "that does not follow the loss" in text and "the theorem's condition" in text

    def test_the_first_lines_tell_the_story(self) -> None:
        top = self.write(overfitting_table(), paper=True).split("## What was run")[0]
        assert (
            "Traces with checkpoints after warm-up: 3 of 7 planned within one model, 6 of 6 planned across models."
            in top
        )
        assert "**The usual ConfECE** changes sign with the number of bins within one model:" in top
        assert "; in the paper 0.97 / -0.01 / -0.28 within one model, 0.97 / 0.65 / 0.60 across models." in top
        assert "The sign changes where training lowers the error while the gap of the confidence grows" in top
        assert "within one model the gap grows as the error falls (median r(gap, error) -1.00)" in top
        assert "within one model temperature scaling -1.00 (" in top and "no recalibration -1.00 (" in top
        assert "then isotonic regression of the confidence +1.00 (" in top
        assert "across models temperature" not in top  # nothing to undo there

    def test_the_first_lines_without_a_flip(self) -> None:
        top = self.write(made_up_table(traces=3, epochs=15, noise=0.0)).split("## What was run")[0]
        assert "**The usual ConfECE** keeps its sign" in top
        for words in ("What recalibration does", "The sign changes where", "in the paper 0."):
            assert words not in top

    def test_a_flip_that_the_gap_does_not_explain_is_not_explained(self) -> None:
        table = overfitting_table()
        table[gap_column("ConfCE_corr", "auto")] = 20 * table["classification_error"]
        top = self.write(table).split("## What was run")[0]
        assert "changes sign with the number of bins within one model" in top
        assert "the gap shrinks as the error falls" in top and "The sign changes where" not in top

    def test_a_recalibration_that_some_traces_lack_says_so(self) -> None:
        table = overfitting_table()
        lacking = {column: np.nan for column in map(str, table) if column.startswith("top_")}
        table = pd.concat([table[table["trace"] != "trace-0"], table[table["trace"] == "trace-0"].assign(**lacking)])
        top = self.write(table).split("## What was run")[0]
        assert re.search(r"regression of the confidence \+1\.00 \(\d+\.\d points, 2 of 3 traces\)", top)

    def test_missing_traces_and_the_paper_are_named(self) -> None:
        text = self.write(made_up_table(), paper=True)
        assert "6 traces (1 planned traces are missing)" in text
        assert text.count("**Beside the paper's table**") == 2
        assert "in the paper -0.277: in this run miscalibration itself falls along with" in text
        assert "Beside the paper" not in self.write(made_up_table())

    def test_nobody_is_called_better_calibrated(self) -> None:
        assert "better calibrated" not in self.write(made_up_table(), paper=True)
