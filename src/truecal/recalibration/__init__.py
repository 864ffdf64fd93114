"""Maps of predictions fitted on validation data: scikit-learn estimators, and the choice by the score."""

try:
    import sklearn  # noqa: F401  # said here once, for every file below
except ImportError as error:  # pragma: no cover - needs an environment without scikit-learn
    raise ImportError('truecal.recalibration needs scikit-learn: run pip install "truecal[recalibration]"') from error

from truecal.recalibration.affine import DirichletScaling, MatrixScaling, VectorScaling
from truecal.recalibration.bin_maps import CanonicalRecalibration, HistogramBinning, IsotonicOneVsRest, ScalingBinning
from truecal.recalibration.one_vs_rest import BetaScaling, PlattScaling, VennAbers
from truecal.recalibration.prefit import CalibratedClassifier, calibrate
from truecal.recalibration.selection import Selection, select_recalibration
from truecal.recalibration.temperature import Identity, TemperatureScaling

__all__ = [
    "BetaScaling",
    "CalibratedClassifier",
    "CanonicalRecalibration",
    "DirichletScaling",
    "HistogramBinning",
    "Identity",
    "IsotonicOneVsRest",
    "MatrixScaling",
    "PlattScaling",
    "ScalingBinning",
    "Selection",
    "TemperatureScaling",
    "VectorScaling",
    "VennAbers",
    "calibrate",
    "select_recalibration",
]
