"""Scores one checkpoint: temperature, five losses, every error at every bin count, and the U parts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import truecal as tc
from truecal.lab.traces import Checkpoint, Row, Trainer

BINS = (5, 20, 2000)
PAPER_BINNING = {"ConfECE": "fix", "ConfCE": "qua", "ConfCE_corr": "qua", "LinCE_cw": "qua"}  # as in the paper's table
BINNINGS = {"fix": "uniform", "qua": "quantile"}
LOSSES = ("classification_error", "cross_entropy", "brier", "spherical", "confidence_loss")


@dataclass(frozen=True)
class Family:
    """One kind of error, as a column of the table and as it is written in a figure."""

    name: str
    label: str
    latex: str
    norm: str
    truthful: bool
    loss: str | None = None  # the associated loss, where the error is n^-1 (loss + U)


FAMILIES = {
    family.name: family
    for family in (
        Family("ConfECE", "ConfECE", r"\mathrm{ConfECE}", "l1", False),
        Family("ConfCE", "ConfCE", r"\mathrm{ConfCE}", "l2", False),
        Family("ConfCE_corr", "ConfCE$^{corr}$", r"\mathrm{ConfCE}^{\mathrm{corr}}", "l2", True, "confidence_loss"),
        Family("LinECE_cw", "LinECE$^{cw}$", r"\mathrm{LinECE}^{\mathrm{cw}}", "l1", False),
        Family("LinCE_cw", "LinCE$^{cw}$", r"\mathrm{LinCE}^{\mathrm{cw}}", "l2", True, "brier_per_class"),
    )
}


def error_column(family: str, binning: str, bins: int) -> str:
    """The table's column for an error, such as ``ConfCE_corr_qua_20``."""
    return f"{family}_{binning}_{bins}"


def u_column(family: str, binning: str, bins: int) -> str:
    """The column of U = n error − associated loss: zero on average for a calibrated predictor."""
    return f"U_{error_column(family, binning, bins)}"


def score(checkpoint: Checkpoint, trainer: Trainer) -> Row:
    """Fit the temperature on validation logits, apply it to test logits, measure there."""
    return score_logits(checkpoint.validation, trainer.y_validation, checkpoint.test, trainer.y_test)


def score_logits(
    validation: NDArray[Any], y_validation: NDArray[np.intp], test: NDArray[Any], y_test: NDArray[np.intp]
) -> Row:
    """One row of the table, without the trace's own columns."""
    validation = np.asarray(validation, dtype=np.float64)
    test = np.asarray(test, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an untrained first epoch may have no finite best temperature
        scaling = tc.TemperatureScaling().fit(validation, y_validation)
    reports = scaling.predict_proba(test)
    row: Row = {
        "n_test": len(y_test),
        "n_classes": test.shape[1],
        "temperature": float(scaling.temperature_),
        "validation_error": float(np.mean(np.argmax(validation, axis=1) != y_validation)),
    }
    row |= _losses(y_test, reports)
    for binning, strategy in BINNINGS.items():
        row |= _errors(y_test, reports, binning, strategy)
    return row | _u_parts(row) | _twin(reports)


def _twin(reports: NDArray[Any]) -> Row:
    """The same reports with labels drawn from them: what an exactly calibrated checkpoint would have scored.

    Every checkpoint gets the same random numbers, as in truth all of them share one set of test labels. Beside the
    checkpoint's own score it tells sampling noise from miscalibration.
    """
    chances = np.random.default_rng(0).random((len(reports), 1))
    totals = np.cumsum(reports, axis=1)
    y = np.minimum(np.sum(totals < chances * totals[:, -1:], axis=1), reports.shape[1] - 1)
    row = {name: value for name, value in _losses(y, reports).items() if name != "cross_entropy"}
    errors = {binning: _errors(y, reports, binning, strategy) for binning, strategy in BINNINGS.items()}
    for family, binning in PAPER_BINNING.items():
        columns = (error_column(family, binning, bins) for bins in BINS)
        row |= {column: errors[binning][column] for column in columns}
    return {f"twin_{name}": value for name, value in row.items()}


def _losses(y: NDArray[np.intp], reports: NDArray[Any]) -> Row:
    return {
        "classification_error": tc.classification_error(y, reports),
        "cross_entropy": tc.cross_entropy(y, reports),
        "brier": tc.brier(y, reports),
        "spherical": tc.spherical(y, reports),
        "confidence_loss": tc.confidence_loss(y, reports),
    }


def _errors(y: NDArray[np.intp], reports: NDArray[Any], binning: str, strategy: str) -> Row:
    common: Any = {"n_bins": BINS, "strategy": strategy}
    values = {
        "ConfECE": tc.confidence_error(y, reports, norm="l1", **common),
        "ConfCE": tc.confidence_error(y, reports, norm="l2", corrected=False, **common),
        "ConfCE_corr": tc.confidence_error(y, reports, norm="l2", corrected=True, **common),
        "LinECE_cw": tc.classwise_error(y, reports, norm="l1", **common),
        "LinCE_cw": tc.classwise_error(y, reports, norm="l2", **common),
    }
    return {
        error_column(family, binning, bins): float(value)
        for family, per_count in values.items()
        for bins, value in zip(BINS, np.asarray(per_count), strict=True)
    }


def _u_parts(row: Row) -> Row:
    """U of each truthful error from the sample identity n error = loss + U."""
    return {
        u_column(family.name, binning, bins): row["n_test"] * row[error_column(family.name, binning, bins)]
        - associated_loss(row, family)
        for family in FAMILIES.values()
        if family.loss is not None
        for binning in BINNINGS
        for bins in BINS
    }


def associated_loss(row: Any, family: Family) -> Any:
    """The loss that n times the error equals for a calibrated predictor; for a row, or a whole table."""
    if family.loss is None:
        raise ValueError(f"{family.name} has no associated loss")
    return row["brier"] / row["n_classes"] if family.loss == "brier_per_class" else row[family.loss]
