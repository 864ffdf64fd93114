"""Decision curves and clinical measures against rms, riskRegression, R, dcurves and probcal on ten data sets.

tests/goldens/decisions.csv has their values with versions; `python -m benchmarks.decision_peers` writes it.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logit, ndtri

import truecal as tc
from decision_data import THRESHOLDS, data_sets
from truecal.baselines.clinical import MOST_CURVE_POINTS
from truecal.inference.risk_measures import _spline, simple_measures

with open(Path(__file__).parents[1] / "goldens" / "decisions.csv") as lines:
    EXPECTED = list(csv.DictReader(lines))
DATA = data_sets()
ENDS = {"intercept", "slope"}
"""Measures whose intervals are defined as in the other package."""


def ends_of(measure):
    assert measure.low is not None and measure.high is not None
    return measure.low, measure.high


@pytest.mark.parametrize("name", DATA)
def test_values_are_those_of_other_packages(name):
    y, p = DATA[name]
    found = {"": tc.clinical(y, p, thresholds=THRESHOLDS)}
    curves = {"": found[""].decisions}
    curves["_prevalence"] = tc.decision_curve(y, p, thresholds=THRESHOLDS, prevalence=0.2, n_resamples=19)
    ours = {measure.name: measure.value for measure in found[""].measures}
    for key in ENDS:
        ours |= dict(zip((f"{key}_low", f"{key}_high"), ends_of(found[""][key]), strict=True))
    for suffix, curve in curves.items():
        for j, t in enumerate(THRESHOLDS):
            ours[f"net_benefit_p{suffix}_{t}"] = curve.curves[0].net_benefit.estimate[j]
            ours[f"net_benefit_all{suffix}_{t}"] = curve.act_on_all.estimate[j]
            ours[f"loss_{t}"] = curves[""].curves[0].loss.estimate[j]
    places = np.quantile(p, [0.1, 0.5, 0.9], method="inverted_cdf")
    middle, _, high = _spline(p, y.astype(float), places, None, 0.95)
    for i in range(3):
        ours[f"spline_{i + 1}"] = middle[i]
        ours[f"spline_se_{i + 1}"] = (logit(high[i]) - logit(middle[i])) / -ndtri(0.025)
    c = found[""]["c_statistic"]
    ours["c_statistic_se"] = (logit(ends_of(c)[1]) - logit(c.value)) / -ndtri(0.025) * c.value * (1 - c.value)
    rows = [row for row in EXPECTED if row["data"] == name]
    assert len(rows) == 57
    for row in rows:
        key, value = row["name"], float(row["value"])
        if key in ("brier_low", "brier_high"):
            continue  # see the next test
        if name == "iris" and key.startswith("spline"):
            continue  # the spline separates the outcomes: no finite coefficients
        tolerance = 1e-6
        if len(p) > MOST_CURVE_POINTS and key in ("ici", "e50", "e90", "emax"):
            tolerance = 2e-5  # the curve is interpolated between as many points
        if key == "c_statistic_se":
            tolerance = 0.02 * value  # n - 1 of all rows here, of the rows of each outcome there
        assert abs(ours[key] - value) <= tolerance, row


def test_intervals_of_the_brier_score_are_like_those_of_a_t_interval():
    """riskRegression has mean ± 1.96 se; ours counts surprises that were not seen, and is at most a third wider."""
    for name in DATA:
        rows = {row["name"]: float(row["value"]) for row in EXPECTED if row["data"] == name}
        y, p = DATA[name]
        low, high = ends_of(simple_measures(y == 1, p, None, 0.95)[4])
        ratio = (high - low) / (rows["brier_high"] - rows["brier_low"])
        assert 0.98 < ratio < 1.34, (name, ratio)


def test_every_package_is_there_with_its_version():
    number = Counter(row["tool"].split()[0] for row in EXPECTED)
    assert number == {"R": 100, "dcurves": 240, "probcal": 90, "riskRegression": 60, "rms": 80}
    assert all(len(row["tool"].split()) == 2 for row in EXPECTED) and len(DATA) == 10
