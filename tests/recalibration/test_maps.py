"""What all recalibration maps share: logits and probabilities, labels, weights, data frames, failures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_val_predict

from closeness import assert_close
from recalibration_cases import AFFINE, COUNTING, MAPS, draw
from truecal.recalibration import (
    CanonicalRecalibration,
    Identity,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)


@pytest.mark.parametrize("cls", MAPS)
def test_transform_and_predict_proba_agree(cls):
    z, y = draw()
    new = draw(seed=9)[0]
    fitted = cls().fit(z, y)
    p = fitted.predict_proba(new)
    assert p.shape == new.shape
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(softmax(fitted.transform(new), axis=1), p, atol=1e-12)
    assert (fitted.predict(new) == p.argmax(axis=1)).all()


@pytest.mark.parametrize("cls", MAPS)
def test_a_class_absent_from_validation_keeps_its_column(cls):
    z, y = draw(300, 4)
    rows = y != 2
    fitted = cls().fit(z[rows], y[rows])
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
    p = fitted.predict_proba(z)
    assert p.shape == (300, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    if cls is not CanonicalRecalibration:  # whose cells say 0 unless smoothed
        assert (p[:, 2] > 0).any()


@pytest.mark.slow
@pytest.mark.parametrize("cls", MAPS)
def test_probabilities_enter_by_name(cls):
    z, y = draw()
    p = softmax(z, axis=1)
    from_p = cls.from_probabilities().fit(p, y)
    if cls not in (VectorScaling, MatrixScaling):  # which depend on the constant of a row, as their papers have it
        np.testing.assert_allclose(from_p.predict_proba(p), cls().fit(z, y).predict_proba(z), atol=1e-7)
    from_log = cls().fit(np.log(p), y)
    np.testing.assert_allclose(from_p.predict_proba(p), from_log.predict_proba(np.log(p)), atol=1e-12)
    with pytest.raises(ValueError, match=r"row .* of X sums .*expected probabilities.*these look like logits"):
        from_p.predict_proba(z)


@pytest.mark.filterwarnings("ignore:QuadraticScaling found no best map")  # a parabola tells class 2 apart
@pytest.mark.parametrize("cls", MAPS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_probabilities_of_exactly_zero(cls, dtype):
    p = np.array([[1, 0, 0], [0, 0.5, 0.5], [0.5, 0.5, 0], [0.25, 0.5, 0.25]] * 5, dtype)
    y = np.array([0, 1, 1, 2] * 5)
    y[0] = 1  # what came had probability zero
    out = cls.from_probabilities().fit(p, y).predict_proba(p)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out.sum(axis=1), 1, rtol=1e-5)


def test_the_floor_is_small_or_what_is_asked():
    p = np.array([[1.0, 0.0], [0.25, 0.75]])
    lowest = Identity.from_probabilities().fit(p, [0, 1]).transform(p)
    np.testing.assert_allclose(lowest, [[0, np.log(1e-12)], [np.log(0.25), np.log(0.75)]])
    floored = Identity.from_probabilities(floor=0.01).fit(p, [0, 1]).transform(p)
    np.testing.assert_allclose(floored, np.log([[1, 0.01], [0.25, 0.75]]))
    with pytest.raises(ValueError, match="floor must be a number strictly between 0 and 1, got 2"):
        Identity.from_probabilities(floor=2).fit(p, [0, 1])
    with pytest.raises(TypeError, match="floor must be a number strictly between 0 and 1, got 'a'"):
        Identity.from_probabilities(floor="a").fit(p, [0, 1])
    with pytest.raises(ValueError, match="space must be 'logits' or 'probabilities', got 'log'"):
        Identity(space="log").fit(p, [0, 1])


@pytest.mark.parametrize("cls", MAPS)
def test_labels_name_the_columns(cls):
    z, y = draw(300, 3)
    names = np.array(["ant", "cat", "dog"])
    by_index = cls().fit(z, y)
    by_name = cls(labels=names).fit(z, names[y])
    assert_close(by_name.predict_proba(z), by_index.predict_proba(z))
    assert (by_name.predict(z) == names[by_index.predict(z)]).all()
    assert by_name.classes_.tolist() == names.tolist()
    assert by_name.score(z, names[y]) == pytest.approx(by_index.score(z, y))
    repeated = clone(by_name)
    assert repeated.get_params()["labels"] is names or (repeated.get_params()["labels"] == names).all()


def test_scikit_learn_scores_the_same_by_name_and_by_index():
    z, y = draw(300, 3)
    names = np.array(["ant", "cat", "dog"])
    by_index, by_name = TemperatureScaling().fit(z, y), TemperatureScaling(labels=names).fit(z, names[y])
    for metric in ("neg_log_loss", "neg_brier_score", "roc_auc_ovr", "accuracy"):
        assert get_scorer(metric)(by_name, z, names[y]) == pytest.approx(get_scorer(metric)(by_index, z, y), rel=1e-12)


@pytest.mark.parametrize("cls", MAPS)
def test_labels_out_of_order_are_refused_and_the_message_says_how_to_reorder(cls):
    """scikit-learn's scorers take classes_ for sorted: in any other order they pair columns with wrong classes."""
    z, y = draw(300, 3)
    names = np.array(["cat", "dog", "ant"])
    with pytest.raises(ValueError, match=r"labels must be sorted.*'ant' \(column 2\) after 'dog'.*X\[:, order\]"):
        cls(labels=names).fit(z, names[y])
    order = np.argsort(names)  # what the message says
    fitted = cls(labels=names[order]).fit(z[:, order], names[y])
    assert fitted.classes_.tolist() == ["ant", "cat", "dog"]
    right = -np.log(np.clip(fitted.predict_proba(z[:, order])[:, np.argsort(order)][np.arange(300), y], 1e-15, 1))
    assert get_scorer("neg_log_loss")(fitted, z[:, order], names[y]) == pytest.approx(-right.mean(), rel=1e-6)


@pytest.mark.parametrize("labels", [[3, 1, 2], [True, False], [0.0, -1.0]])
def test_labels_of_any_kind_must_be_sorted(labels):
    with pytest.raises(ValueError, match="labels must be sorted"):
        Identity(labels=labels).fit(np.zeros((2, len(labels))), labels[:2])


@pytest.mark.parametrize("labels", [["ant", "cat", "dog"], [10, 20, 30], [1, 2, 3]])
def test_cross_val_predict_recodes_the_labels_and_the_message_names_the_way_around(labels):
    z, y = draw(300, 3)
    names = np.array(labels)
    named = TemperatureScaling(labels=names)
    with pytest.raises(ValueError, match=r"not in labels.*cross_val_predict.*np\.searchsorted\(labels, y\)"):
        cross_val_predict(named, z, names[y], method="predict_proba")
    out = cross_val_predict(TemperatureScaling(), z, np.searchsorted(names, names[y]), method="predict_proba")
    assert_close(out, cross_val_predict(TemperatureScaling(), z, y, method="predict_proba"))
    assert (cross_val_predict(named, z, names[y]) == names[out.argmax(axis=1)]).all()  # predict is not recoded


def test_two_classes_by_truth_value():
    z, y = draw(200, 2)
    by_bool = cross_val_predict(TemperatureScaling(labels=[False, True]), z, y == 1, method="predict_proba")
    assert_close(by_bool, cross_val_predict(TemperatureScaling(), z, y, method="predict_proba"))


@pytest.mark.parametrize("cls", MAPS)
def test_a_failed_fit_changes_nothing(cls):
    z, y = draw(100, 3)
    fitted = cls().fit(z, y)
    before = fitted.predict_proba(z)
    for X, bad in ((np.column_stack([z, z]), ["a"] * 100), (pd.DataFrame(z, columns=list("abc")), y + 5)):
        with pytest.raises((TypeError, ValueError)):
            fitted.fit(X, bad)
        assert not hasattr(fitted, "feature_names_in_")
        assert_close(fitted.predict_proba(z), before)
    fresh = cls()
    with pytest.raises(ValueError, match="column indices"):
        fresh.fit(z, y + 5)
    assert vars(fresh) == vars(cls())


@pytest.mark.parametrize("cls", MAPS)
def test_a_floor_cannot_apply_to_logits(cls):
    with pytest.raises(ValueError, match=r"floor=0\.1 cannot be used with logits.*from_probabilities\(floor=0\.1\)"):
        cls(floor=0.1).fit(*draw())


@pytest.mark.parametrize(
    ("labels", "y", "kind", "message"),
    [
        (None, [0, 3], ValueError, r"y must hold column indices from 0 to 2; row 1 has 3"),
        (None, [1, 3], ValueError, "1-based coding"),
        (None, ["a", "b"], TypeError, r"y holds strings; pass labels="),
        (None, [0.5, 1.0], ValueError, "Unknown label type: continuous; y must hold classes, got 0.5 at row 0"),
        (["a", "b"], ["a", "b"], ValueError, "labels must name the 3 columns"),
        (["a", "b", "c"], ["a", "d"], ValueError, "y has d at row 1, which is not in labels"),
        (["a", "b", "c"], [0, 7], TypeError, "labels hold <U1 and y holds int64: expected the same kind"),
        ([5, 6, 7], [5, 1], ValueError, "y has 1 at row 1, which is not in labels$"),
        (None, [0, 1, 2], ValueError, "numbers of rows disagree: X has 2, y has 3"),
        (None, None, ValueError, "requires y to be passed"),
    ],
)
def test_labels_that_do_not_fit_the_columns(labels, y, kind, message):
    with pytest.raises(kind, match=message):
        TemperatureScaling(labels=labels).fit([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0]], y)


@pytest.mark.parametrize(
    ("z", "message"),
    [
        ([[0.0, np.nan], [0.0, 1.0]], "X has nan at row 0, column 1"),
        ([[0.0, 1.0], [np.inf, 1.0]], "X has inf at row 1, column 0"),
        ([[0.0, 1.0], [-np.inf, -np.inf]], "X row 1 is -inf in every column"),
        ([[0.0], [1.0]], "one column per class, at least two, got n_features = 1"),
        ([0.0, np.nan], "X has nan at row 1, column 1"),
    ],
)
@pytest.mark.parametrize("cls", MAPS)
def test_logits_that_are_none(cls, z, message):
    with pytest.raises(ValueError, match=message):
        cls().fit(z, [0, 1])


def test_weights_are_validated():
    z, y = draw(4, 2)
    for weights, message in (([1, 1, 1, -1], "negative"), ([0, 0, 0, 0], "all zero"), ([1, 1], "shape")):
        with pytest.raises(ValueError, match=message):
            TemperatureScaling().fit(z, y, sample_weight=weights)


@pytest.mark.parametrize("size", [1e-300, 1e-10, 1e300, 1e307])
@pytest.mark.parametrize("cls", [cls for cls in MAPS if cls not in COUNTING])
def test_weights_of_any_size(cls, size):
    """Only the ratios of weights matter, except beside a prior, whose weight is then given in the same unit."""
    z, y = draw(300, 3)
    w = np.random.default_rng(3).random(300) + 0.1
    prior = {"l2": 1.0} if cls in AFFINE else {"smoothing": 1.0} if hasattr(cls, "smoothing") else {}
    scaled = {name: value * size for name, value in prior.items()}
    expected = cls(**prior).fit(z, y, sample_weight=w).predict_proba(z)
    np.testing.assert_allclose(
        cls(**scaled).fit(z, y, sample_weight=w * size).predict_proba(z), expected, rtol=1e-6, atol=1e-9
    )


def test_priors_beside_weights_of_any_size():
    z, y = draw(300, 3)
    tiny, huge = np.full(300, 1e-320), np.full(300, 1e307)
    for cls in AFFINE:
        expected = TemperatureScaling().fit(z, y).predict_proba(z)
        np.testing.assert_allclose(cls().fit(z, y, sample_weight=tiny).predict_proba(z), expected, atol=1e-6)
        expected = cls(l2=0).fit(z, y).predict_proba(z)
        np.testing.assert_allclose(cls().fit(z, y, sample_weight=huge).predict_proba(z), expected, atol=1e-6)
    canonical = CanonicalRecalibration(smoothing=1.0)
    expected = CanonicalRecalibration().fit(z, y).predict_proba(z)
    np.testing.assert_allclose(canonical.fit(z, y, sample_weight=huge).predict_proba(z), expected, atol=1e-300)
    cells = canonical.fit(z, y, sample_weight=tiny).predict_proba(z)  # each cell at its mean report
    assert (cells > 0).all() and np.abs(cells - softmax(z, axis=1)).mean() < 0.1


def test_a_weight_that_vanishes_beside_the_largest_is_zero():
    z, y = draw(300, 3)
    w = np.where(np.arange(300) < 200, 1e300, 1e-300)
    for cls in MAPS:
        assert_close(
            cls().fit(z, y, sample_weight=w).predict_proba(z),
            cls().fit(z[:200], y[:200], sample_weight=w[:200]).predict_proba(z),
        )


def test_data_frames_and_column_names():
    z, y = draw(50, 3)
    plain = TemperatureScaling().fit(z, y)
    frame = pd.DataFrame(z, columns=["a", "b", "c"])
    for X in (frame, pl.DataFrame(frame), frame.to_numpy().tolist()):
        assert_close(TemperatureScaling().fit(X, pd.Series(y)).temperature_, plain.temperature_)
    named = TemperatureScaling().fit(frame, y)
    assert named.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        named.predict_proba(frame[["b", "a", "c"]])
    assert named.set_output(transform="pandas").transform(frame).columns.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("cls", MAPS)
def test_inputs_are_left_alone_and_an_unfitted_map_says_so(cls):
    z, y = draw(40, 3)
    before = z.copy()
    with pytest.raises(NotFittedError):
        cls().transform(z)
    cls().fit(z, y).predict_proba(z)
    np.testing.assert_array_equal(z, before)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_floating_type_stays_and_half_precision_is_widened(dtype):
    z, y = draw(40, 3)
    expected = np.float32 if dtype != np.float64 else np.float64
    fitted = TemperatureScaling().fit(z.astype(dtype), y)
    assert fitted.transform(z.astype(dtype)).dtype == expected
    assert fitted.predict_proba(z.astype(dtype)).dtype == expected
    np.testing.assert_allclose(fitted.transform(z), z / fitted.temperature_)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("cls", MAPS)
def test_probabilities_are_not_taken_for_logits(cls, dtype):
    """Their softmax would be a nearly uniform prediction; the message names the constructor that reads them."""
    z, y = draw()
    p = softmax(z, axis=1).astype(dtype)
    message = rf"X looks like probabilities .* {cls.__name__}\(\) takes logits: use {cls.__name__}\.from_probabilities"
    for X in (p, np.eye(5, dtype=dtype)[y], p.tolist()):
        with pytest.raises(ValueError, match=message):
            cls().fit(X, y)
    cls.from_probabilities().fit(p, y)
    p[3] *= 0.5  # one row that is no distribution: these are scores
    cls().fit(p, y)


def test_a_few_logits_between_zero_and_one_are_still_predicted_from():
    z, y = draw()
    fitted = TemperatureScaling().fit(z, y)
    p = fitted.predict_proba([[0.5, 0.5, 0, 0, 0]])
    np.testing.assert_allclose(p, softmax(np.array([[0.5, 0.5, 0, 0, 0]]) / fitted.temperature_, axis=1))
