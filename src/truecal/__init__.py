"""truecal: calibration errors that cannot be gamed.

Metrics take labels first, then probabilities: `classwise_error(y_true, y_proba)`. `ERRORS` lists every error with
whether it is truthful and why; `decompose` splits one into how good the predictor is and how far from calibrated.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
from .properties import Binary, Classwise, Confidence, Full, Linear, Outcomes, TopLabel
from .table import BinTable, tabulate

if TYPE_CHECKING:  # so that type checkers know the names below
    from .comparison import (
        Comparison as Comparison,
    )
    from .comparison import (
        compare as compare,
    )
    from .evaluation import (
        Evaluation as Evaluation,
    )
    from .evaluation import (
        evaluate as evaluate,
    )
    from .inference import (
        CalibrationTest as CalibrationTest,
    )
    from .inference import (
        ConsistencyBands as ConsistencyBands,
    )
    from .inference import (
        Interval as Interval,
    )
    from .inference import (
        MeanGap as MeanGap,
    )
    from .inference import (
        Noise as Noise,
    )
    from .inference import (
        NullBand as NullBand,
    )
    from .inference import (
        PairedDifference as PairedDifference,
    )
    from .inference import (
        calibration_test as calibration_test,
    )
    from .inference import (
        confidence_interval as confidence_interval,
    )
    from .inference import (
        consistency_bands as consistency_bands,
    )
    from .inference import (
        mean_gap as mean_gap,
    )
    from .inference import (
        noise_of_U as noise_of_U,
    )
    from .inference import (
        null_band as null_band,
    )
    from .inference import (
        paired_difference as paired_difference,
    )
    from .inputs import (
        TopPredictions as TopPredictions,
    )
    from .ranking import (
        Dominance as Dominance,
    )
    from .ranking import (
        dominance as dominance,
    )
    from .recalibration import (
        CanonicalRecalibration as CanonicalRecalibration,
    )
    from .recalibration import (
        DirichletScaling as DirichletScaling,
    )
    from .recalibration import (
        HistogramBinning as HistogramBinning,
    )
    from .recalibration import (
        Identity as Identity,
    )
    from .recalibration import (
        IsotonicOneVsRest as IsotonicOneVsRest,
    )
    from .recalibration import (
        MatrixScaling as MatrixScaling,
    )
    from .recalibration import (
        ScalingBinning as ScalingBinning,
    )
    from .recalibration import (
        Selection as Selection,
    )
    from .recalibration import (
        TemperatureScaling as TemperatureScaling,
    )
    from .recalibration import (
        VectorScaling as VectorScaling,
    )
    from .recalibration import (
        select_recalibration as select_recalibration,
    )

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
    "Outcomes",
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
