"""Evaluation by cross-validation: every row is predicted by a model that was not fitted on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ...core.data import as_array, shown
from ...core.extras import require
from ...core.frames import refuse_reordered
from ...core.types import Array
from ...results.compare import compare
from ...results.comparison import Comparison
from ...results.evaluate import evaluate
from ...results.evaluation import Evaluation
from .scorers import columns_of, predict


@final
@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions of the fitted models of a cross-validation, each on the rows that it was not fitted on.

    `y` and `proba` as `evaluate` takes them (two classes: whether the second came, and its probability), `fold` the
    number of the model, `row` the place in X, `classes` those of the labels, `unseen` the classes that some model was
    not fitted on, and gave probability 0.
    """

    y: Array
    proba: Array
    fold: Array
    row: Array
    classes: Array
    unseen: tuple[str, ...] = ()

    @property
    def groups(self) -> Array | None:
        """The rows as clusters where some row was predicted more than once: its label is one observation only."""
        return self.row if len(np.unique(self.row)) < len(self.row) else None

    @property
    def notes(self) -> tuple[str, ...]:
        models = int(self.fold.max()) + 1
        said = [
            f"predictions of {models} fitted models, each on its test fold: the verdict is about their average; the "
            "test combines the folds, and the gap compares rows within a fold"
        ]
        if self.groups is not None:
            said.append("rows were predicted several times: each row is a cluster")
        if self.unseen:
            said.append(
                f"absent from the training rows of some fold, and given probability 0: {', '.join(self.unseen)}"
            )
        return tuple(said)


def out_of_fold(cv_results: Mapping[str, Any], X: Any, y: Any) -> OutOfFold:
    """The predictions behind the results of scikit-learn's cross_validate.

    cv_results must come from `cross_validate(..., return_estimator=True, return_indices=True)` on the same X and y.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from truecal.adapters.sklearn import out_of_fold
    >>> X, y = load_iris(return_X_y=True)
    >>> found = out_of_fold(cross_validate(GaussianNB(), X, y, return_estimator=True, return_indices=True), X, y)
    >>> found.proba.shape, found.fold.max().item()
    ((150, 3), 4)
    """
    if not {"estimator", "indices"} <= set(cv_results):
        raise ValueError(
            "cv_results must hold 'estimator' and 'indices': call cross_validate with return_estimator=True and "
            f"return_indices=True; got {', '.join(map(repr, cv_results))}"
        )
    labels = as_array(y, "y")
    classes, codes = np.unique(labels, return_inverse=True)
    tests = [np.asarray(rows) for rows in cv_results["indices"]["test"]]
    take = require("sklearn.utils", "recalibration")._safe_indexing
    found, unseen = [], set()
    for estimator, rows in zip(cv_results["estimator"], tests, strict=True):
        proba, own = predict(estimator, take(X, rows))
        unseen |= set(np.setdiff1d(classes, own).tolist())
        found.append(columns_of(proba, own, classes))
    proba, row = np.concatenate(found), np.concatenate(tests)
    fold = np.repeat(np.arange(len(tests)), [len(rows) for rows in tests])
    two = len(classes) == 2
    missing = tuple(str(name) for name in classes if name in unseen)
    return OutOfFold(codes[row], proba[:, 1] if two else proba, fold, row, classes, missing)


def cross_evaluate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    by: Any = None,
    name: str | None = None,
    **options: Any,
) -> Evaluation:
    """Evaluate an estimator by cross-validation: every row is predicted by a model that was not fitted on it.

    The verdict is about the average of the models fitted here. Predictions of one fold depend on the labels of the
    other folds. So the test combines tests of the folds, the gap takes pairs of rows within a fold, and both are left
    out where folds are too small. Stratified folds make models look more calibrated than they are: a rejection is
    valid, but no rejection is weaker evidence than on new rows. by="fold" adds every fold as a subgroup.

    `cv`, `groups`, `params` and `n_jobs` are those of scikit-learn's cross_validate; `groups` are clusters for the
    intervals as well. `sample_weight` is for measuring; weights for fitting go into `params`. Where cv predicts a row
    several times, each row is a cluster. `options` are those of `evaluate`.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from truecal.adapters.sklearn import cross_evaluate
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = cross_evaluate(GaussianNB(), X, y)
    >>> result.n_samples, result.test.pvalue <= .05
    (569, True)
    """
    splits = _splits(cv, X, y, groups, sample_weight=sample_weight, by=by)
    found = _cross_predict(estimator, X, y, splits, params, n_jobs)
    options |= of_rows(found, groups, sample_weight, by)
    name = type(estimator).__name__ if name is None else name
    return evaluate(found.y, found.proba, name=name, **options).with_notes(found.notes)


def cross_compare(
    estimators: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    cv: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    by: Any = None,
    **options: Any,
) -> Comparison:
    """Compare estimators by cross-validation, all on the same folds, so that differences are paired row by row.

    Options as in `cross_evaluate`; `options` are those of `compare`.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from truecal.adapters.sklearn import cross_compare
    >>> X, y = load_iris(return_X_y=True)
    >>> models = {"naive Bayes": GaussianNB(), "base rates": DummyClassifier()}
    >>> cross_compare(models, X, y, n_resamples=99).leaderboard()[0]["model"]
    'naive Bayes'
    """
    splits = _splits(cv, X, y, groups, sample_weight=sample_weight, by=by)
    if not isinstance(estimators, Mapping) or not estimators:
        raise TypeError(f"estimators must map names to estimators, got {shown(estimators)}")
    found = {name: _cross_predict(each, X, y, splits, params, n_jobs) for name, each in estimators.items()}
    first = next(iter(found.values()))
    options |= of_rows(first, groups, sample_weight, by)
    result = compare(first.y, {name: each.proba for name, each in found.items()}, **options)
    return result.with_notes(first.notes)


def _splits(cv: Any, X: Any, y: Any, groups: Any, **beside: Any) -> list[tuple[Array, Array]]:
    """Train and test rows of each fold, made once, so that every estimator sees the same ones."""
    refuse_reordered(X=X, y=y, groups=groups, **beside)
    splitter = require("sklearn.model_selection", "recalibration").check_cv(cv, as_array(y, "y"), classifier=True)
    return list(splitter.split(X, y, groups))


def _cross_predict(estimator: Any, X: Any, y: Any, splits: Any, params: Any, n_jobs: int | None) -> OutOfFold:
    selection = require("sklearn.model_selection", "recalibration")
    more = {"return_estimator": True, "return_indices": True, "error_score": "raise"}
    options = {"cv": splits, "params": params, "n_jobs": n_jobs, "scoring": _nothing} | more
    return out_of_fold(selection.cross_validate(estimator, X, y, **options), X, y)


def _nothing(estimator: Any, X: Any, y: Any) -> float:
    """Folds are fitted here, not scored: their predictions are measured together."""
    return 0.0


def of_rows(found: OutOfFold, groups: Any, sample_weight: Any, by: Any = None) -> dict[str, Any]:
    """What rows of X have beside them, in the order of the predictions; by="fold" is the number of the fold."""
    given = {"groups": groups, "sample_weight": sample_weight, "by": by}
    rows = {name: as_array(value, name) for name, value in given.items() if value is not None}
    by_fold = isinstance(by, str) and by == "fold"
    ordered = {name: found.fold if by_fold and name == "by" else value[found.row] for name, value in rows.items()}
    return {"folds": found.fold} | ({} if found.groups is None else {"groups": found.groups}) | ordered
