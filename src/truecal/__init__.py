"""truecal: calibration errors that cannot be gamed.

Metrics take labels first, then probabilities: `classwise_error(y_true, y_proba)`. `ERRORS` lists every error with
whether it is truthful and why; `decompose` splits one into how good the predictor is and how far from calibrated.
"""

from __future__ import annotations

import importlib
from typing import Any

from .binning import (
    ArgmaxQuantile,
    Edges,
    EqualWidth,
    Exact,
    Halfspaces,
    KdTree,
    KMeans,
    Poisson,
    Quantile,
    TwoBin,
)
from .errors import (
    ERRORS,
    CalibrationError,
    Decomposition,
    binary_error,
    classwise_error,
    confidence_error,
    decompose,
    full_error,
    linear_error,
    top_label_error,
)
from .losses import (
    LOSSES,
    brier,
    classification_error,
    confidence_loss,
    cross_entropy,
    linear_loss,
    spherical,
)
from .properties import Binary, Classwise, Confidence, Full, Linear, TopLabel
from .table import BinTable, tabulate

__version__ = "0.1.0"

# Names whose modules need more than numpy, loaded on first use so that `import truecal` stays light.
_LAZY: dict[str, str] = {
    name: module
    for module, names in {
        "comparison": ("Comparison", "compare"),
        "evaluation": ("Evaluation", "evaluate"),
        "inference": (
            "CalibrationTest",
            "ConsistencyBands",
            "Interval",
            "MeanGap",
            "Noise",
            "NullBand",
            "PairedDifference",
            "calibration_test",
            "confidence_interval",
            "consistency_bands",
            "mean_gap",
            "noise_of_U",
            "null_band",
            "paired_difference",
        ),
        "inputs": ("TopPredictions",),
        "ranking": ("Dominance", "dominance"),
        "recalibration": (
            "CanonicalRecalibration",
            "DirichletScaling",
            "HistogramBinning",
            "Identity",
            "IsotonicOneVsRest",
            "MatrixScaling",
            "ScalingBinning",
            "Selection",
            "TemperatureScaling",
            "VectorScaling",
            "select_recalibration",
        ),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module 'truecal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


__all__ = [
    "ERRORS",
    "LOSSES",
    "ArgmaxQuantile",
    "BinTable",
    "Binary",
    "CalibrationError",
    "Classwise",
    "Confidence",
    "Decomposition",
    "Edges",
    "EqualWidth",
    "Exact",
    "Full",
    "Halfspaces",
    "KMeans",
    "KdTree",
    "Linear",
    "Poisson",
    "Quantile",
    "TopLabel",
    "TwoBin",
    "binary_error",
    "brier",
    "classification_error",
    "classwise_error",
    "confidence_error",
    "confidence_loss",
    "cross_entropy",
    "decompose",
    "full_error",
    "linear_error",
    "linear_loss",
    "spherical",
    "tabulate",
    "top_label_error",
]
