"""Pictures of results: they draw and compute nothing."""

from .decisions import estimate, repair, segments, threshold
from .draw import classwise_grid, dominance_chain, error_against_bins, evidence, ranking_bump, reliability, trend
from .smoothing import Curve, kernel_regression, leave_one_out_bandwidth

__all__ = [
    "Curve",
    "classwise_grid",
    "dominance_chain",
    "error_against_bins",
    "estimate",
    "evidence",
    "kernel_regression",
    "leave_one_out_bandwidth",
    "ranking_bump",
    "reliability",
    "repair",
    "segments",
    "threshold",
    "trend",
]
