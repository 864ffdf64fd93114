"""Prediction files in, results out."""

from truecal.core.dense import as_rows
from truecal.io.agreement import check_same_samples, distinct_names
from truecal.io.failures import FileError
from truecal.io.predictions import FileKind, Predictions
from truecal.io.reading import read_column, read_labels, read_predictions
from truecal.io.sampled import SampledAnswers, read_samples
from truecal.io.writing import atomic_path, write_atomic

__all__ = [
    "FileError",
    "FileKind",
    "Predictions",
    "SampledAnswers",
    "as_rows",
    "atomic_path",
    "check_same_samples",
    "distinct_names",
    "read_column",
    "read_labels",
    "read_predictions",
    "read_samples",
    "write_atomic",
]
