"""Prediction files in, results out."""

from truecal.io.agreement import check_same_samples, distinct_names
from truecal.io.answer_files import SampledAnswers, read_samples
from truecal.io.decision_logs import DecisionLog, DecisionQuestion, read_decisions
from truecal.io.failures import FileError
from truecal.io.prediction_file import FileKind, Predictions
from truecal.io.read_file import read_column, read_labels, read_predictions
from truecal.io.writing import atomic_path, write_atomic
from truecal.kinds.images import as_rows

__all__ = [
    "DecisionLog",
    "DecisionQuestion",
    "FileError",
    "FileKind",
    "Predictions",
    "SampledAnswers",
    "as_rows",
    "atomic_path",
    "check_same_samples",
    "distinct_names",
    "read_column",
    "read_decisions",
    "read_labels",
    "read_predictions",
    "read_samples",
    "write_atomic",
]
