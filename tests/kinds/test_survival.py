"""Risks of censored times at horizons: truthful where the censoring is known, and equal to known packages."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal
from closeness import assert_close
from truecal.cli import app
from truecal.kinds.censoring import event_share, outcomes, read_censored

tc: Any = truecal  # what a test hands in need not be of the right type
HORIZONS = (1.0, 2.0, 5.0)


def world(n: int = 200, *, seed: int = 7, tied: bool = False, factor: float = 1.2) -> tuple[tuple, np.ndarray]:
    """Censored times and risks of rates that are `factor` times too high."""
    rng = np.random.default_rng(seed)
    rate = np.exp(0.8 * rng.normal(size=n) - 1.3)
    event, end = rng.exponential(1 / rate), rng.exponential(4, size=n)
    if tied:
        event, end = (np.ceil(4 * x) / 4 for x in (event, end))
    risk = 1 - np.exp(-factor * rate[:, None] * np.array(HORIZONS))
    return (np.minimum(event, end), event <= end), risk


def losses(found: Any) -> list[float]:
    return [found.loss(name).value for name in ("ipcw_brier", *(f"ipcw_brier_at_{t:g}" for t in HORIZONS))]


# -- known censoring: the theorem --------------------------------------------------------------------------------------

KNOWN = 0.2
"""The chance that a row is not censored at .5: what is known later counts 1/KNOWN."""


def possible(risk: float) -> list[tuple[float, float, bool, float]]:
    """Chance, time, event and weight of what can be seen of a row: half of the events come before the censoring."""
    late = KNOWN * (1 - risk)
    return [
        (risk / 2, 0.25, True, 1.0),
        (KNOWN * risk / 2, 0.75, True, 1 / KNOWN),
        (late, 3.0, False, 1 / KNOWN),
        (1 - risk / 2 - KNOWN * risk / 2 - late, 0.5, False, 0.0),
    ]


def expected(error: Any, truth: tuple[float, ...], report: tuple[float, ...], **options: Any) -> float:
    """Over all outcomes of all rows."""
    total = 0.0
    for seen in product(*map(possible, truth)):
        chance, time, event, weight = (np.array(column) for column in zip(*seen, strict=True))
        total += chance.prod() * error((time, event, weight), np.array(report), **options)
    return total


@pytest.mark.parametrize("options", [{}, {"scale": "score"}])
@pytest.mark.parametrize("bins", [1, 2])
def test_with_known_censoring_no_lie_beats_the_truth(bins, options):
    error = tc.CalibrationError(tc.properties.Survival(1.0), tc.Quantile(bins))
    lies = list(product((0.0, 0.25, 0.375, 0.5, 0.75), repeat=2))
    for truth in ((0.25, 0.75), (0.5, 0.5)):
        honest = expected(error, truth, truth, **options)
        assert min(expected(error, truth, lie, **options) for lie in lies) >= honest - 1e-12
    plain = replace(error, corrected=False)
    assert not plain.truthful and error.truthful
    assert expected(plain, truth, (0.375, 0.375)) < expected(plain, truth, truth) - 0.01


def test_the_expected_loss_is_the_brier_score_of_known_outcomes():
    error = tc.CalibrationError(tc.properties.Survival(1.0), tc.Quantile(1))
    truth, report = (0.25, 0.75), (0.5, 0.625)

    def loss(y, u):
        return float(error.parts(error.read(y, u))[0].loss)

    wanted = np.mean([p * (1 - u) ** 2 + (1 - p) * u**2 for p, u in zip(truth, report, strict=True)])
    assert expected(loss, truth, report) == pytest.approx(wanted, abs=1e-14)


# -- known packages ----------------------------------------------------------------------------------------------------


def test_brier_scores_are_those_of_scikit_survival_and_riskregression():
    """`sksurv.metrics.brier_score` 0.28.0 and `riskRegression::Score(cens.model = "km")`; of equal times of an event
    and a censoring, riskRegression and we take G just before the event, scikit-survival at it."""
    data, risk = world()
    both = [0.2132394572383361, 0.1621192355028832, 0.2221378811944991, 0.2184149658752698]
    assert_close(losses(tc.evaluate(data, risk, horizons=HORIZONS, n_resamples=19)), both, tolerance=1e-8)
    data, risk = world(tied=True)
    of_r = [0.16445717034961, 0.22392388741208, 0.22286140952071]
    assert_close(losses(tc.evaluate(data, risk, horizons=HORIZONS, n_resamples=19))[1:], of_r, tolerance=1e-8)


def test_other_measures_are_those_of_survivaleval():
    """SurvivalEVAL 0.9.0: d_calibration with linear curves, one_calibration with adjust_variance=False."""
    rng = np.random.default_rng(5)
    rate = np.exp(0.8 * rng.normal(size=400) - 1.3)
    event, end = rng.exponential(1 / rate), rng.exponential(3, size=400)
    at = np.linspace(0.5, 8, 16)
    risk = 1 - np.exp(-1.3 * rate[:, None] * at)
    time, came = np.minimum(np.minimum(event, end), 7.99), (event <= end) & (event < 7.99)
    curves = replace(tc.ERRORS["d_calibration"], property=tc.properties.Survival(at))
    assert_close(curves((time, came, np.ones(risk.shape)), risk), 14.786898301300267, tolerance=1e-8)
    for t, value in ((1.0, 8.484815909477696), (3.0, 6.871583764334826)):
        one = replace(tc.ERRORS["one_calibration"], property=tc.properties.Survival(t))
        assert_close(one((time, came), risk[:, at == t]), value, tolerance=1e-8)


def test_named_measures_are_measured_by_evaluate():
    data, risk = world(n=400)
    found = tc.evaluate(data, risk, horizons=HORIZONS, errors=["survival", "d_calibration"], n_resamples=19)
    own = replace(tc.ERRORS["d_calibration"], property=tc.properties.Survival(HORIZONS))
    assert_close(found.row("d_calibration").value, own(data, risk))
    assert not found.row("d_calibration").truthful


def test_curves_that_know_nothing_pass_d_calibration():
    """Each row says that its event comes in its own tenth: every count is what it should be, whatever comes."""
    n, at = 40, np.array([1e-9, 9.0])
    tenth = (np.arange(n) % 10 + 0.5) / 10
    risk = np.column_stack([tenth, tenth])
    curves = replace(tc.ERRORS["d_calibration"], property=tc.properties.Survival(at))
    time = np.random.default_rng(0).exponential(size=n)
    assert curves((time, np.ones(n), np.ones((n, 2))), risk) == pytest.approx(0.0, abs=1e-12)
    assert curves((time, np.ones(n), np.ones((n, 2))), 1 - np.exp(-time.mean() * np.outer(np.ones(n), at))) > 1


# -- censoring ---------------------------------------------------------------------------------------------------------


def by_hand(time, event, t) -> float:
    """1 − Kaplan-Meier by a loop; of equal times events come first."""
    left = 1.0
    for s in sorted(set(time[time <= t])):
        left *= 1 - (event & (time == s)).sum() / (time >= s).sum()
    return 1 - left


def test_weighted_outcomes_have_the_mean_of_kaplan_and_meier():
    """Also with ties, which shows that the usual convention is kept: events come before censoring."""
    (time, event), _ = world(tied=True)
    y = outcomes(read_censored((time, event)), HORIZONS, np.ones(len(time)))
    shares = event_share(time, event, np.ones(len(time)), np.array(HORIZONS))
    assert_close(shares, np.array([by_hand(time, event, t) for t in HORIZONS]))
    assert_close((y["counts"] * y["came"]).mean(axis=0), shares)
    assert_close(y["counts"].mean(axis=0), np.ones(3))


def test_strata_are_estimated_by_themselves_and_weights_may_be_given():
    data, risk = world(n=600)
    by = np.arange(600) % 2
    found = tc.evaluate(data, risk, horizons=HORIZONS, censoring_by=by, n_resamples=19)
    weights = np.zeros(risk.shape)
    for s in (0, 1):
        own = outcomes(read_censored(tuple(x[by == s] for x in data)), HORIZONS, np.ones(300))
        weights[by == s] = own["counts"]
    given = tc.evaluate((*data, weights), risk, horizons=HORIZONS, n_resamples=19)
    assert_close(losses(found), losses(given))
    assert_close(found.score, given.score)
    assert abs(found.score - tc.evaluate(data, risk, horizons=HORIZONS, n_resamples=19).score) > 1e-6


def test_a_row_of_weight_two_is_a_row_twice():
    data, risk = world(n=60)
    w = np.arange(60) % 3 + 1
    rows = np.repeat(np.arange(60), w)
    once = tc.evaluate(data, risk, horizons=HORIZONS, sample_weight=w, n_resamples=19)
    twice = tc.evaluate(tuple(x[rows] for x in data), risk[rows], horizons=HORIZONS, n_resamples=19)
    assert_close(losses(once), losses(twice))


def test_without_censoring_a_horizon_is_one_probability():
    (time, _), risk = world(n=300)
    found = tc.evaluate((time, np.ones(300)), risk[:, 1], horizons=2, n_resamples=99)
    plain = tc.evaluate(time <= 2, risk[:, 1], n_resamples=99)
    assert_close([found.loss("ipcw_brier").value, found.score], [plain.brier, plain.score], 1)
    assert_close(found.gap.points, plain.gap.points)
    assert found.test.pvalue == plain.test.pvalue


# -- what evaluate and compare say -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both() -> Any:
    data, high = world(n=1500, factor=1.5)
    _, true = world(n=1500, factor=1.0)
    return data, true, high


def test_each_horizon_has_gap_direction_and_test(both):
    data, _, high = both
    found = tc.evaluate(data, high, horizons=HORIZONS, n_resamples=199)
    assert [view.name for view in found.views] == ["by 1", "by 2", "by 5"]
    assert all(view.gap.direction.startswith("too high") and view.pvalue <= 0.05 for view in found.views)
    assert found.kind == "survival" and found.test.pvalue <= 0.05
    text = repr(found)
    assert "on average over 3 horizons: too high by" in text and "= IPCW Brier" in text
    assert any("the censoring is estimated" in note for note in found.notes)
    shares = event_share(data[0], data[1], np.ones(1500), np.array(HORIZONS))
    assert_close([view.frequency for view in found.views], shares, 1, tolerance=0.02)


def test_diagrams_have_kaplan_meier_estimates_within_bins(both):
    data, _, high = both
    diagram = tc.evaluate(data, high, horizons=HORIZONS, n_resamples=19).reliability["survival"]
    first = np.argsort(high[:, 0])[:100]  # the same rows at every horizon
    wanted = [by_hand(data[0][first], data[1][first], t) for t in HORIZONS]
    assert_close(diagram.mean_outcome[:, 0], np.array(wanted))
    assert_close(diagram.mean_report[:, 0], high[first].mean(axis=0))
    assert (diagram.low < diagram.mean_report).all() and (diagram.high > diagram.mean_report).all()
    assert diagram.names == ("by 1", "by 2", "by 5")


def test_models_subgroups_and_segments(both):
    data, true, high = both
    region = np.arange(1500) % 2
    mixed = np.where(region[:, None] == 1, high, true)
    found = tc.compare(data, {"true": true, "high": high}, horizons=HORIZONS, n_resamples=199)
    assert found.verdict.best == ("true",) and found.verdict.rejected == ("high",)
    pair = next(p for p in found.pairs if p.error == "survival")
    off = [tc.evaluate(data, u, horizons=HORIZONS, n_resamples=19).loss("ipcw_brier").value for u in (true, high)]
    assert_close(abs(pair.loss.estimate), off[1] - off[0])
    assert not pair.loss.note
    parts = tc.evaluate(data, mixed, horizons=HORIZONS, by=region, features={"region": region}, n_resamples=199)
    assert [part.standing.answer for part in parts.subgroups.values()][1] == "no"
    assert parts.segments.findings[0].segment.name == "region = 1"
    assert "(horizon " in repr(parts.segments.findings[0])


def test_functions_and_tables_of_survival_are_read(both):
    pd = pytest.importorskip("pandas")
    data, true, _ = both
    wanted = losses(tc.evaluate(data, true, horizons=HORIZONS, n_resamples=19))
    steps = [lambda t, row=row: 1 - row[HORIZONS.index(t)] for row in true]
    table = pd.DataFrame(1 - true.T, index=HORIZONS)
    later = pd.concat([table, table.iloc[[-1]].set_axis([6.0])])
    structured = np.array(list(zip(data[1], data[0], strict=True)), [("event", bool), ("time", float)])
    for y, given in ((data, 1 - true), (data, steps), (data, table), (data, later), (structured, 1 - true)):
        found = tc.evaluate(y, given, horizons=HORIZONS, survival=True, n_resamples=19)
        assert_close(losses(found), wanted)


Y = (np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 0, 1, 0]))
U = np.array([[0.5], [0.4], [0.3], [0.2]])
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "competing risks": (((Y[0], [1, 0, 2, 0]), U), {"horizons": 1}, "competing risks are not supported"),
    "beyond": ((Y, U), {"horizons": 3.5}, "the largest usable horizon is 3"),
    "in a stratum": ((Y, U), {"horizons": 3, "censoring_by": [0, 0, 1, 1]}, "in every stratum of censoring_by is 1"),
    "no horizons": ((Y, U), {"task": "survival"}, "horizons must be given"),
    "falling horizons": ((Y, U), {"horizons": [2, 1]}, "increasing positive times"),
    "two columns": ((Y, np.hstack([U, U])), {"horizons": 1}, "each of 1 horizons"),
    "survival": ((Y, np.hstack([U, U / 2])), {"horizons": [1, 2]}, "survival=True"),
    "no option alone": (([0, 1], [0.1, 0.2]), {"censoring_by": [0, 1]}, "pass horizons="),
    "thresholds": ((Y, U), {"horizons": 1, "thresholds": [1]}, "thresholds cannot be used"),
    "task": ((Y, U), {"horizons": 1, "task": "ordered"}, "cannot be used with task"),
    "negative": ((([-1.0, 2, 3, 4], Y[1]), U), {"horizons": 1}, "not negative, got -1 at row 0"),
    "no event": (((Y[0], [0, 0, 0, 0]), U), {"horizons": 1}, "event is 0 in every row"),
    "rows": ((Y, U[:3]), {"horizons": 1}, "numbers of rows disagree"),
    "one array": ((Y[0], U), {"horizons": 1}, "y_true must be"),
    "nothing": ((None, U), {"horizons": 1}, "got NoneType"),
    "advice": ((Y, U), {"horizons": 1, "advise": True}, "advise needs one label per row"),
    "outcome": ((Y, U), {"horizons": 1, "by": Y[1]}, "the outcome under another name"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_clear_error(case):
    arguments, options, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        tc.evaluate(*arguments, **options)


def test_streams_refuse_it():
    with pytest.raises(ValueError, match="'survival' cannot be streamed"):
        tc.stream("survival")


def test_functions_take_the_error_itself(both):
    data, true, high = both
    error = tc.CalibrationError(tc.properties.Survival(HORIZONS), tc.Quantile(8))
    found = tc.evaluate(data, high, horizons=HORIZONS, n_bins=8, n_resamples=99)
    assert_close(tc.gap(data, high, error=error).points, found.row("survival").gap)
    assert_close(tc.score(data, high, error=error), found.score)
    assert tc.calibration_test(data, high, error=error, n_resamples=99).reason.startswith("by ")
    assert tc.paired_difference(data, true, high, error=error).loss.high < 0
    bands = tc.analysis.consistency_bands(data, high, error=error)
    assert bands.low.shape == (3, 8) and bands.outside.any()


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_command_line_agrees(tmp_path: Path, both, monkeypatch, capsys):
    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["truecal", "evaluate", "risks.csv", "--task", "survival", *arguments])
        return int(app.run())

    data, _, high = both
    monkeypatch.chdir(tmp_path)
    half = np.arange(1500) % 2
    table = np.column_stack([*data, half, high])
    np.savetxt("risks.csv", table, delimiter=",", header="t,d,half,r1,r2,r5", comments="", fmt="%.17g")
    about = ["--time", "t", "--event", "d", "--horizons", "1,2,5", "--resamples", "99"]
    assert run(*about, "--by", "half", "--censoring-by", "half", "--json", "out.json") == 0
    found = tc.evaluate(data, high, horizons=HORIZONS, censoring_by=half, by={"half": half}, n_resamples=99)
    written = json.loads(Path("out.json").read_text())
    assert_close([written["score"], written["gap"]], [found.score, found.gap.points])
    assert set(written["subgroups"]) == set(found.subgroups)
    assert run("--time", "t", "--event", "d") == 2 and "--horizons" in capsys.readouterr().err


def test_risks_are_found_by_their_horizons_beside_other_numbers(tmp_path: Path, both, monkeypatch, capsys):
    def run(*arguments: str) -> str:
        about = ["--task", "survival", "--time", "t", "--event", "d", "--resamples", "19"]
        monkeypatch.setattr(sys, "argv", ["truecal", *arguments, *about])
        app.run()
        return "".join(capsys.readouterr())

    data, true, high = both
    monkeypatch.chdir(tmp_path)
    age = 40 + np.arange(1500) % 30
    for name, risk in (("true", true), ("high", high)):
        table, heads = np.column_stack([*data, age, risk]), "t,d,age,risk_1,risk at 2.0,risk_5y"
        np.savetxt(f"{name}.csv", table, delimiter=",", header=heads, comments="", fmt="%.17g")
    found = tc.evaluate(data, high, horizons=HORIZONS, n_resamples=19)
    assert f"IPCW Brier    {found.loss('ipcw_brier').value:.4f}" in run("evaluate", "high.csv", "--horizons", "1,2,5")
    both_said = run("compare", "true.csv", "high.csv", "--horizons", "1,2,5")
    assert f"{found.loss('ipcw_brier').value:.4f}" in both_said and "error" not in both_said
    wrong = run("evaluate", "high.csv", "--horizons", "1,2,4")
    assert "expected 3 columns of risks, one per horizon, found 4 in 'age', 'risk_1'" in wrong and "--columns" in wrong
