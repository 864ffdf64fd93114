"""Decision curves: definitions as loops, laws of L_t, tables, and bad input."""

from itertools import product

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close as assert_same
from truecal.inference.acting import Acting, Contrast

RNG = np.random.default_rng(44)
N = 60
P = RNG.beta(1, 2, N).round(2)
Q = np.clip(P + RNG.normal(0, 0.15, N), 0, 1)
Y = RNG.random(N) < P
W = RNG.integers(1, 4, N) * 0.5
T = [0.1, 0.25, 0.5, 0.8]


def assert_close(found, wanted, scale=0.0, tolerance=1e-12):
    assert_same(np.asarray(found, dtype=float), np.asarray(wanted, dtype=float), scale, tolerance)


def act_loss(y, p, t):
    """L_t of one row: t for a false alarm, 1 − t for a miss."""
    if p >= t:
        return 0.0 if y else t
    return 1 - t if y else 0.0


def net_benefit(y, p, w, t, prevalence=None):
    """Events acted on, less t/(1 − t) for each false alarm; the two outcomes weighted to a prevalence."""
    share = {True: sum(w[y]) / sum(w), False: sum(w[~y]) / sum(w)}
    wanted = share if prevalence is None else {True: prevalence, False: 1 - prevalence}
    total = 0.0
    for yi, pi, wi in zip(y, p, w, strict=True):
        if pi >= t:
            total += wi / sum(w) * wanted[bool(yi)] / share[bool(yi)] * (1.0 if yi else -t / (1 - t))
    return total


@pytest.mark.parametrize("prevalence", [None, 0.1])
def test_curves_are_their_definitions(prevalence):
    found = tc.decision_curve(Y, {"p": P, "q": Q}, thresholds=T, sample_weight=W, prevalence=prevalence, n_resamples=99)
    expected = {name: [net_benefit(Y, u, W, t, prevalence) for t in T] for name, u in (("p", P), ("q", Q))}
    for name, values in expected.items():
        assert_close(found[name].net_benefit.estimate, values)
    assert_close(found.differences[0].difference.estimate, np.subtract(expected["p"], expected["q"]))
    assert_close(found.act_on_all.estimate, [net_benefit(Y, np.ones(N), W, t, prevalence) for t in T])
    pi = sum(W[Y]) / sum(W) if prevalence is None else prevalence
    assert_close(found.prevalence, pi)
    for j, t in enumerate(T):  # net benefit = prevalence − L_t/(1 − t)
        assert_close(found["p"].loss.estimate[j], (1 - t) * (pi - expected["p"][j]))
        if prevalence is None:
            assert_close(
                found["p"].loss.estimate[j],
                np.average([act_loss(*row, t) for row in zip(Y, P, strict=True)], weights=W),
            )
            assert_close(found["p"].acted[j], W[t <= P].sum() / W.sum())
    everybody = [row for row in found.rows() if row["model"] == "act on all"]
    assert_close([row["loss"] for row in everybody], [t * (1 - pi) for t in T])


@pytest.mark.parametrize("clusters", [False, True])
@pytest.mark.parametrize("prevalence", [None, 0.2])
def test_standard_errors_are_those_of_influences(prevalence, clusters):
    t, group = np.array(T), RNG.integers(0, 9, N)
    acting = Acting.of([Y, Y], [P, Q], t, W, (group, 9) if clusters else None, prevalence)
    for way in ((0, "none"), (0, 1), ("all", "none"), ("perfect", 1), (1, "all")):
        for j in range(len(t)):
            acts = {0: t[j] <= P, 1: t[j] <= Q, "all": np.ones(N, bool), "none": np.zeros(N, bool), "perfect": Y}
            value = (acts[way[0]] * 1.0 - acts[way[1]]) * np.where(Y, 1, -t[j] / (1 - t[j]))
            if prevalence is None:
                influence = W * (value - np.average(value, weights=W)) / W.sum()
            else:
                influence = np.zeros(N)
                for rows, share in ((Y, prevalence), (~Y, 1 - prevalence)):
                    mean = np.average(value[rows], weights=W[rows])
                    influence[rows] = share * W[rows] * (value[rows] - mean) / W[rows].sum()
            unit = np.bincount(group, influence) if clusters else influence
            assert_close(Contrast(acting, *way).sd()[j], np.sqrt(np.square(unit).sum()), scale=1e-3, tolerance=1e-7)


def test_twice_the_integral_of_the_loss_is_the_brier_score():
    ends = np.unique(np.concatenate([[0.0, 1.0], P]))
    middles, widths = (ends[1:] + ends[:-1]) / 2, np.diff(ends)  # L_t is linear in t between two predictions
    found = tc.decision_curve(Y, P, thresholds=middles, sample_weight=W, n_resamples=19)
    assert_close(2 * widths @ found["model"].loss.estimate, np.average(np.square(P - Y), weights=W))


def test_no_lie_improves_the_loss_of_acting():
    """Exactly, over a grid of chances, reports and thresholds; and a weight that follows the report is found out."""
    grid = np.arange(11) / 10
    worst = 0.0
    for chance, t in product(grid, np.arange(1, 20) / 20):
        expected = {u: chance * act_loss(True, u, t) + (1 - chance) * act_loss(False, u, t) for u in grid}
        assert min(expected.values()) >= expected[chance] - 1e-15
        weighted = {u: u * loss for u, loss in expected.items()}
        worst = max(worst, weighted[chance] - min(weighted.values()))
    assert worst > 0.01


def test_intervals_hold_the_estimate_and_bands_are_wider():
    found = tc.decision_curve(Y, {"p": P, "q": Q}, thresholds=T)
    for band in (found["p"].net_benefit, found["p"].loss, found.act_on_all, found.differences[0].difference):
        assert (band.band_low <= band.low).all() and (band.low <= band.estimate).all()
        assert (band.estimate <= band.high).all() and (band.high <= band.band_high).all()


def test_a_variance_of_rounding_errors_is_no_unit_of_the_band():
    """One cluster is acted on at .75, and gains as much as it costs: the variance is 0 but for the last bit."""
    rng = np.random.default_rng(0)
    group, p = np.repeat(np.arange(25), 4), np.repeat(np.append(rng.uniform(0.05, 0.6, 24), 0.95), 4)
    y = rng.random(100) < p
    y[-4:] = [1, 1, 1, 0]
    found = tc.decision_curve(y, p, thresholds=[0.1, 0.2, 0.3, 0.75], groups=group)["model"].net_benefit
    assert (found.band_low <= found.low).all() and (found.high <= found.band_high).all()
    assert (found.band_high - found.band_low < 4 * (found.high - found.low)).all()


def test_band_and_p_value_of_a_difference_agree():
    rng = np.random.default_rng(2)
    u = rng.beta(1, 2, 800)
    y = rng.random(800) < u
    found = tc.decision_curve(y, {"a": u, "b": np.clip(u + rng.normal(0, 0.3, 800), 0, 1)})
    (pair,) = found.differences
    outside = (pair.difference.band_low > 0) | (pair.difference.band_high < 0)
    assert outside.any() and not outside.all()
    assert ((pair.pvalues <= 0.05) == outside).all()
    assert pair.better and not pair.worse and pair.sentence.startswith("a is better than b for thresholds ")


def test_a_copy_of_a_model_decides_alike():
    found = tc.decision_curve(Y, {"a": P, "b": P.copy()})
    (pair,) = found.differences
    assert pair.pvalue == 1.0 and pair.alike.all() and not pair.difference.band_high.any()
    assert pair.sentence == "a and b lead to the same decisions at every threshold"


def test_a_clearly_better_model_is_better_for_every_decision_maker():
    rng = np.random.default_rng(3)
    u = rng.random(20_000)
    y = rng.random(20_000) < u
    found = tc.decision_curve(y, {"coarse": rng.permutation(u), "fine": u}, thresholds=np.arange(1, 10) / 10)
    assert found.differences[0].everywhere == "fine" and found.dominance.chain_names == ("fine", "coarse")
    assert (
        found.sentences[2] == "fine is better than coarse for every decision maker with a threshold between 0.1 and 0.9"
    )
    at_one = tc.decision_curve(y, {"coarse": rng.permutation(u), "fine": u}, thresholds=0.5).differences[0]
    assert at_one.sentence.endswith("for every decision maker with a threshold of 0.5")


def test_the_best_use_of_a_share_of_rows():
    y = np.array([1, 1, 0, 1, 0, 0, 0, 0, 0, 1] * 10)
    p = np.array([0.9, 0.8, 0.7, 0.5, 0.5, 0.3, 0.3, 0.2, 0.1, 0.1] * 10)
    (use,) = tc.decision_curve(y, p, resource=0.4, thresholds=[0.5]).uses
    assert use.threshold == 0.5
    assert_close([use.found.estimate, use.right.estimate], [25 / 40, 25 / 40])  # of two equal rows each counts half
    assert use.found.low < 25 / 40 < use.found.high


def test_several_classes_are_acted_on_by_one_class_or_by_confidence():
    rng = np.random.default_rng(4)
    p = rng.dirichlet([1, 1, 1], 300)
    y = (p.cumsum(axis=1) < rng.random(300)[:, None]).sum(axis=1)
    names = np.array(["bird", "cat", "dog"])
    of_cat = tc.decision_curve(names[y], p, labels=list(names), of="cat", thresholds=T)
    assert of_cat == tc.decision_curve(y == 1, p[:, 1], thresholds=T)
    confident = tc.decision_curve(y, p, thresholds=T)
    assert confident == tc.decision_curve(p.argmax(axis=1) == y, p.max(axis=1), thresholds=T)
    known = tc.decision_curve(None, tc.TopPredictions(p.argmax(axis=1) == y, p.max(axis=1)), thresholds=T)
    assert known["model"].net_benefit.band_low.tolist() == confident["model"].net_benefit.band_low.tolist()
    other = p[:, [1, 2, 0]]  # right on other rows: each model has outcomes of its own
    (pair,) = tc.decision_curve(y, {"a": p, "b": other}, thresholds=T).differences
    values = []
    for t in T:
        each = [np.where(u.max(axis=1) >= t, np.where(u.argmax(axis=1) == y, 1, -t / (1 - t)), 0) for u in (p, other)]
        values.append((each[0] - each[1]).mean())
    assert_close(pair.difference.estimate, values)


def test_predictions_in_single_precision_are_compared_in_it():
    y, p = [0, 1] * 10, np.array([0.3, 0.7] * 10)
    found = [tc.decision_curve(y, u, thresholds=[0.3, 0.7])["model"].acted for u in (p, p.astype(np.float32))]
    assert_close(*found)


def test_tables_and_texts():
    found = tc.decision_curve(Y, {"<b>p": P, "q_": Q}, n_resamples=99, resource=0.1)
    assert len(found.to_pandas()) == len(found.rows()) == 3 * 99
    assert found.to_dict()["sentences"] == list(found.sentences)
    assert found.to_latex().count(r"\\") == 11
    assert r"| \<b\>p | q\_ |" in found.to_markdown()
    assert "&lt;b&gt;p" in found._repr_html_() and "<b>p" not in found._repr_html_()
    assert repr(found).startswith("60 rows, events ") and len(repr(found).splitlines()) < 25
    assert [row[0] for row in found.table([0.21, 0.4])[1]] == ["0.21", "0.4"]
    with pytest.raises(KeyError, match="expected one of"):
        found["r"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thresholds": [0.0, 0.5]}, "strictly between 0 and 1, got 0: at 0 everybody is acted on"),
        ({"thresholds": [0.5, 1.0]}, "at 1 a false alarm costs infinitely more"),
        ({"thresholds": [0.5, float("nan")]}, "strictly between 0 and 1"),
        ({"thresholds": [0.5, 0.2]}, "must increase"),
        ({"thresholds": "many"}, "must be numbers"),
        ({"thresholds": np.linspace(0.1, 0.9, 2001)}, "can be compared at 2000 thresholds, got 2001"),
        ({"prevalence": 1}, "prevalence must lie strictly between"),
        ({"resource": 0}, "resource must lie strictly between"),
        ({"of": "cat"}, "there is one event"),
        ({"groups": np.zeros(N)}, "at least 3 different values"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        tc.decision_curve(Y, P, **options)


def test_bad_data():
    with pytest.raises(ValueError, match="every row has the event"):
        tc.decision_curve(np.ones(N, int), P)
    with pytest.raises(ValueError, match="every row is without the event"):
        tc.decision_curve(np.zeros(N, int), P)
    with pytest.raises(ValueError, match="model 'b'"):
        tc.decision_curve(Y, {"a": P, "b": P + 1})
    p = np.full((6, 3), 1 / 3)
    with pytest.raises(ValueError, match="one of the classes"):
        tc.decision_curve([0, 1, 2] * 2, p, of=3)
    with pytest.raises(ValueError, match="differs between the models"):
        tc.decision_curve([0, 1, 2] * 2, {"a": p, "b": np.tile([0.2, 0.5, 0.3], (6, 1))}, prevalence=0.5)


@pytest.mark.parametrize("clusters", [1, 10])
def test_rare_outcomes_that_were_not_seen_are_in_the_interval(clusters):
    """All but one unit are acted on, without a miss; and none is, with clusters: what could be missed still counts."""
    y, p = np.repeat([0, 1], [700, 300]), np.repeat([0.5, 0.005], [999, 1])
    groups = None if clusters == 1 else np.arange(1000) // clusters
    curve = tc.decision_curve(y, p[::-1], thresholds=[0.01, 0.6], groups=groups, n_resamples=99)["model"]
    assert_close(curve.acted, [0.999, 0.0])
    # one missed event in a thousand rows costs 0.00099, ten times the standard error of false alarms
    assert curve.loss.high[0] - curve.loss.estimate[0] > 0.00099 / 2
    # none of so many units: at most 3% of 100 act, 0.3% of 1,000
    assert curve.net_benefit.high[1] > 0.8 * 3 * clusters / 1000
