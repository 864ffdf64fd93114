"""Is it calibrated, how sure are we, and do two predictors differ; with frozen cells and independent rows."""

from .bands import ConsistencyBands, consistency_bands
from .calibration import CalibrationTest, FormDetail, calibration_test
from .direction import MeanGap, mean_gap
from .gaps import Gap, gap
from .intervals import Interval, confidence_interval
from .noise import Noise, noise_of_U
from .null_band import NullBand, null_band
from .paired import PairedDifference, Part, paired_difference
from .refinement import Refinement, refinement

__all__ = [
    "CalibrationTest",
    "ConsistencyBands",
    "FormDetail",
    "Gap",
    "Interval",
    "MeanGap",
    "Noise",
    "NullBand",
    "PairedDifference",
    "Part",
    "Refinement",
    "calibration_test",
    "confidence_interval",
    "consistency_bands",
    "gap",
    "mean_gap",
    "noise_of_U",
    "null_band",
    "paired_difference",
    "refinement",
]
