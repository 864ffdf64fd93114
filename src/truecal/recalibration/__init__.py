"""Maps of predictions fitted on validation data: scikit-learn estimators, and the choice by log loss."""

try:
    import sklearn  # noqa: F401  # said here once, for every file below
except ImportError as error:  # pragma: no cover - needs an environment without scikit-learn
    raise ImportError('truecal.recalibration needs scikit-learn: run pip install "truecal[recalibration]"') from error

from truecal.recalibration.affine import (
    DirichletScaling,
    MatrixScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    VectorScaling,
)
from truecal.recalibration.bin_maps import (
    CanonicalRecalibration,
    CenteredIsotonic,
    HistogramBinning,
    IsotonicOneVsRest,
    ScalingBinning,
)
from truecal.recalibration.one_vs_rest import BetaScaling, PlattScaling, QuadraticScaling, VennAbers
from truecal.recalibration.prefit import CalibratedClassifier, calibrate
from truecal.recalibration.selection import Selection, select_recalibration
from truecal.recalibration.spline import SplineScaling
from truecal.recalibration.temperature import EnsembleTemperatureScaling, Identity, TemperatureScaling

__all__ = [
    "BetaScaling",
    "CalibratedClassifier",
    "CanonicalRecalibration",
    "CenteredIsotonic",
    "DirichletScaling",
    "EnsembleTemperatureScaling",
    "HistogramBinning",
    "Identity",
    "IsotonicOneVsRest",
    "MatrixScaling",
    "PlattScaling",
    "QuadraticScaling",
    "ScalingBinning",
    "Selection",
    "SplineScaling",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "VectorScaling",
    "VennAbers",
    "calibrate",
    "select_recalibration",
]
