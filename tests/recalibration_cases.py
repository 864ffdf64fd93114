"""The recalibration maps, and logits whose true temperature is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truecal.recalibration import (
    BetaScaling,
    CanonicalRecalibration,
    CenteredIsotonic,
    DirichletScaling,
    EnsembleTemperatureScaling,
    HistogramBinning,
    Identity,
    IsotonicOneVsRest,
    MatrixScaling,
    PlattScaling,
    QuadraticScaling,
    ScalingBinning,
    SplineScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
    VennAbers,
)

MAPS = (
    Identity,
    TemperatureScaling,
    VectorScaling,
    MatrixScaling,
    DirichletScaling,
    IsotonicOneVsRest,
    HistogramBinning,
    ScalingBinning,
    CanonicalRecalibration,
    PlattScaling,
    BetaScaling,
    VennAbers,
    EnsembleTemperatureScaling,
    StructuredVectorScaling,
    StructuredMatrixScaling,
    QuadraticScaling,
    SplineScaling,
    CenteredIsotonic,
)
AFFINE = (VectorScaling, MatrixScaling, DirichletScaling)
COUNTING = (VennAbers, SplineScaling, StructuredVectorScaling, StructuredMatrixScaling)  # a weight is a number of rows
BINNED = (HistogramBinning, ScalingBinning, CanonicalRecalibration)


def draw(
    n: int = 400, k: int = 5, scale: float = 3.0, true_temperature: float = 1.7, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Logits whose labels follow softmax(logits / true_temperature)."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * scale
    return z, (z / true_temperature + rng.gumbel(size=z.shape)).argmax(axis=1)
