"""Prediction files in, results out.

A name is imported when it is asked for: readers take long to load.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "io.agreement": "check_same_samples distinct_names",
    "io.answer_files": "SampledAnswers read_samples",
    "io.decision_logs": "DecisionLog DecisionQuestion read_decisions",
    "io.failures": "FileError",
    "io.prediction_file": "FileKind Predictions",
    "io.read_file": "read_column read_labels read_predictions",
    "io.writing": "atomic_path write_atomic",
    "kinds.images": "as_rows",
}
"""The public names of each module; `__init__.pyi` tells type checkers."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)  # of the table above


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'truecal.io' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"truecal.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
