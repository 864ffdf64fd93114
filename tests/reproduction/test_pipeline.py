"""The whole experiment on the tiny preset: end to end, killed and resumed, from stored logits, and its options."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reproduction.__main__ import main
from reproduction.checkpoints import (
    BINS,
    FAMILIES,
    LOSSES,
    PAPER_BINNING,
    RECALIBRATIONS,
    WITHOUT_BINS,
    _pairs_per_row,
    error_column,
    gap_column,
    score,
    score_column,
    u_column,
    with_scores,
)
from reproduction.folder import claim
from reproduction.letter_trainer import MLPTrainer, hidden_layers
from reproduction.presets import LETTER_MODELS, LITE0_VARIANTS, PAPER_MODELS, PRESETS, Preset, make_preset, tiny
from reproduction.run import describe, print_progress, reproduce
from reproduction.running import Progress
from reproduction.summary import summarise
from reproduction.traces import Checkpoint, Trace, read_rows

import truecal as tc
from closeness import assert_close
from truecal.cli.letter import letter

ROOT = Path(__file__).parents[2]
TRAINED = 1e-6
"""To how much of their scale results of networks agree that were trained alike: rounding grows with the steps."""
COMMAND = [sys.executable, "-m", "reproduction", "tiny", "--experiments", "within", "--no-summary", "--quiet"]


def score_logits(validation: Any, y_validation: Any, test: Any, y: Any, recalibrations: tuple[str, ...] = ()) -> Any:
    return score(Checkpoint(1, validation, test), y_validation, y, recalibrations)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One uninterrupted run with everything it writes; what compares models is drawn in test_figures.py alone."""
    from reproduction import figures

    out, draw_all = tmp_path_factory.mktemp("whole"), figures.draw_all
    drawn: list[str] = []

    def draw_within(table: pd.DataFrame, experiment: str, folder: Path) -> list[Path]:
        drawn.append(experiment)
        return draw_all(table, experiment, folder, ("png",)) if experiment == "within" else []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "draw_all", draw_within)
        outcome = reproduce("tiny", out=out, keep_logits=True)
    assert drawn == ["within", "cross"]
    assert outcome.complete and outcome.traces == 7 and outcome.checkpoints == 21
    return out


@pytest.mark.heavy
class TestEndToEnd:
    def test_files(self, whole: Path) -> None:
        for figure in ("within_figure1", "within_assumption", "within_dominance", "within_trends", "along_traces"):
            assert (whole / "figures" / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert (whole / "figures" / "along_traces.pdf").read_bytes().startswith(b"%PDF")
        for name in ("spearman.csv", "spearman.md", "spearman.tex", "combinations.csv", "thresholds.csv"):
            assert (whole / "tables" / name).stat().st_size > 0
        assert (whole / "RESULTS.md").read_text(encoding="utf-8").startswith("# Toy run")
        assert not list(whole.rglob("*.tmp*")) and not list(whole.rglob("partial"))

    def test_one_tidy_row_per_checkpoint_in_csv_and_parquet(self, whole: Path) -> None:
        for experiment, traces in (("within", 3), ("cross", 4)):
            table = pd.read_csv(whole / experiment / "checkpoints.csv")
            assert len(table) == 3 * traces
            assert not table.duplicated(["trace", "epoch"]).any()
            assert not table.isna().any().any()
            columns = {"trace", "model", "fraction", "epoch", "temperature", "validation_error", *LOSSES}
            columns |= {error_column(f, b, m) for f in FAMILIES for b in ("fix", "qua") for m in BINS}
            columns |= {u_column(f, b, m) for f in ("ConfCE_corr", "LinCE_cw") for b in ("fix", "qua") for m in BINS}
            assert columns <= set(table)
            stored = pd.read_parquet(whole / experiment / "checkpoints.parquet")
            pd.testing.assert_frame_equal(stored, with_scores(table), check_dtype=False)

    def test_table_from_the_stored_logits_is_the_same(self, whole: Path, tmp_path: Path) -> None:
        outcome = reproduce(from_dir=whole, out=tmp_path / "again", summary=False)
        assert outcome.checkpoints == 21
        for experiment in ("within", "cross"):
            ours = pd.read_csv(whole / experiment / "checkpoints.csv")
            theirs = pd.read_csv(tmp_path / "again" / experiment / "checkpoints.csv")
            pd.testing.assert_frame_equal(
                theirs.sort_values(["trace", "epoch"], ignore_index=True),
                ours.sort_values(["trace", "epoch"], ignore_index=True),
                rtol=1e-12,
                atol=1e-12,
            )

    def test_summary_needs_no_training(self, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What comes back from another machine: run.json and one csv."""
        drawn: list[str] = []
        monkeypatch.setattr("reproduction.figures.draw_all", lambda table, name, folder: drawn.append(name))
        (tmp_path / "within").mkdir()
        (tmp_path / "run.json").write_bytes((whole / "run.json").read_bytes())
        (tmp_path / "within" / "checkpoints.csv").write_bytes((whole / "within" / "checkpoints.csv").read_bytes())
        assert summarise(tmp_path) == tmp_path / "RESULTS.md"
        text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
        assert "Within one model" in text and "## Across models" not in text and drawn == ["within"]
        spearman = pd.read_csv(tmp_path / "tables" / "spearman.csv")
        both = pd.read_csv(whole / "tables" / "spearman.csv")
        pd.testing.assert_frame_equal(spearman, both[list(spearman)])

    def test_notes_added_to_a_run_stay(self, whole: Path) -> None:
        path = whole / "run.json"
        before = path.read_bytes()
        run = json.loads(before)
        path.write_text(json.dumps({**run, "notes": [*run["notes"], "The second half was trained a week later."]}))
        reproduce("tiny", out=whole, summary=False)
        assert json.loads(path.read_bytes())["notes"] == [*run["notes"], "The second half was trained a week later."]
        path.write_bytes(before)

    def test_a_different_run_is_refused(self, whole: Path) -> None:
        before = (whole / "run.json").read_bytes()
        with pytest.raises(ValueError, match=r"holds another run \(its settings differ\)"):
            reproduce("tiny", out=whole, seed=7)
        assert (whole / "run.json").read_bytes() == before


@pytest.mark.heavy
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_at_any_moment_the_next_run_ends_with_the_same_table(
    whole: Path, tmp_path: Path, processes: int
) -> None:
    command = [*COMMAND, "--out", str(tmp_path), "--processes", str(processes)]
    run = subprocess.Popen(command)
    end = time.monotonic() + 60
    while not list(tmp_path.glob("within/traces/[!.]*.csv")):  # not those being written
        assert run.poll() is None and time.monotonic() < end, "it ended before it could be killed"
        time.sleep(0.01)
    run.kill()
    assert run.wait() == -signal.SIGKILL
    finished = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("within/traces/[!.]*.csv")}
    assert subprocess.run(command, check=True).returncode == 0
    resumed, unbroken = (read_rows(folder / "within" / "checkpoints.csv") for folder in (tmp_path, whole))
    assert_close(resumed, unbroken, 1, TRAINED)
    for name, stamp in finished.items():
        assert (tmp_path / "within" / "traces" / name).stat().st_mtime_ns == stamp  # not trained again


def plain_gap(reports: np.ndarray, outcomes: np.ndarray, m: int) -> float:
    """The squared gap of one scalar view over m quantile bins, pair by pair; reports without ties."""
    n, order = len(reports), np.argsort(reports)
    residual = (reports - outcomes)[order]
    cells = [[i for i in range(n) if ((i + 1) * m - 1) // n == j] for j in range(m)]
    gap = 0.0
    for cell in cells:
        if len(cell) >= 2:
            gap += sum(residual[i] * residual[j] for i in cell for j in cell if i != j) / (len(cell) - 1)
    return gap / n


class TestScores:
    @pytest.fixture
    def case(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        y, z = rng.integers(0, 4, (2, 300)), rng.normal(size=(2, 300, 4))
        z[np.arange(2)[:, None], np.arange(300), y] += 1.5
        return z[0], y[0], z[1], y[1]

    def test_columns_are_the_public_measures_of_the_scaled_reports(self, case: Any) -> None:
        validation, y_validation, test, y = case
        row = score_logits(validation, y_validation, test, y)
        scaling = tc.TemperatureScaling().fit(validation, y_validation)
        p = scaling.predict_proba(test)
        scaled = np.exp(test / row["temperature"])
        np.testing.assert_allclose(p, scaled / scaled.sum(axis=1, keepdims=True), rtol=1e-9)
        assert row["validation_error"] == pytest.approx(np.mean(validation.argmax(axis=1) != y_validation))
        assert row["cross_entropy"] == pytest.approx(-np.mean(np.log(p[np.arange(300), y])))
        expected = {
            "ConfECE_fix_20": tc.confidence_error(y, p, n_bins=20, strategy="uniform", norm="l1"),
            "ConfCE_qua_5": tc.confidence_error(y, p, n_bins=5, corrected=False),
            "LinECE_cw_qua_20": tc.classwise_error(y, p, n_bins=20, norm="l1", strategy="quantile"),
        }
        right, confidence = p.argmax(axis=1) == y, p.max(axis=1)
        expected |= {
            "ConfCE_corr_two_bin": tc.confidence_error(y, p, strategy="two_bin"),
            "LinCE_cw_poisson": tc.classwise_error(y, p, strategy="poisson"),
            "smooth_ece": tc.ERRORS["smooth_ece"](right, confidence),
            "smooth_calibration": tc.ERRORS["smooth_calibration"](right, confidence),
            "mmce": tc.ERRORS["mmce"](y, p),
            "score": tc.score(y, p),
        }
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-12)
        assert {*WITHOUT_BINS, *(f"twin_{name}" for name in WITHOUT_BINS)} <= set(row)

    @pytest.mark.parametrize(("family", "error"), [("LinCE_cw", "classwise"), ("ConfCE_corr", "confidence")])
    def test_u_is_that_of_decompose(self, case: Any, family: str, error: str) -> None:
        validation, y_validation, test, y = case
        row = score_logits(validation, y_validation, test, y)
        parts = tc.decompose(y, tc.TemperatureScaling().fit(validation, y_validation).predict_proba(test), error=error,
                             n_bins=BINS)  # fmt: skip
        np.testing.assert_allclose([row[u_column(family, "qua", m)] for m in BINS], parts.U, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose([row[error_column(family, "qua", m)] for m in BINS], parts.error, rtol=1e-12)

    def test_gap_and_score_against_plain_loops(self, case: Any) -> None:
        validation, y_validation, test, y = case
        row = score_logits(validation, y_validation, test, y)
        (scored,) = with_scores(pd.DataFrame([row])).to_dict("records")
        p = tc.TemperatureScaling().fit(validation, y_validation).predict_proba(test)
        top = p.argmax(axis=1)
        views = {
            "ConfCE_corr": ([(p.max(axis=1), top == y)], row["confidence_loss"], 10),  # 300 ** .4 = 9.8
            "LinCE_cw": ([(p[:, j], y == j) for j in range(4)], row["brier"], 17),  # 1200 ** .4 = 17.04
        }
        for family, (pairs, loss, automatic) in views.items():
            for count in (5, 20, "auto"):
                gaps = [plain_gap(*view, automatic if count == "auto" else int(count)) for view in pairs]
                squared = np.mean(gaps)
                assert row[gap_column(family, count)] == pytest.approx(100 * np.sign(squared) * abs(squared) ** 0.5)
                assert scored[score_column(family, count)] == pytest.approx(loss + sum(gaps))  # classes are summed
        assert np.isnan(row[gap_column("LinCE_cw", 2000)])  # a bin for every row: no pairs, and no gap to be seen
        assert scored[score_column("LinCE_cw", 2000)] == pytest.approx(row["brier"])

    @pytest.mark.parametrize(("family", "error"), [("LinCE_cw", "classwise"), ("ConfCE_corr", "confidence")])
    def test_loss_and_gap_are_those_of_the_library(self, case: Any, family: str, error: str) -> None:
        validation, y_validation, test, y = case
        scored = with_scores(pd.DataFrame([score_logits(validation, y_validation, test, y, recalibrations=("none",))]))
        for prefix, map_ in (("", tc.TemperatureScaling()), ("none_", tc.recalibration.Identity())):
            p = map_.fit(validation, y_validation).predict_proba(test)
            for count in (5, 20, 2000, "auto"):
                metric = tc.ERRORS[error].with_bins(count)
                parts = metric.parts(metric.read(y, p))[0]
                expected = metric.property.score_unit(p.shape[1]) * (parts.loss + np.nan_to_num(parts.gap_sq))
                assert scored[f"{prefix}{score_column(family, count)}"].item() == pytest.approx(expected, rel=1e-8)

    def test_older_tables_get_what_follows_from_their_u(self, case: Any) -> None:
        row = score_logits(*case)
        table = pd.DataFrame([row])
        scored = with_scores(table)
        older = table[[column for column in table if not str(column).startswith("gap_")]]
        again = with_scores(older.assign(score_LinCE_cw_qua_5=0.0))  # a score in a file is not read
        for family in ("ConfCE_corr", "LinCE_cw"):
            for bins in (5, 20):  # 300 rows are divisible by both
                for column in (gap_column(family, bins), score_column(family, bins)):
                    assert again[column].item() == pytest.approx(scored[column].item(), rel=1e-9)
            assert np.isnan(again[gap_column(family, 2000)].item())
        pd.testing.assert_series_equal(scored[gap_column("LinCE_cw", 2000)], table["gap_LinCE_cw_qua_2000"])
        twin = 300 * row["twin_ConfCE_corr_qua_5"] - row["twin_confidence_loss"]
        assert again["twin_score_ConfCE_corr_qua_5"].item() == pytest.approx(
            row["twin_confidence_loss"] + 5 / 295 * twin
        )

    def test_scores_of_bins_of_unequal_size_are_close(self) -> None:
        """5,000 rows in 2,000 bins of two or three: U per pair is near gap², the mean of the products per pair."""
        rng = np.random.default_rng(0)
        p = rng.uniform(0.2, 0.8, 5000)
        y = (rng.random(5000) < p**2).astype(int)
        parts = tc.CalibrationError(tc.Binary(), tc.Quantile(2000)).decompose(y, p)
        per_row = _pairs_per_row(pd.Series([5000]), 2000).item()
        assert per_row == (1000 * 2 * 1 + 1000 * 3 * 2) / 5000
        assert parts.gap is not None
        assert parts.U / per_row == pytest.approx((parts.gap / 100) ** 2, rel=0.1)

    def test_other_recalibrations_in_columns_of_their_own(self, case: Any) -> None:
        validation, y_validation, test, y = case
        plain = score_logits(*case)
        row = score_logits(validation, y_validation, test, y, recalibrations=tuple(RECALIBRATIONS))
        assert_close({name: row[name] for name in plain}, plain, 1)
        for name, estimator in (("none", tc.recalibration.Identity()), ("vector", tc.recalibration.VectorScaling()),
                                ("isotonic", tc.recalibration.IsotonicOneVsRest())):  # fmt: skip
            p = estimator.fit(validation, y_validation).predict_proba(test)
            assert row[f"{name}_brier"] == pytest.approx(tc.brier(y, p), rel=1e-8)
            assert row[f"{name}_LinCE_cw_qua_20"] == pytest.approx(tc.classwise_error(y, p, n_bins=20), rel=1e-8)
            assert row[f"{name}_ConfECE_fix_5"] == pytest.approx(
                tc.confidence_error(y, p, n_bins=5, norm="l1", strategy="uniform"), rel=1e-8
            )

    def test_repairing_the_confidence_maps_it_to_the_frequency_of_being_right(self) -> None:
        """Two confidences, one right half as often as the other claims: afterwards each says how often it was right."""
        y = np.repeat([0, 0, 1, 0, 1], 20)  # at .9: right 2 in 3; at .6: right 1 in 2
        logits = np.log(np.where(np.arange(100)[:, None] < 60, [0.9, 0.1], [0.6, 0.4]))
        row = score_logits(logits, y, logits, y, ("top",))
        assert row["top_ConfECE_fix_20"] == pytest.approx(0, abs=1e-9)
        assert row["top_confidence_loss"] == pytest.approx(0.4 + (60 * 2 / 9 + 40 / 4) / 100)
        assert row["top_classification_error"] == pytest.approx(0.4)
        assert row["ConfECE_fix_20"] > 0.01  # one temperature cannot do that

    def test_twins_are_calibrated_where_the_checkpoint_is_not(self) -> None:
        """Labels unrelated to confident reports: U is far from zero, the U of labels drawn from the reports is not."""
        rng = np.random.default_rng(1)
        z, y = rng.normal(size=(400, 3)), rng.integers(0, 3, 400)
        fitted = z.copy()
        fitted[np.arange(400), y] += 3  # validation labels agree with the logits, so the temperature stays low
        row = score_logits(fitted, y, 3 * z, rng.integers(0, 3, 400))
        own, twin = (400 * row[f"{p}ConfCE_corr_qua_5"] - row[f"{p}confidence_loss"] for p in ("", "twin_"))
        assert own > 5 > 0.5 > abs(twin)
        assert {f"twin_{error_column(f, b, m)}" for f, b in PAPER_BINNING.items() for m in BINS} <= set(row)

    def test_untrained_logits_get_a_row_without_warnings(self) -> None:
        row = score_logits(np.zeros((30, 3)), np.arange(30) % 3, np.zeros((30, 3)), np.arange(30) % 3)
        assert all(np.isfinite(value) for name, value in row.items() if not name.endswith("_2000"))


class TestLetter:
    @pytest.mark.slow
    def test_split(self) -> None:
        data = letter()
        assert [len(part) for part in (data.train, data.validation, data.test)] == [10_000, 5_000, 5_000]
        assert data.n_classes == 26 and data.train.X.shape[1] == 16
        rows = np.concatenate([np.column_stack([part.X, part.y]) for part in (data.train, data.validation, data.test)])
        other = letter(seed=1)
        again = np.concatenate([np.column_stack([p.X, p.y]) for p in (other.train, other.validation, other.test)])
        assert not np.array_equal(rows, again)
        assert sorted(map(tuple, rows)) == sorted(map(tuple, again))

    def test_logits_are_those_behind_the_probabilities(self) -> None:
        from reproduction.letter_trainer import logits
        from sklearn.neural_network import MLPClassifier

        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
        network = MLPClassifier((5, 6), random_state=0).partial_fit(X, y, classes=np.arange(3))
        z = np.exp(logits(network, X))
        np.testing.assert_allclose(z / z.sum(axis=1, keepdims=True), network.predict_proba(X))

    @pytest.mark.slow
    def test_learns_and_repeats(self) -> None:
        trainer = MLPTrainer(letter(), 42)
        first, again = (list(trainer.train(Trace("mlp-16", 0.2, 3))) for _ in range(2))
        wrong = [np.mean(c.test.argmax(axis=1) != trainer.y_test) for c in first]
        assert wrong[2] < wrong[0] < 0.96
        assert_close([c.test for c in again], [c.test for c in first], 1, TRAINED)

    def test_names(self) -> None:
        assert hidden_layers("mlp-64") == (64,)
        for wrong in ("mlp", "mlp-", "mlp-0", "cnn-3", "mlp-x"):
            with pytest.raises(ValueError, match="expected a model such as"):
                hidden_layers(wrong)


class TestPresets:
    def test_letter_is_the_papers_plan(self) -> None:
        within, cross = (make_preset("letter").experiments[name] for name in ("within", "cross"))
        assert [trace.fraction for trace in within] == pytest.approx([0.025 * i for i in range(1, 41)])
        assert {trace.model for trace in within} == {"mlp-64"}
        assert {(t.model, t.fraction) for t in cross} == {
            (m, f) for m in LETTER_MODELS for f in (0.2, 0.4, 0.6, 0.8, 1.0)
        }
        assert len(LETTER_MODELS) == 9

    def test_cifar100_is_the_papers_protocol(self) -> None:
        pytest.importorskip("torch")
        preset = make_preset("cifar100", data="somewhere")
        assert len(preset.experiments["within"]) == 40 and len(preset.experiments["cross"]) == 45
        assert {trace.model for trace in preset.experiments["cross"]} == set(PAPER_MODELS)
        assert {trace.model for trace in preset.experiments["within"]} == {"mobilenetv3_small_100"}
        assert {trace.epochs for traces in preset.experiments.values() for trace in traces} == {100}
        expected = {"image_size": 224, "learning_rate": 1e-3, "momentum": 0.9, "weight_decay": 5e-4, "batch_size": 256}
        assert expected.items() <= preset.settings.items()
        assert preset.beside_paper

    def test_the_substitute_says_so(self) -> None:
        pytest.importorskip("torch")
        preset = make_preset("cifar100-lite0", data="somewhere", epochs=12)
        assert {trace.model for trace in preset.experiments["cross"]} == set(LITE0_VARIANTS)
        assert len(LITE0_VARIANTS) == 9
        assert "SUBSTITUTE" in " ".join(preset.notes)
        assert preset.settings["epochs"] == 12 and preset.settings["learning_rate"] == 0.01

    def test_long_arms_differ_in_the_learning_rate_alone(self) -> None:
        pytest.importorskip("torch")
        preset = make_preset("cifar100-long", data="somewhere")
        low, high, cross = preset.experiments.values()
        assert list(preset.experiments) == ["within-lr0.001", "within-lr0.02", "cross"]
        assert [t.fraction for t in low] == pytest.approx([i / 12 for i in range(1, 13)])
        assert [replace(trace, learning_rate=0.02) for trace in low] == list(high)
        assert [trace.name for trace in low] == [trace.name for trace in high]  # the name is the seed
        assert {(t.learning_rate, t.epochs) for t in low} == {(0.001, 100)}
        assert [i for i, trace in enumerate(low, start=1) if trace.piece == 0] == [1, 3, 5, 7, 9, 11]
        assert len({trace.piece for trace in low}) == 7
        assert len(cross) == 40 and {t.epochs for t in cross} == {10} and min(t.piece for t in cross) == 7
        assert preset.warm_up == 0.7 and preset.settings["image_size"] == 64
        with pytest.raises(ValueError, match="has no option learning_rate"):
            make_preset("cifar100-long", data="somewhere", learning_rate=0.1)

    def test_full_size_is_the_papers_setting_in_its_order_of_work(self) -> None:
        pytest.importorskip("torch")
        preset = make_preset("cifar100-224", data="somewhere")
        assert list(preset.experiments) == ["within", "cross"] and preset.warm_up == 0.7
        traces = sorted(preset.experiments["within"], key=lambda trace: trace.piece)
        assert [round(12 * trace.fraction) for trace in traces] == [1, 2, 3, 4, 6, 8, 10, 12, 5, 7, 9, 11]
        assert {(trace.model, trace.epochs, trace.learning_rate) for trace in traces} == {
            ("mobilenetv2_100", 100, None)
        }
        cross = sorted(preset.experiments["cross"], key=lambda trace: trace.piece)
        assert [round(12 * trace.fraction) for trace in cross] == [1] * 4 + [3] * 4 + [6] * 4 + [12] * 4
        assert min(trace.piece for trace in cross) == len(traces) and len({trace.model for trace in cross}) == 4
        paper = make_preset("cifar100", data="somewhere")
        assert preset.settings == paper.settings and paper.title.startswith("The paper's experiment: ")
        assert preset.notes[0].startswith("The paper's protocol, except for: within-model network mobilenetv2_100 (")
        with pytest.raises(ValueError, match="has no option image_size"):
            make_preset("cifar100-224", data="somewhere", image_size=64)

    @pytest.mark.parametrize("folder", ["letter", "cifar100", "cifar100-long", "cifar100-224"])
    def test_stored_results_can_be_continued(self, folder: str, tmp_path: Path) -> None:
        """Their description is that of the preset as it is now, so that its command trains what is missing."""
        shutil.copy(ROOT / "results" / folder / "run.json", tmp_path)
        name = {"cifar100": "cifar100-lite0"}.get(folder, folder)
        claim(tmp_path, describe(make_preset(name, **({} if name == "letter" else {"data": "somewhere"}))))
        with pytest.raises(ValueError, match="holds another run"):
            claim(tmp_path, describe(make_preset("tiny")))

    def test_quick_is_smaller(self) -> None:
        quick, full = make_preset("letter", quick=True), make_preset("letter")
        for name in ("within", "cross"):
            assert len(quick.experiments[name]) < len(full.experiments[name])

    def test_unknown_names(self) -> None:
        with pytest.raises(ValueError, match="expected a preset among letter, cifar100"):
            make_preset("mnist")
        with pytest.raises(ValueError, match="'letter' has no option image_size; it has cross_fractions, epochs"):
            make_preset("letter", image_size=3)
        with pytest.raises(ValueError, match="needs data"):
            make_preset("cifar100")
        assert set(PRESETS) == {"letter", "cifar100", "cifar100-lite0", "cifar100-long", "cifar100-224", "tiny"}


class TestCommand:
    @pytest.mark.heavy
    def test_stopped_then_done(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["tiny", "--experiments", "cross", "--no-summary", "--out", str(tmp_path / "o")]
        assert main([*arguments, "--time-limit", "-1", "--processes", "2"]) == 4
        assert "0 checkpoints of 0 traces, stopped at the time limit" in capsys.readouterr().out
        assert main(arguments) == 0
        written = capsys.readouterr()
        assert "12 checkpoints of 4 traces, complete" in written.out
        assert "4/4 traces: cross/mlp-" in written.err and "epoch 3/3, about 0 s left" in written.err

    @pytest.mark.slow
    def test_pieces(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        def in_pieces(*, seed: int = 42, quick: bool = False) -> Preset:
            preset = tiny()
            first = {name: traces[:1] for name, traces in preset.experiments.items()}
            return replace(preset, experiments=first | {"cross": (replace(first["cross"][0], piece=1),)})

        monkeypatch.setitem(PRESETS, "tiny", in_pieces)
        arguments = ["tiny", "--no-summary", "--quiet", "--out", str(tmp_path)]
        assert main([*arguments, "--pieces", "1"]) == 0
        assert "3 checkpoints of 1 traces, complete" in capsys.readouterr().out
        assert not (tmp_path / "within").exists()
        assert main(arguments) == 0
        assert "6 checkpoints of 2 traces, complete" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["tiny", "--out", "X", "--epochs", "3"], "'tiny' has no option epochs"),
            (["--from", "nowhere", "--out", "X"], "labels.npz: no such file"),
            (["tiny", "--from", "nowhere", "--out", "X"], "take neither a preset nor its options"),
            (["tiny", "--experiments", "middle", "--out", "X"], "experiments are among within, cross, got middle"),
            (["--tables-from", "nowhere"], "run.json: no such file"),
        ],
    )
    def test_mistakes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        arguments: list[str], words: str,
    ) -> None:  # fmt: skip
        monkeypatch.chdir(tmp_path)
        assert main(arguments) == (1 if "no such file" in words else 2)
        assert words in capsys.readouterr().err

    def test_out_is_needed(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["tiny"])
        assert "--out DIR is needed" in capsys.readouterr().err

    def test_progress_tells_the_time_left(self, capsys: pytest.CaptureFixture[str]) -> None:
        print_progress(Progress("t", 2, 5, 1, 4, 0.25, 125.0))
        assert capsys.readouterr().err == " 25% 1/4 traces: t epoch 2/5, about 2 min 05 s left\n"


class TestFolder:
    def write(self, root: Path, shape: tuple[int, ...] = (20, 3), **arrays: np.ndarray) -> Path:
        folder = root / "within" / "logits" / "my-run"
        folder.mkdir(parents=True)
        rng = np.random.default_rng(0)
        np.savez(root / "labels.npz", validation=np.arange(20) % 3, test=np.arange(20) % 3)
        for name in ("step-100", "step-200", "step-300"):
            np.savez(
                folder / name, **({"validation": rng.normal(size=shape), "test": rng.normal(size=(20, 3))} | arrays)
            )
        return root

    def test_users_own_names(self, tmp_path: Path) -> None:
        outcome = reproduce(from_dir=self.write(tmp_path / "mine"), out=tmp_path / "out", summary=False)
        assert (outcome.traces, outcome.checkpoints) == (1, 3)
        table = pd.read_csv(tmp_path / "out" / "within" / "checkpoints.csv")
        assert table["trace"].tolist() == ["my-run"] * 3 and table["epoch"].tolist() == [1, 2, 3]

    def test_wrong_rows(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"step-100\.npz: expected validation logits of shape \(20, classes\)"):
            reproduce(from_dir=self.write(tmp_path, shape=(19, 3)), out=tmp_path / "out")

    def test_missing_arrays_and_pickles(self, tmp_path: Path) -> None:
        root = self.write(tmp_path)
        np.savez(root / "labels.npz", validation=np.arange(20) % 3)
        with pytest.raises(ValueError, match=r"labels\.npz: expected the arrays 'validation' and 'test'"):
            reproduce(from_dir=root, out=tmp_path / "out")
        np.savez(root / "labels.npz", validation=np.array([{}] * 20), test=np.arange(20))
        with pytest.raises(ValueError, match="it holds something else"):
            reproduce(from_dir=root, out=tmp_path / "out")

    def test_nothing_after_warm_up_is_said(self, tmp_path: Path) -> None:
        labels = np.zeros(20, dtype=int)
        self.write(tmp_path / "mine", validation=np.tile([-5.0, 1.0, 0.0], (20, 1)))
        np.savez(tmp_path / "mine" / "labels.npz", validation=labels, test=labels)
        with pytest.raises(ValueError, match=r"0 of 3 checkpoints have a validation error of at most 0\.5"):
            reproduce(from_dir=tmp_path / "mine", out=tmp_path / "out")


@pytest.mark.heavy
def test_training_needs_no_library_for_tables(tmp_path: Path) -> None:
    """A GPU machine may lack pandas, pyarrow, matplotlib and typer: training and scoring do without."""
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in {'pandas', 'pyarrow', 'matplotlib', 'typer', 'rich', 'torch', 'timm'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from reproduction.__main__ import main\n"
        f"sys.exit(main(['tiny', '--experiments', 'cross', '--no-summary', '--quiet', '--out', {str(tmp_path)!r}]))\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    assert json.loads((tmp_path / "run.json").read_text())["preset"] == "tiny"
    assert len((tmp_path / "cross" / "checkpoints.csv").read_text().splitlines()) == 13
