"""Inference: is it calibrated, how sure are we, and do two predictors differ; bins are frozen, rows are independent."""

from __future__ import annotations

from .bands import ConsistencyBands, consistency_bands
from .calibration import CalibrationTest, CountDetail, Noise, NullBand, calibration_test, noise_of_U, null_band
from .direction import MeanGap, mean_gap
from .intervals import Interval, confidence_interval
from .paired import PairedDifference, Part, paired_difference

__all__ = [
    "CalibrationTest",
    "ConsistencyBands",
    "CountDetail",
    "Interval",
    "MeanGap",
    "Noise",
    "NullBand",
    "PairedDifference",
    "Part",
    "calibration_test",
    "confidence_interval",
    "consistency_bands",
    "mean_gap",
    "noise_of_U",
    "null_band",
    "paired_difference",
]
