"""Displays as scikit-learn has them: made by a from_ method, drawn by plot, kept in ax_ and figure_.

What was drawn last is kept in ax_, figure_ and line_, as there, so these classes are not frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, final

import numpy as np

from ...core.data import as_array, shown
from ...core.frames import column_classes
from ...core.labels import check_labels
from ...evidence.values import Reliability
from ...results.compare import compare
from ...results.comparison import Comparison
from ...results.evaluate import evaluate
from ...results.evaluation import Evaluation
from .fitted import column_of, columns_of, positive_column, predict
from .folds import named_estimators, of_rows, out_of_fold


@final
class ReliabilityDisplay:
    """A reliability diagram in the style of scikit-learn's displays: made by a `from_` method, drawn by `plot`.

    Attributes: `evaluation` (what was measured), `diagram` (the bins that are drawn), `name`, and after drawing `ax_`,
    `figure_` and `line_`. The picture is that of `truecal.plots.reliability`, with its band of a calibrated model.
    """

    def __init__(self, evaluation: Evaluation, *, error: str | None = None, view: int = 0, name: str | None = None):
        names = [each for each in ("binary", "confidence", "top_label", "classwise") if each in evaluation.reliability]
        if (names[0] if error is None and names else error) not in evaluation.reliability:
            raise ValueError(f"no diagram of {shown(error)}; this evaluation has {', '.join(names) or 'none'}")
        self.evaluation, self.view = evaluation, view
        self.diagram: Reliability = evaluation.reliability[names[0] if error is None else error]
        self.name = evaluation.name if name is None else name

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw on `ax`, or in a new figure; `kwargs` are those of the curve, as matplotlib's plot takes them."""
        from ...render.plots import reliability

        label = self.name if name is None else name
        self.ax_ = reliability(self.diagram, view=self.view, ax=ax, label=label, **kwargs)
        self.figure_, self.line_ = self.ax_.figure, self.ax_.lines[-1]
        handles, labels = self.ax_.get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))  # several curves on one axes share the word of the band
        self.ax_.legend(once.values(), once.keys(), loc="lower right", frameon=False)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_bins: int = 15,
        pos_label: Any = None,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """The diagram of a fitted classifier on rows that it was not fitted on.

        Two classes show the probability of `pos_label` (by default the second class), more classes the confidence in
        the top class, or the probability of one class, `pos_label`.

        >>> import matplotlib; matplotlib.use("Agg")
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from truecal.adapters.sklearn import ReliabilityDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> display = ReliabilityDisplay.from_estimator(GaussianNB().fit(X[::2], y[::2]), X[1::2], y[1::2])
        >>> display.line_.get_label(), len(display.line_.get_xdata())
        ('GaussianNB', 15)
        >>> matplotlib.pyplot.close(display.figure_)
        """
        proba, classes = predict(estimator, X)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(
            y,
            proba,
            labels=classes,
            n_bins=n_bins,
            pos_label=pos_label,
            sample_weight=sample_weight,
            name=name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        labels: Any = None,
        n_bins: int = 15,
        pos_label: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        folds: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """The diagram of labels and probabilities, (n,) of the positive class or (n, k); labels[j] is that of column j.

        `pos_label` as in `from_estimator`; for one probability per row it is the class of that probability, else 1.
        """
        name = "Classifier" if name is None else name
        rows = {"sample_weight": sample_weight, "groups": groups, "folds": folds}
        about = rows | {"diagram_bins": n_bins, "name": name}
        labels, proba = column_classes(y_true, y_proba, labels), as_array(y_proba, "y_proba")
        if proba.ndim == 1:
            pos_label = 1 if pos_label is None else pos_label
            return cls(evaluate(y_true, proba, errors=["binary"], pos_label=pos_label, **about)).plot(ax, **kwargs)
        classes = np.arange(proba.shape[1]) if labels is None else as_array(labels, "labels")
        if len(classes) == 2:
            column = positive_column(classes, pos_label)
            came = check_labels(y_true, 2, labels) == column
            return cls(evaluate(came, proba[:, column], errors=["binary"], **about)).plot(ax, **kwargs)
        error = "confidence" if pos_label is None else "classwise"
        result = evaluate(y_true, proba, labels=labels, errors=[error], **about)
        view = 0 if pos_label is None else column_of(classes, pos_label)
        return cls(result, view=view).plot(ax, **kwargs)

    @classmethod
    def from_cv_results(
        cls,
        cv_results: Mapping[str, Any],
        X: Any,
        y: Any,
        *,
        n_bins: int = 15,
        pos_label: Any = None,
        sample_weight: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """One diagram of all folds: cv_results as `out_of_fold` takes it, the predictions of every fold together."""
        found = out_of_fold(cv_results, X, y)
        name = type(cv_results["estimator"][0]).__name__ if name is None else name
        proba = found.proba
        if proba.ndim == 1:
            proba = np.column_stack([1 - proba, proba])
        rows = of_rows(found, None, sample_weight)
        about: dict[str, Any] = {"n_bins": n_bins, "pos_label": pos_label, "name": name, "ax": ax}
        return cls.from_predictions(found.classes[found.y], proba, labels=found.classes, **rows, **about, **kwargs)


@final
class ComparisonDisplay:
    """The order of several models at every number of bins, in the style of scikit-learn's displays.

    Attributes: `comparison` (what was measured, with its verdict), `error`, and after drawing `ax_` and `figure_`. The
    picture is that of `truecal.plots.error_against_bins`, by default of the score, which is what to choose by.
    """

    def __init__(self, comparison: Comparison, *, error: str | None = None):
        first = comparison.evaluations[comparison.names[0]]
        self.comparison, self.error = comparison, first.headline if error is None else error

    def plot(self, ax: Any = None, *, name: str | None = None, by: Literal["value", "score"] = "score") -> Self:
        """Draw on `ax`, or in a new figure; `name` is the title."""
        from ...render.plots import error_against_bins

        self.ax_ = error_against_bins(self.comparison, self.error, by=by, ax=ax)
        self.figure_ = self.ax_.figure
        if name is not None:
            self.ax_.set_title(name)
        return self

    @classmethod
    def from_estimators(
        cls, estimators: Mapping[str, Any], X: Any, y: Any, *, sample_weight: Any = None, ax: Any = None
    ) -> Self:
        """Compare fitted classifiers on rows that none of them was fitted on."""
        found = {name: predict(each, X) for name, each in named_estimators(estimators).items()}
        classes = np.unique(np.concatenate([own for _, own in found.values()]))
        models = {name: columns_of(proba, own, classes) for name, (proba, own) in found.items()}
        return cls.from_predictions(y, models, labels=classes, sample_weight=sample_weight, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        models: Mapping[str, Any],
        *,
        labels: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        folds: Any = None,
        ax: Any = None,
    ) -> Self:
        """Compare predictions of the same rows, as `compare` takes them."""
        about = {"labels": labels, "sample_weight": sample_weight, "groups": groups, "folds": folds}
        return cls(compare(y_true, models, **about)).plot(ax)

    @classmethod
    def from_cv_results(
        cls, cv_results: Mapping[str, Mapping[str, Any]], X: Any, y: Any, *, sample_weight: Any = None, ax: Any = None
    ) -> Self:
        """Compare several cross-validations on the same folds: names to what `out_of_fold` takes."""
        found = {name: out_of_fold(each, X, y) for name, each in named_estimators(cv_results).items()}
        first = next(iter(found.values()))
        for name, each in found.items():
            if not np.array_equal(each.row, first.row):
                raise ValueError(
                    f"{name!r} was tested on other folds than {next(iter(found))!r}: pass the same cv to both"
                )
        rows = of_rows(first, None, sample_weight)
        return cls.from_predictions(first.y, {name: each.proba for name, each in found.items()}, **rows, ax=ax)
