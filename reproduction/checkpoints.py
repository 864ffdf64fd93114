"""Measures one checkpoint: temperature, losses, every error at every bin count, U and gap; the score follows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import truecal as tc
from reproduction.traces import Checkpoint, Labels, Row

if TYPE_CHECKING:
    import pandas as pd

BINS = (5, 20, 2000)
COUNTS: Any = (BINS, "auto")  # of the gap, a pass each; auto is from the numbers of rows and classes
PAPER_BINNING = {"ConfECE": "fix", "ConfCE": "qua", "ConfCE_corr": "qua", "LinCE_cw": "qua"}  # as in the paper's table
BINNINGS = {"fix": tc.EqualWidth, "qua": tc.Quantile}
LOSSES = ("classification_error", "cross_entropy", "brier", "spherical", "confidence_loss")
SHORT_LOSSES = tuple(loss for loss in LOSSES if loss != "cross_entropy")  # infinite where what came was impossible
RECALIBRATIONS = {
    "none": "no recalibration",
    "vector": "vector scaling",
    "isotonic": "isotonic regression of each class",
    "top": "temperature scaling, then isotonic regression of the confidence",
}
_LOSS_COLUMN = {"ConfCE_corr": "confidence_loss", "LinCE_cw": "brier"}
_MAPS = {"none": "Identity", "vector": "VectorScaling", "isotonic": "IsotonicOneVsRest"}


@dataclass(frozen=True)
class Family:
    """One kind of error, as a column of the table and as it is written in a figure."""

    name: str
    label: str
    latex: str
    norm: str
    truthful: bool
    loss: str | None = None  # the associated loss, where the error is n^-1 (loss + U)


def _named(*families: Family) -> dict[str, Family]:
    return {family.name: family for family in families}


FAMILIES = _named(
    Family("ConfECE", "ConfECE", r"\mathrm{ConfECE}", "l1", False),
    Family("ConfCE", "ConfCE", r"\mathrm{ConfCE}", "l2", False),
    Family("ConfCE_corr", "ConfCE$^{corr}$", r"\mathrm{ConfCE}^{\mathrm{corr}}", "l2", True, "confidence_loss"),
    Family("LinECE_cw", "LinECE$^{cw}$", r"\mathrm{LinECE}^{\mathrm{cw}}", "l1", False),
    Family("LinCE_cw", "LinCE$^{cw}$", r"\mathrm{LinCE}^{\mathrm{cw}}", "l2", True, "brier_per_class"),
)
TRUTHFUL = tuple(family.name for family in FAMILIES.values() if family.truthful)
# Read off the same tables; as families of their own they are columns named as the errors are.
SCORES = _named(
    Family("score_ConfCE_corr", "score, confidence", r"S^{\mathrm{conf}}", "l2", True),
    Family("score_LinCE_cw", "score, classwise", r"S^{\mathrm{cw}}", "l2", True),
)
GAPS = _named(
    Family("gap_ConfCE_corr", "gap, confidence", r"\mathrm{gap}^{\mathrm{conf}}", "l2", False),
    Family("gap_LinCE_cw", "gap, classwise", r"\mathrm{gap}^{\mathrm{cw}}", "l2", False),
)
# What the scores are without a gap: losses, which need no bins.
ALONE = _named(
    Family("confidence_loss", "confidence loss", r"\mathrm{ConfLoss}", "l2", True),
    Family("brier", "Brier score", r"\mathrm{Brier}", "l2", True),
)
TABLE_BINNING = PAPER_BINNING | dict.fromkeys([*SCORES, *GAPS], "qua")
# Estimators that have no number of bins, each a column: averages over random bins, measures by name, the score.
RANDOM_BINS = {"two_bin": tc.TwoBin(), "poisson": tc.Poisson(0.1)}
WITHOUT_BINS = _named(
    Family("ConfCE_corr_two_bin", "ConfCE$^{corr}$, two bins", r"\mathrm{ConfCE}^{\mathrm{corr}}_{2}", "l2", True),
    Family("LinCE_cw_two_bin", "LinCE$^{cw}$, two bins", r"\mathrm{LinCE}^{\mathrm{cw}}_{2}", "l2", True),
    Family("ConfCE_corr_poisson", "ConfCE$^{corr}$, Poisson", r"\mathrm{ConfCE}^{\mathrm{corr}}_{P}", "l2", True),
    Family("LinCE_cw_poisson", "LinCE$^{cw}$, Poisson", r"\mathrm{LinCE}^{\mathrm{cw}}_{P}", "l2", True),
    Family("mmce", "kernel (MMCE)", r"\mathrm{MMCE}", "l2", False),
    Family("smooth_ece", "smooth ECE", r"\mathrm{smECE}", "l1", False),
    Family("smooth_calibration", "smooth calibration error", r"\mathrm{smCE}", "l1", False),
    Family("score", "score", "S", "l2", True),
)
EVERY_FAMILY = FAMILIES | SCORES | GAPS | ALONE | WITHOUT_BINS


def error_column(family: str, binning: str, bins: int | str) -> str:
    """The table's column for an error, such as ``ConfCE_corr_qua_20``."""
    return f"{family}_{binning}_{bins}"


def u_column(family: str, binning: str, bins: int | str) -> str:
    """The column of U = n error − associated loss: zero on average for a calibrated predictor."""
    return f"U_{error_column(family, binning, bins)}"


def gap_column(family: str, bins: int | str) -> str:
    """The column of the gap in probability points over quantile bins, negative where its estimated square is."""
    return f"gap_{error_column(family, 'qua', bins)}"


def score_column(family: str, bins: int | str) -> str:
    """The column of the score loss + gap² over m quantile bins, in units of the Brier score: lower is better."""
    return f"score_{error_column(family, 'qua', bins)}"


MEASURED = (
    *("fraction", "epoch", "n_test", "n_classes", "temperature", "validation_error", *LOSSES),
    *(error_column(family, binning, bins) for family in FAMILIES for binning in BINNINGS for bins in BINS),
    *(u_column(family, binning, bins) for family in TRUTHFUL for binning in BINNINGS for bins in BINS),
    *(f"twin_{loss}" for loss in SHORT_LOSSES),
    *(f"twin_{error_column(family, binning, bins)}" for family, binning in PAPER_BINNING.items() for bins in BINS),
)
"""The columns of numbers that every table of checkpoints has."""


def score(checkpoint: Checkpoint, y_validation: Labels, y_test: Labels, recalibrations: Sequence[str] = ()) -> Row:
    """Fit the temperature on validation logits, apply it to test logits, measure there: a row without the trace's own
    columns.

    Each of ``recalibrations`` (see `RECALIBRATIONS`) takes the temperature's place in columns of its own.
    """
    validation = np.asarray(checkpoint.validation, dtype=np.float64)
    test = np.asarray(checkpoint.test, dtype=np.float64)
    scaling = _fitted(tc.TemperatureScaling(), validation, y_validation)
    reports = scaling.predict_proba(test)
    row: Row = {
        "n_test": len(y_test),
        "n_classes": test.shape[1],
        "temperature": float(scaling.temperature_),
        "validation_error": float(np.mean(np.argmax(validation, axis=1) != y_validation)),
    }
    row |= _losses(y_test, reports, LOSSES)
    row |= errors(y_test, reports, [(family, binning) for binning in BINNINGS for family in FAMILIES])
    row |= _u_parts(row) | _gaps(y_test, reports) | without_bins(y_test, reports) | _twin(reports)
    for name in recalibrations:
        if name == "top":
            other = _repaired_confidence(y_validation, scaling.predict_proba(validation), y_test, reports)
        else:
            mapped = _fitted(getattr(tc.recalibration, _MAPS[name])(), validation, y_validation).predict_proba(test)
            other = _in_short(y_test, mapped) | _gaps(y_test, mapped)
        row |= {f"{name}_{column}": float(f"{value:.9g}") for column, value in other.items()}  # nine digits are enough
    return row


def _fitted(recalibrator: Any, validation: NDArray[Any], y_validation: Labels) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an untrained first epoch may have no finite best temperature
        return recalibrator.fit(validation, y_validation)


def _twin(reports: NDArray[Any]) -> Row:
    """The same reports with labels drawn from them: what an exactly calibrated checkpoint would have scored.

    Every checkpoint gets the same random numbers, as in truth all of them share one set of test labels. Beside the
    checkpoint's own score it tells sampling noise from miscalibration.
    """
    chances = np.random.default_rng(0).random((len(reports), 1))
    totals = np.cumsum(reports, axis=1)
    y = np.minimum(np.sum(totals < chances * totals[:, -1:], axis=1), reports.shape[1] - 1)
    return {f"twin_{name}": value for name, value in (_in_short(y, reports) | without_bins(y, reports)).items()}


def _in_short(y: Labels, reports: NDArray[Any]) -> Row:
    """What is compared between recalibrations, each error over the bins it has in the paper's table."""
    return _losses(y, reports, SHORT_LOSSES) | errors(y, reports, PAPER_BINNING.items())


def _repaired_confidence(y_validation: Labels, validation: NDArray[Any], y: Labels, reports: NDArray[Any]) -> Row:
    """The confidence errors once the confidence itself is mapped to the frequency of being right."""
    from sklearn.isotonic import IsotonicRegression

    right = np.argmax(validation, axis=1) == y_validation
    curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(validation.max(axis=1), right)
    hit, confidence = np.argmax(reports, axis=1) == y, np.clip(curve.predict(reports.max(axis=1)), 0, 1)
    row: Row = {
        "classification_error": float(1 - hit.mean()),
        "confidence_loss": float(np.mean(1 - hit + (confidence - hit) ** 2)),
    }
    measured = [(family, binning) for family, binning in PAPER_BINNING.items() if family.startswith("Conf")]
    row |= errors(hit, confidence, measured, tc.TopLabel())
    return row | _gaps_of("ConfCE_corr", tc.TopLabel(), hit, confidence)


def _losses(y: Labels, reports: NDArray[Any], names: Iterable[str]) -> Row:
    return {name: tc.LOSSES[name](y, reports) for name in names}


def errors(y: Any, reports: NDArray[Any], families: Iterable[tuple[str, str]], confidence: Any = None) -> Row:
    """Errors with their binning, at every bin count."""
    row: Row = {}
    for family, binning in families:
        measured = tc.Classwise() if family.endswith("_cw") else confidence or tc.Confidence()
        norm: Any = FAMILIES[family].norm
        error = tc.CalibrationError(measured, BINNINGS[binning](BINS), norm, corrected=family == "ConfCE_corr")
        for bins, value in zip(BINS, error(y, reports), strict=True):
            row[error_column(family, binning, bins)] = float(value)
    return row


def without_bins(y: Labels, reports: NDArray[Any]) -> Row:
    """The estimators of `WITHOUT_BINS`: those of one probability per row look at the confidence."""
    row: Row = {"score": tc.score(y, reports)}
    for name, rule in RANDOM_BINS.items():
        row[f"ConfCE_corr_{name}"] = tc.CalibrationError(tc.Confidence(), rule)(y, reports)
        row[f"LinCE_cw_{name}"] = tc.CalibrationError(tc.Classwise(), rule)(y, reports)
    for name in WITHOUT_BINS.keys() - row.keys():
        measure = tc.ERRORS[name]
        row[name] = (replace(measure, property=tc.Confidence()) if name.startswith("smooth") else measure)(y, reports)
    return {name: float(row[name]) for name in WITHOUT_BINS}


def _u_parts(row: Row) -> Row:
    """U of each truthful error from the sample identity n error = loss + U."""
    return {
        u_column(family, binning, bins): row["n_test"] * row[error_column(family, binning, bins)]
        - associated_loss(row, FAMILIES[family])
        for family in TRUTHFUL
        for binning in BINNINGS
        for bins in BINS
    }


def _gaps(y: Labels, reports: NDArray[Any]) -> Row:
    """The gaps of the two truthful errors over quantile bins, at every count of `COUNTS`."""
    return _gaps_of("ConfCE_corr", tc.Confidence(), y, reports) | _gaps_of("LinCE_cw", tc.Classwise(), y, reports)


def _gaps_of(family: str, measured: Any, y: Any, reports: NDArray[Any]) -> Row:
    row: Row = {}
    for counts in COUNTS:
        parts = tc.CalibrationError(measured, tc.Quantile(counts)).decompose(y, reports)
        gaps = np.ravel(np.nan if parts.gap is None else parts.gap)
        row |= {gap_column(family, m): float(gap) for m, gap in zip(np.ravel(counts), gaps, strict=True)}
    return row


def associated_loss(row: Any, family: Family) -> Any:
    """The loss that n times the error equals for a calibrated predictor; for a row, or a whole table."""
    if family.loss is None:
        raise ValueError(f"{family.name} has no associated loss")
    return row["brier"] / row["n_classes"] if family.loss == "brier_per_class" else row[family.loss]


def by_bins(table: pd.DataFrame, family: str) -> dict[int, NDArray[np.float64]]:
    """An error of a table of checkpoints at every bin count, over the bins it has in the paper's table."""
    binning = TABLE_BINNING[family]
    return {bins: table[error_column(family, binning, bins)].to_numpy(dtype=np.float64) for bins in BINS}


def with_scores(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the score of every gap in it, with those of the twins, and with what older tables lack.

    A score is never read from a file: it follows from loss and gap, and older files hold another one. Where a table has
    no gap, its square is U per pair of rows that share a bin. That is exact where all quantile bins hold equal numbers
    of rows; elsewhere such a gap stays unknown and the score is close.
    """
    import pandas as pd

    n, k = table["n_test"], table["n_classes"]
    new: dict[str, Any] = {}
    counts: tuple[Any, ...] = (*BINS, "auto")
    for prefix, family in product(("", "twin_", *(f"{name}_" for name in RECALIBRATIONS)), TRUTHFUL):
        named = {name: f"{prefix}{name}" for name in _LOSS_COLUMN.values()}
        losses = {name: table[column] for name, column in named.items() if column in table}
        if _LOSS_COLUMN[family] not in losses:
            continue  # not measured
        loss = associated_loss({"n_classes": k} | losses, FAMILIES[family])
        unit = k.where(k > 2, 1) if family == "LinCE_cw" else 1  # in the Brier score the classes are summed
        for bins in counts:
            gap, error = f"{prefix}{gap_column(family, bins)}", f"{prefix}{error_column(family, 'qua', bins)}"
            if gap in table:
                squared = (np.sign(table[gap]) * (table[gap] / 100) ** 2).fillna(0)  # no bin has two rows
            elif error in table:
                squared = ((n * table[error] - loss) / _pairs_per_row(n, bins)).fillna(0)
                if not prefix:
                    new[gap] = (100 * np.sign(squared) * np.sqrt(np.abs(squared))).where(n % bins == 0)
            else:
                continue
            new[f"{prefix}{score_column(family, bins)}"] = unit * (loss + squared)
    return pd.concat([table[[column for column in table if column not in new]], pd.DataFrame(new)], axis=1)


def _pairs_per_row(n: Any, bins: int) -> Any:
    """How many other rows share a quantile bin with a row, on average; NaN where there are none."""
    rows, larger = n // bins, n % bins  # so many bins hold one row more
    pairs = larger * (rows + 1) * rows + (bins - larger) * rows * (rows - 1)
    return (pairs / n).where(pairs > 0)
