"""From files to what the library takes: one set of labels, one entry per model, and notes on what was read."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from truecal.baselines.by_name import check_errors
from truecal.core.data import row_blocks
from truecal.io import (
    FileError,
    FileKind,
    Predictions,
    check_same_samples,
    distinct_names,
    read_column,
    read_predictions,
)
from truecal.io.agreement import in_order_of, names_classes
from truecal.io.column_rules import choose_label
from truecal.io.dataset import Dataset, is_dataset, left_out_files, open_dataset, read_table_column
from truecal.io.decision_logs import DecisionLog, is_decision_log, read_decisions
from truecal.io.failures import failure, listing, path_text
from truecal.io.matching import IdColumn
from truecal.io.prediction_file import FILE_KINDS, Floats
from truecal.io.read_file import is_found
from truecal.kinds import TopPredictions
from truecal.kinds.inputs import Progress, read_inputs

from .shared_options import Measuring, Reading, file_of, split

if TYPE_CHECKING:
    from truecal.inference.calibration_result import CalibrationTest
    from truecal.inference.estimation import Estimate
    from truecal.inference.thresholds import Threshold

KIND_WORDS: dict[str, FileKind] = {"probs": "probabilities", **{kind: kind for kind in FILE_KINDS}}
CONFIDENCE_ERRORS = ("confidence", "confidence_uncorrected", "confidence_l1", "confidence_two_bin")


@dataclass(frozen=True, eq=False)
class Loaded:
    """Labels and models as `evaluate` and `compare` take them; `errors` limits the errors where not all apply."""

    y_true: Any
    models: dict[str, Any]
    errors: tuple[str, ...] | None
    notes: tuple[str, ...]
    classes: tuple[str, ...] | None
    first: Predictions
    id_column: IdColumn = None

    def arguments(self, measuring: Measuring) -> dict[str, Any]:
        """The arguments of `tc.evaluate` and `tc.compare` that come from files, and the errors to measure."""
        errors = split(measuring.errors) or self.errors
        if self.errors is not None and not set(errors or ()) <= set(self.errors):
            raise ValueError(f"--errors: rows have different choices; expected some of {', '.join(self.errors)}")
        return {
            "errors": errors,
            "by": self._columns(measuring.by),
            "groups": self.clusters(measuring.groups),
            "overlap": measuring.overlap,
            "sample_weight": self.weights(measuring.weights),
        }

    @property
    def named_labels(self) -> tuple[Any, dict[str, Any]]:
        """The labels as names of classes, and `labels=`: results then name classes."""
        y, names = self.y_true, self.classes
        shapes = {getattr(model, "shape", ())[1:] for model in self.models.values()}
        numbered = names is None or names == tuple(map(str, range(len(names))))
        if numbered or getattr(y, "ndim", 0) != 1 or shapes != {(len(names or ()),)}:
            return y, {}
        return np.array(names)[y], {"labels": list(names or ())}

    def clusters(self, spec: str | None) -> Any:
        """The clusters that an option names, or those of the file."""
        return self.first.groups if spec is None else self._column(spec)

    def weights(self, spec: str | None) -> Any:
        """The weights that an option names."""
        return self._column(spec, numbers=True)

    def threshold(self, risk: float, delta: float, groups: str | None) -> Threshold:
        """The threshold of the only model."""
        from truecal.inference.checks import check_groups
        from truecal.inference.thresholds import threshold_of

        inputs = read_inputs(self.y_true, next(iter(self.models.values())))
        return threshold_of(inputs, risk, delta, check_groups(self.clusters(groups), inputs.n_samples))

    def features(self, specs: str) -> dict[str, Any]:
        """The named columns; text that spells numbers in every row is numbers, and empty text is missing."""
        names = split(specs) or ()
        if not all(names):
            raise typer.BadParameter(f"expected columns such as region,age, got {specs!r}", param_hint="--segments")
        return {name.rpartition(":")[2]: _numbers(self._column(name)) for name in names}

    def _columns(self, specs: str | None) -> Any:
        """One column, or several comma-separated ones by name."""
        if specs is None or "," not in specs or file_of(specs) is not None:
            return self._column(specs)
        return {name.rpartition(":")[2]: self._column(name) for name in split(specs) or ()}

    def _column(self, spec: str | None, numbers: bool = False) -> Any:
        """COLUMN of the first prediction file, FILE, or FILE:COLUMN, for the rows that were kept."""
        if spec is None:
            return None
        if spec in (self.first.features or ()):
            return (self.first.features or {})[spec]
        file = file_of(spec)
        column = spec if file is None else None if str(file) == str(Path(spec)) else spec.rpartition(":")[2]
        n = self.first.n_rows or self.first.n
        if file is None and is_dataset(self.first.path):
            values = read_table_column(self.first.path, spec, numbers=numbers)
        else:
            place = file or self.first.path
            values = read_column(place, column, rows=n, numbers=numbers, of=self.first, id_column=self.id_column)
        return values if self.first.rows is None else values[self.first.rows]

    def test(
        self,
        error: str | None,
        measuring: Measuring,
        progress: Progress | None = None,
        max_gap: float | None = None,
    ) -> CalibrationTest:
        """The calibration test of the only model: of several forms, or on U of the named error. With `max_gap` it has
        the gap, to be compared with it."""
        from truecal.inference.calibration import calibration_test

        model = next(iter(self.models.values()))
        y_true, names = self.named_labels
        if error is not None:
            check_errors([error], read_inputs(self.y_true, model))
        elif self.errors is not None:  # rows with different choices
            error = "confidence"
        options: dict[str, Any] = {
            name: getattr(measuring, name) for name in ("n_resamples", "seed", "level", "overlap")
        }
        options |= names | {"n_bins": measuring.counts, "groups": self.clusters(measuring.groups)}
        return calibration_test(y_true, model, error=error, max_gap=max_gap, progress=progress, **options)


def estimated(
    labelled: Path, unlabelled: Path, reading: Reading, cost: tuple[float, ...] | None, level: float
) -> tuple[Estimate, list[str]]:
    """The estimate for the rows of one file from labelled rows of another, and notes on both."""
    from truecal.inference.estimation import estimate

    loaded = load([labelled], reading)
    new = read_one(unlabelled, reading)
    if names_classes(loaded.first) and names_classes(new):
        new = in_order_of(loaded.first, new)
    model = next(iter(loaded.models.values()))
    if isinstance(model, TopPredictions) != new.top_only:
        raise failure(unlabelled, f"expected predictions of the form of {path_text(labelled)}")
    p_new = new.confidence if new.top_only else new.probabilities()
    if getattr(model, "ndim", 2) == 1:
        p_new = p_new[:, 1] if p_new is not None and p_new.ndim == 2 else p_new
    found = estimate(loaded.y_true, model, p_new, cost=cost, groups=loaded.first.groups, level=level)
    return found, [*loaded.notes, f"{distinct_names([new])[0]}: {_summary(new)}"]


def _numbers(values: Any) -> Any:
    """Text as numbers where all of it spells them."""
    if values.dtype.kind not in "OUT":
        return values
    texts = ["" if value is None else str(value).strip() for value in values.tolist()]
    try:
        return np.array([float(text) if text else np.nan for text in texts])
    except ValueError:
        return np.array([text or None for text in texts], dtype=object)


def expand(files: Sequence[Path], beside: Sequence[Path | None]) -> list[Path]:
    """Folders as the prediction files in them, patterns as the files they match, less those that are something else."""
    taken = {os.path.realpath(path) for path in beside if path is not None}
    result: list[Path] = []
    for given in files:
        found = [given]
        if given.is_dir() and given.suffix != ".parquet":  # such a folder is one table in parts
            found = _files_in(given) or [path for inner in _folders_in(given) for path in _files_in(inner)]
        elif not given.exists() and has_magic(str(given)):
            found = [Path(path) for path in sorted(glob(str(given)))]
        if found != [given]:
            found = [path for path in found if os.path.realpath(path) not in taken]
        if not found:
            raise failure(given, "no prediction files found")
        result += found
    return result


def _files_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".") and is_found(str(path))]


def _folders_in(folder: Path) -> list[Path]:
    """Harnesses write a folder per model."""
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]


def split_kind(file: Path) -> tuple[Path, FileKind | None]:
    """FILE:logits or FILE:probs as the file and its kind."""
    name, _, word = str(file).rpartition(":")
    is_kind = word in KIND_WORDS and name != "" and not name.endswith(":")  # FILE::probs is a table of that name
    return (Path(name), KIND_WORDS[word]) if is_kind and not file.exists() else (file, None)


def options_of(file: Path, reading: Reading) -> tuple[Path, dict[str, Any]]:
    """The path of FILE or FILE:logits, and how it is read."""
    path, kind = split_kind(file)
    return path, {**reading.arguments, "kind": kind, "logits": reading.logits and kind is None}


def open_table(file: Path, reading: Reading, weights: str | None = None) -> Dataset:
    """A table to be read in batches, with the options of the command line."""
    path, options = options_of(file, reading)
    return open_dataset(path, weight=weights, **options)


def read_one(file: Path, reading: Reading, labels: Path | None = None) -> Predictions:
    """One file, with the options of the command line."""
    path, options = options_of(file, reading)
    if is_decision_log(str(path)):
        return _only_question(read_decisions(path, labels=labels, normalize=reading.normalize), reading)
    if not is_dataset(path):
        return read_predictions(path, labels=labels, **options)
    if labels is not None:
        raise failure(path, "--labels cannot be used: the labels of a table in several files must be a column of it")
    table = open_table(file, reading)
    read, _ = table.whole()
    return replace(read, notes=(*read.notes, *left_out_files([table])))


def _only_question(log: DecisionLog, reading: Reading) -> Predictions:
    """The question of a log of decisions that a command is about."""
    chosen = log.only(split(reading.columns))
    if len(chosen.questions) > 1:
        wanted = f"the log holds the questions {listing(chosen.questions)}: choose one with --columns"
        raise failure(log.path, f"expected one question, {wanted}")
    found = next(iter(chosen.questions.values())).predictions(log.path)
    return replace(found, notes=(*log.notes, *found.notes))


def load(files: Sequence[Path], reading: Reading, progress: Progress | None = None) -> Loaded:
    """Read every file, hold them against each other, and scale by temperature where validation files are given."""
    found = []
    columns = side_by_side(files, reading)
    for i, path in enumerate(files):
        if progress is not None and i:
            progress(i / len(files))
        one = read_one(path, replace(reading, columns=columns[i]) if columns else reading, reading.labels)
        found.append(replace(one, name=columns[i]) if columns else one)
    read = list(check_same_samples(found, id_column=reading.id_column))
    names = distinct_names(read)
    notes = [f"{name}: {_summary(p)}" for name, p in zip(names, read, strict=True)]
    models: dict[str, Any] = {}
    one_number = all(predictions.one_number for predictions in read)
    for i, (name, predictions) in enumerate(zip(names, read, strict=True)):
        if reading.temperature:
            models[name], scaling = _scaled(predictions, reading.temperature[i], reading)
            notes += [f"{name}: {note}" for note in scaling]
        else:
            models[name] = _model(predictions, one_number)
        if models[name] is not predictions.proba and one_number:
            models[name] = models[name][:, 1].copy()
    ragged = any(p.n_choices is not None and "classwise" not in p.supports for p in read)
    top_only = any(isinstance(model, TopPredictions) for model in models.values())
    errors = CONFIDENCE_ERRORS if ragged and not top_only else None
    classes = None if top_only else _class_names(read)
    return Loaded(_labels(read), models, errors, tuple(notes), classes, read[0], reading.id_column)


def side_by_side(files: Sequence[Path], reading: Reading) -> tuple[str, ...]:
    """The columns of models in one table that is named once for each of them."""
    columns = split(reading.columns) or ()
    return columns if len(files) == len(columns) > 1 and len(set(files)) == 1 else ()


def _summary(predictions: Predictions) -> str:
    """What was read and how, in one line."""
    classes = "" if predictions.n_classes is None else f" of {predictions.n_classes} classes"
    return f"{predictions.n} rows{classes}; {'; '.join(predictions.notes)}"


def _class_names(read: Sequence[Predictions]) -> tuple[str, ...] | None:
    """The names in whose order the columns of all files are: names if a file has them, else its numbers."""
    named = next((p.classes for p in read if names_classes(p)), None)
    return named or next((p.classes for p in read if p.classes is not None), None)


def _labels(read: Sequence[Predictions]) -> Any:
    """The labels of the first file that has them; top-label files need none."""
    for predictions in read:
        if predictions.y_true is not None:
            return predictions.y_true
    if all(predictions.top_only for predictions in read):
        return None
    raise _no_labels(next(predictions for predictions in read if not predictions.top_only))


def _no_labels(predictions: Predictions) -> FileError:
    how = choose_label(predictions.unused, predictions.can_label)
    return failure(predictions.path, f"no labels found; {how}")


def _model(predictions: Predictions, one_number: bool) -> Any:
    if not predictions.top_only:
        as_given = one_number and predictions.proba is not None
        return predictions.proba if as_given else predictions.probabilities()
    if predictions.correct is None:
        raise _no_labels(predictions)
    return TopPredictions(predictions.correct, predictions.confidence)


def _scaled(predictions: Predictions, validation: Path, reading: Reading) -> tuple[Any, list[str]]:
    """Probabilities after a temperature fitted on validation logits, and notes on the fit."""
    import truecal as tc

    if predictions.logits is None or predictions.n_choices is not None:
        raise failure(predictions.path, f"--temperature needs logits, but the file has {predictions.kind}")
    fitted_on = read_one(validation, reading)
    if fitted_on.logits is None or fitted_on.y_true is None:
        raise failure(validation, "fitting a temperature needs logits and labels")
    tested, fitted = predictions.logit_matrix(), fitted_on.logit_matrix()
    if fitted_on.n_classes != predictions.n_classes:
        raise failure(validation, f"expected {predictions.n_classes} classes, got {fitted_on.n_classes}")
    notes = check_apart(predictions.path, tested, validation, fitted)
    with warnings.catch_warnings(record=True) as raised:  # what the fit has to say is said with the results
        warnings.simplefilter("always")
        scaling = tc.TemperatureScaling().fit(fitted, fitted_on.y_true)
    note = f"temperature {scaling.temperature_:.4g} fitted on {fitted_on.n} samples of {path_text(validation)}"
    return scaling.predict_proba(tested), [note, *(str(warning.message) for warning in raised), *notes]


def check_apart(path: str, tested: Floats, validation: Path, fitted: Floats) -> list[str]:
    """Refuse validation rows that are the test rows in any order, or part of them; note rows that are in both.

    A part is refused only if no row repeats: a model with few different outputs gives equal rows for other samples.
    """
    dtype = min(tested.dtype, fitted.dtype, key=lambda d: d.itemsize)  # one side may have been stored in fewer digits
    ours, theirs = _row_counts(tested, dtype), _row_counts(fitted, dtype)
    shared = (ours & theirs).total()
    smaller = min(len(tested), len(fitted))
    unique = len(ours) == len(tested) and len(theirs) == len(fitted)
    if shared == smaller and (unique or len(tested) == len(fitted)):
        raise failure(validation, f"the validation rows are the test rows of {path}: fit on other rows")
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
