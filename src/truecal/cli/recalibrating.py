"""Recalibrate the predictions of one file by a map that is fitted on another, and write them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from truecal.io import Predictions, atomic_path
from truecal.io.agreement import in_order_of, names_classes
from truecal.io.failures import FileError, failure, need, path_text
from truecal.io.prediction_file import Floats
from truecal.io.roles import is_identifier

from ..core.tables import csv_cell
from .loading import check_apart, read_one
from .shared_options import Reading

CHOSEN = "auto"
FORMATS = (".npz", ".csv", ".parquet")
FEWEST_ROWS = 20  # of validation, to choose a map in five folds of them
MOST_MATRIX = 30  # classes up to which matrices are among the candidates


@dataclass(frozen=True, eq=False)
class Recalibration:
    """Predictions before and after a map, both (n, k), and the sentences that report how it was found."""

    test: Predictions
    before: Floats
    after: Floats
    method: str
    notes: tuple[str, ...]

    @property
    def headline(self) -> str:
        return f"Recalibrated by {self.method}: {self.test.n} rows."

    def models(self) -> dict[str, Any]:
        """The two as `tc.compare` takes them."""
        both = {"before": self.before, "after": self.after}
        return {name: p[:, 1].copy() for name, p in both.items()} if self.test.one_number else both


def check_output(path: Path, method: str) -> None:
    """Refuse an unknown output format or method before any work."""
    from truecal.recalibration.prefit import METHODS

    if path.suffix.lower() not in FORMATS:
        raise typer.BadParameter(
            f"expected a name that ends in {', '.join(FORMATS)}, got {path.name!r}", param_hint="--out"
        )
    if method != CHOSEN and method not in METHODS:
        names = ", ".join([CHOSEN, *METHODS])
        raise typer.BadParameter(f"expected one of {names}, got {method!r}", param_hint="--method")


def recalibrated(validation: Path, test: Path, reading: Reading, method: str) -> Recalibration:
    """Fit on the validation file, apply to the test file; neither is changed."""
    fitted_on, tested = read_one(validation, reading), read_one(test, reading, reading.labels)
    if names_classes(fitted_on) and names_classes(tested):
        tested = in_order_of(fitted_on, tested)
    X, y, space = _data(fitted_on)
    Z, _, other = _data(tested, labelled=False)
    if space != other:
        raise failure(tested.path, f"expected {space} as in {fitted_on.path}, the file gives {other}")
    if X.shape[1] != Z.shape[1]:
        raise failure(tested.path, f"expected {X.shape[1]} classes as in {fitted_on.path}, got {Z.shape[1]}")
    notes = list(check_apart(tested.path, Z, validation, X))
    with warnings.catch_warnings(record=True) as raised:  # what the fit reports is shown with the result
        warnings.simplefilter("always")
        chosen, best, how = _chosen(fitted_on.path, X, y, space, method)
        after = best.predict_proba(Z)
    fit = f"{chosen} ({how}) fitted on {len(X)} rows of {path_text(validation)}"
    notes = [fit, *notes, *dict.fromkeys(str(warning.message) for warning in raised)]
    return Recalibration(tested, tested.probabilities(), after, chosen, tuple(notes))


def _data(read: Predictions, labelled: bool = True) -> tuple[Floats, Any, str]:
    """A matrix of logits or probabilities, hard labels, and which of the two it is."""
    if read.top_only or (read.n_choices is not None and len(np.unique(read.n_choices)) > 1):
        raise failure(read.path, "expected the probabilities or logits of the same classes in every row")
    if labelled and (read.y_true is None or read.y_true.ndim != 1):
        words = "expected one label per row to fit a map on"
        raise failure(read.path, f"{words}: a validation file needs a label column; --label-column names it")
    if read.logits is not None:
        return read.logit_matrix(), read.y_true, "logits"
    return read.probabilities(), read.y_true, "probabilities"


def _chosen(path: str, X: Floats, y: Any, space: str, method: str) -> tuple[str, Any, str]:
    """The map of least log loss in five folds, or the one that was named; with what the guard found."""
    from truecal.recalibration import select_recalibration
    from truecal.recalibration.guard import judge, unseen
    from truecal.recalibration.prefit import METHODS

    if method != CHOSEN:
        best, before = METHODS[method](space=space), METHODS["identity"](space=space).fit(X, y).predict_proba(X)
        return method, best.fit(X, y), f"as named; {judge(method, y, before, unseen(best, X, y))}"
    if len(X) < FEWEST_ROWS:
        words = f"expected at least {FEWEST_ROWS} rows to choose a map, got {len(X)}"
        raise failure(path, f"{words}: choose one with --method")
    names = ["temperature", "platt", "beta", "quadratic", "spline"]
    if X.shape[1] > 2:
        names = ["temperature", "svs", *["sms", "matrix"] * (X.shape[1] <= MOST_MATRIX)]
    try:
        found = select_recalibration({name: METHODS[name](space=space) for name in names}, X, y)
    except ValueError as error:
        raise FileError(f"{path_text(path)}: no map can be chosen ({error}): choose one with --method") from error
    how = f"of least log loss in five folds, of {', '.join(names)}"
    if found.name not in names:
        how = "no map helps enough; --method NAME uses one all the same"
    return found.name, found.best, f"{how}; {found.guard}"


def write(found: Recalibration, path: Path) -> None:
    """Probabilities after the map, with the labels, class names and identifiers of the test file."""
    test = found.test
    classes = test.classes or tuple(str(j) for j in range(found.after.shape[1]))
    ids = _identifiers(test)
    one = test.one_number
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".npz":
            arrays: dict[str, Any] = {"probs": found.after[:, 1] if one else found.after}
            arrays |= {} if test.y_true is None else {"labels": test.y_true}
            arrays |= {} if one or test.classes is None else {"classes": np.array(test.classes)}
            arrays |= {} if ids is None else {ids[0]: ids[1].astype(str) if ids[1].dtype == object else ids[1]}
            with open(temporary, "wb") as stream:
                np.savez(stream, **arrays)
            return
        pyarrow = need("pyarrow", "cli", "tables")
        columns: dict[str, Any] = {} if ids is None else {ids[0]: ids[1].tolist()}
        if test.y_true is not None and test.y_true.ndim == 1:
            named = test.classes is not None and not one
            columns["label"] = [classes[j] for j in test.y_true] if named else test.y_true
        p = found.after
        columns |= {"prob": p[:, 1]} if one else {f"prob_{name}": p[:, j] for j, name in enumerate(classes)}
        if path.suffix.lower() == ".csv":
            texts = {csv_cell(name): _without_formulas(values) for name, values in columns.items()}
            need("pyarrow.csv", "cli", "tables").write_csv(pyarrow.table(texts), str(temporary))
        else:
            need("pyarrow.parquet", "cli", "tables").write_table(pyarrow.table(columns), str(temporary))


def _without_formulas(values: Any) -> Any:
    return [csv_cell(value) for value in values] if isinstance(values, list) else values


def _identifiers(test: Predictions) -> tuple[str, Any] | None:
    """The first column with the name of an identifier."""
    name = next((n for n in (test.keys.names if test.keys else ()) if n and is_identifier(n)), None)
    if name is None or test.keys is None:
        return None
    values = test.keys.values(name)
    return name, values if test.rows is None else values[test.rows]
