"""The clinical page: measures, intervals, curves and centres."""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import rankdata

import truecal as tc
from truecal.inference.risk_measures import TITLES, _spline_columns

RNG = np.random.default_rng(5)
RISK = RNG.beta(1, 2, 400)
Y = RNG.random(400) < RISK
CENTRE = np.array([f"h{i % 8}" for i in range(400)])


def test_measures_in_their_order_with_intervals_that_hold_them():
    found = tc.clinical(Y, RISK, thresholds=[0.2])
    assert [measure.name for measure in found.measures] == list(TITLES)
    for m in found.measures:
        assert m.low is not None and m.high is not None and m.low <= m.value <= m.high, m
    np.testing.assert_allclose(found["oe_ratio"].value, Y.mean() / RISK.mean())
    ranks = rankdata(RISK)
    auc = (ranks[Y].sum() - Y.sum() * (Y.sum() + 1) / 2) / (Y.sum() * (~Y).sum())
    np.testing.assert_allclose(found["c_statistic"].value, auc)
    np.testing.assert_allclose(found["brier"].value, np.square(RISK - Y).mean())
    np.testing.assert_allclose(found["scaled_brier"].value, 1 - np.square(RISK - Y).mean() / Y.var())
    assert found.risks.sum() == 400 and found.risks[1].sum() == Y.sum() == found.n_events


def ends(measure):
    assert measure.low is not None and measure.high is not None
    return measure.low, measure.high


def test_known_miscalibration_is_found():
    rng = np.random.default_rng(1)
    z = rng.normal(0, 1.5, 4000)
    found = tc.clinical(rng.random(4000) < expit(z), expit(2 * z + 1), thresholds=[0.2])
    low, high = ends(found["slope"])
    assert low < 0.5 < high and ends(found["intercept"])[1] < 0
    assert ends(found["oe_ratio"])[1] < 1 and ends(found["ici"])[0] > 0.05
    inside = (found.curve.loess_low <= found.curve.risk) & (found.curve.risk <= found.curve.loess_high)
    assert not inside.all()
    truth = expit((logit(found.curve.risk) - 1) / 2)
    assert ((found.curve.spline_low <= truth) & (truth <= found.curve.spline_high)).mean() > 0.8


@pytest.mark.slow
def test_centres_have_their_own_measures_and_intervals_rest_on_them():
    found, alone = tc.clinical(Y, RISK, groups=CENTRE, thresholds=[0.2]), tc.clinical(Y, RISK, thresholds=[0.2])
    assert [centre.name for centre in found.centres] == [f"h{i}" for i in range(8)]
    assert sum(centre.n_samples for centre in found.centres) == 400 and not alone.centres
    for mine, other in zip(found.measures, alone.measures, strict=True):
        assert mine.value == other.value and (mine.low != other.low or mine.low == 0.0)
    own = tc.clinical(Y[CENTRE == "h3"], RISK[CENTRE == "h3"], thresholds=[0.2])
    assert [m.value for m in found.centres[3].measures] == [m.value for m in own.measures[:4]]
    y = Y & (CENTRE != "h0")
    assert tc.clinical(y, RISK, groups=CENTRE, thresholds=[0.2]).centres[0].measures == ()


def test_copies_of_rows_as_clusters_change_little():
    twice = np.repeat(np.arange(400), 2)
    single = tc.clinical(Y, RISK, thresholds=[0.2])
    doubled = tc.clinical(Y[twice], RISK[twice], groups=twice, thresholds=[0.2])
    for one, two in zip(single.measures[:6], doubled.measures[:6], strict=True):
        np.testing.assert_allclose([two.value, *np.diff(ends(two))], [one.value, *np.diff(ends(one))], rtol=0.08)


def test_separated_outcomes_and_few_different_risks():
    found = tc.clinical([0, 0, 0, 1, 1, 1] * 5, [0.1, 0.2, 0.3, 0.7, 0.8, 0.9] * 5, thresholds=[0.5])
    assert found["slope"].value == float("inf") and found["slope"].low is None and "∞" in repr(found)
    assert found.to_dict()["measures"][2]["value"] is None
    flat = tc.clinical([0, 1, 0, 1, 1] * 10, [0.4, 0.6, 0.4, 0.4, 0.6] * 10, thresholds=[0.5])
    assert np.isfinite(flat.curve.spline).all() and len(flat.curve.risk) == 2


def test_the_spline_is_linear_beyond_its_knots():
    x = np.array([-9.0, -8.0, -7.0, 7.0, 8.0, 9.0])
    columns = _spline_columns(x, np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
    assert columns.shape == (6, 5)
    np.testing.assert_allclose(columns[0] - columns[1], columns[1] - columns[2], atol=1e-9)
    np.testing.assert_allclose(columns[3] - columns[4], columns[4] - columns[5], atol=1e-9)


def test_tables_and_texts():
    names = np.where(CENTRE == "h0", "<b>", CENTRE)
    found = tc.clinical(Y, RISK, groups=names, name="a_b", thresholds=[0.2])
    assert found.headline == f"a_b: 400 rows, {Y.sum()} events ({Y.mean():.1%}), 8 centres"
    assert "&lt;b&gt;" in found._repr_html_() and "<b>" not in found._repr_html_()
    assert found.to_latex().count(r"\\") == 11 and "| ICI |" in found.to_markdown()
    assert len(found.to_pandas()) == len(found.rows()) == 10 + 8 * 4
    assert found["slope"].ideal == 1.0 and found["intercept"].ideal == 0.0
    with pytest.raises(KeyError, match="expected one of"):
        found["auc"]


def test_bad_data():
    with pytest.raises(ValueError, match="every row has the event"):
        tc.clinical(np.ones(20, int), RISK[:20])
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        tc.clinical(Y, RISK, thresholds=[0, 1])
    with pytest.raises(ValueError, match="at least 3"):
        tc.clinical(Y, RISK, groups=np.zeros(400))
