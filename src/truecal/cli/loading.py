"""From files to what the library takes: one set of labels, one entry per model, and notes on what was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truecal.inputs import TopPredictions
from truecal.io import FileError, Predictions, check_same_samples, distinct_names, read_predictions

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

    def test(self, error: str | None, **options: Any) -> CalibrationTest:
        """The calibration test of the only model, by the error that fits it unless one is named."""
        import truecal as tc

        model = next(iter(self.models.values()))
        if isinstance(model, TopPredictions):
            return tc.calibration_test(model.correct, model.confidence, error=error or "top_label", **options)
        chosen = error or ("classwise" if self.errors is None else "confidence")
        return tc.calibration_test(self.y_true, model, error=chosen, **options)


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
            models[name], note = _scaled(predictions, temperature[i], options)
            notes.append(f"{name}: {note}")
        else:
            models[name] = _model(predictions)
    ragged = any("classwise" not in p.supports for p in read)
    top_only = any(isinstance(model, TopPredictions) for model in models.values())
    errors = CONFIDENCE_ERRORS if ragged and not top_only else None
    classes = next((p.classes for p in read if p.classes is not None), None)
    return Loaded(_labels(read), models, errors, tuple(notes), classes)


def _labels(read: Sequence[Predictions]) -> Any:
    """The labels of the first file that has them; top-label files need none."""
    for predictions in read:
        if predictions.y_true is not None:
            return predictions.y_true
    if all(predictions.kind == "top_label" for predictions in read):
        return None
    raise FileError(f"{read[0].path}: expected labels, the file has none: give them with --labels")


def _model(predictions: Predictions) -> Any:
    if predictions.kind != "top_label":
        return predictions.probabilities()
    if predictions.correct is None:
        raise FileError(f"{predictions.path}: expected labels, the file has none: give them with --labels")
    return TopPredictions(predictions.correct, predictions.confidence)


def _scaled(predictions: Predictions, validation: Path, options: dict[str, Any]) -> tuple[Any, str]:
    """Probabilities after a temperature fitted on validation logits, and the sentence that says so."""
    import truecal as tc

    if predictions.logits is None or predictions.n_choices is not None:
        raise FileError(f"{predictions.path}: expected logits for --temperature, the file gives {predictions.kind}")
    fitted_on = read_predictions(validation, **options)
    if fitted_on.logits is None or fitted_on.y_true is None:
        raise FileError(f"{validation}: expected logits and labels to fit a temperature on")
    if fitted_on.n_classes != predictions.n_classes:
        raise FileError(f"{validation}: expected {predictions.n_classes} classes, got {fitted_on.n_classes}")
    if _same_rows(predictions, fitted_on):
        raise FileError(
            f"{validation}: expected other samples than those of {predictions.path} to fit on, got the same"
        )
    scaling = tc.TemperatureScaling().fit(fitted_on.logits, fitted_on.y_true)
    note = f"temperature {scaling.temperature_:.4g} fitted on {fitted_on.n} samples of {validation}"
    return scaling.predict_proba(predictions.logits), note


def _same_rows(a: Predictions, b: Predictions) -> bool:
    return a.logits is not None and b.logits is not None and np.array_equal(a.logits, b.logits)
