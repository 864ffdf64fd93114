"""From files to what the library takes: one set of labels, one entry per model, and notes on what was read."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truecal.core.data import row_blocks
from truecal.evaluation.inputs import TopPredictions
from truecal.io import FileError, Predictions, check_same_samples, distinct_names, read_predictions
from truecal.io.failures import failure, path_text
from truecal.io.predictions import Floats, names_classes

if TYPE_CHECKING:
    from truecal.inference import CalibrationTest

CONFIDENCE_ERRORS = ("confidence", "confidence_uncorrected", "confidence_l1", "confidence_two_bin")


@dataclass(frozen=True, eq=False)
class Loaded:
    """Labels and models as `evaluate` and `compare` take them; `errors` limits the errors where not all apply."""

    y_true: Any
    models: dict[str, Any]
    errors: tuple[str, ...] | None
    notes: tuple[str, ...]
    classes: tuple[str, ...] | None = None

    def test(self, error: str | None, *, n_bins: Any = None, **options: Any) -> CalibrationTest:
        """The calibration test of the only model: of several forms, or on U of the named error."""
        import truecal as tc

        model = next(iter(self.models.values()))
        top = isinstance(model, TopPredictions)
        if error is None and (n_bins is not None or self.errors is not None):
            error = "top_label" if top else "classwise" if self.errors is None else "confidence"
        y, predicted = (model.correct, model.confidence) if top else (self.y_true, model)
        return tc.calibration_test(y, predicted, error=error, n_bins=n_bins, **options)


def load(
    files: Sequence[Path],
    *,
    labels: Path | None,
    label_column: str | None,
    columns: tuple[str, ...] | None,
    logits: bool,
    temperature: Sequence[Path],
) -> Loaded:
    """Read every file, hold them against each other, and scale by temperature where validation files are given."""
    if temperature and len(temperature) != len(files):
        raise ValueError(
            f"--temperature takes one validation file per model: {len(files)} models, got {len(temperature)}"
        )
    options: dict[str, Any] = {"label_column": label_column, "proba_columns": columns, "logits": logits}
    read = list(check_same_samples([read_predictions(path, labels=labels, **options) for path in files]))
    names = distinct_names(read)
    notes = [f"{name}: {note}" for name, p in zip(names, read, strict=True) for note in p.notes]
    models: dict[str, Any] = {}
    for i, (name, predictions) in enumerate(zip(names, read, strict=True)):
        if temperature:
            models[name], scaling = _scaled(predictions, temperature[i], options)
            notes += [f"{name}: {note}" for note in scaling]
        else:
            models[name] = _model(predictions)
    ragged = any("classwise" not in p.supports for p in read)
    top_only = any(isinstance(model, TopPredictions) for model in models.values())
    errors = CONFIDENCE_ERRORS if ragged and not top_only else None
    classes = None if top_only else _class_names(read)
    return Loaded(_labels(read), models, errors, tuple(notes), classes)


def _class_names(read: Sequence[Predictions]) -> tuple[str, ...] | None:
    """The names in whose order the columns of all files are: names if a file has them, else its numbers."""
    named = next((p.classes for p in read if names_classes(p)), None)
    return named or next((p.classes for p in read if p.classes is not None), None)


def _labels(read: Sequence[Predictions]) -> Any:
    """The labels of the first file that has them; top-label files need none."""
    for predictions in read:
        if predictions.y_true is not None:
            return predictions.y_true
    if all(predictions.kind == "top_label" for predictions in read):
        return None
    raise _no_labels(next(predictions for predictions in read if predictions.kind != "top_label"))


def _no_labels(predictions: Predictions) -> FileError:
    return failure(predictions.path, "expected labels, the file has none: give them with --labels")


def _model(predictions: Predictions) -> Any:
    if predictions.kind != "top_label":
        return predictions.probabilities()
    if predictions.correct is None:
        raise _no_labels(predictions)
    return TopPredictions(predictions.correct, predictions.confidence)


def _scaled(predictions: Predictions, validation: Path, options: dict[str, Any]) -> tuple[Any, list[str]]:
    """Probabilities after a temperature fitted on validation logits, and the sentences that say so."""
    import truecal as tc

    if predictions.logits is None or predictions.n_choices is not None:
        raise failure(predictions.path, f"expected logits for --temperature, the file gives {predictions.kind}")
    fitted_on = read_predictions(validation, **options)
    if fitted_on.logits is None or fitted_on.y_true is None:
        raise failure(validation, "expected logits and labels to fit a temperature on")
    if fitted_on.n_classes != predictions.n_classes:
        raise failure(validation, f"expected {predictions.n_classes} classes, got {fitted_on.n_classes}")
    notes = _check_apart(predictions.path, predictions.logits, validation, fitted_on.logits)
    with warnings.catch_warnings(record=True) as raised:  # what the fit has to say is said with the results
        warnings.simplefilter("always")
        scaling = tc.TemperatureScaling().fit(fitted_on.logits, fitted_on.y_true)
    note = f"temperature {scaling.temperature_:.4g} fitted on {fitted_on.n} samples of {path_text(validation)}"
    return scaling.predict_proba(predictions.logits), [note, *(str(warning.message) for warning in raised), *notes]


def _check_apart(path: str, tested: Floats, validation: Path, fitted: Floats) -> list[str]:
    """Refuse validation rows that are the test rows in any order, or part of them; note rows that are in both.

    A part is refused only if no row repeats: a model with few different outputs gives equal rows for other samples.
    """
    dtype = min(tested.dtype, fitted.dtype, key=lambda d: d.itemsize)  # one side may have been stored in fewer digits
    ours, theirs = _row_counts(tested, dtype), _row_counts(fitted, dtype)
    shared = (ours & theirs).total()
    smaller = min(len(tested), len(fitted))
    unique = len(ours) == len(tested) and len(theirs) == len(fitted)
    if shared == smaller and (unique or len(tested) == len(fitted)):
        raise failure(validation, f"expected other samples than those of {path} to fit on, got the same")
    if not shared:
        return []
    return [f"{shared} of the {len(fitted)} validation rows of {path_text(validation)} equal rows of {path_text(path)}"]


def _row_counts(logits: Floats, dtype: np.dtype[Any]) -> Counter[bytes]:
    """How often each row occurs, whatever the order of its columns: files may list the classes differently."""
    counts: Counter[bytes] = Counter()
    for rows in row_blocks(logits.shape[0], logits.shape[1] * logits.itemsize):
        block = np.sort(logits[rows].astype(dtype), axis=1) + 0.0  # no -0.0
        counts.update(hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in block)
    return counts
