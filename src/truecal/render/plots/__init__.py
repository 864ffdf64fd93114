"""Pictures of results: they draw and compute nothing."""

from .decisions import decision_curve, estimate, repair, segments, threshold
from .draw import classwise_grid, error_against_bins, evidence, ranking_bump, reliability

__all__ = [
    "classwise_grid",
    "decision_curve",
    "error_against_bins",
    "estimate",
    "evidence",
    "ranking_bump",
    "reliability",
    "repair",
    "segments",
    "threshold",
]
