"""Pictures of results: they draw and compute nothing."""

from ...core.result import PICTURES
from ...inference.estimation import Estimate
from ...inference.repair import Repair
from ...inference.segments import Segments
from ...inference.thresholds import Threshold
from ...results.decision_curve import DecisionCurve
from ...results.evaluation import Evaluation
from ...results.risk_profile import Clinical
from .decisions import clinical, decision_curve, estimate, repair, segments, threshold
from .draw import classwise_grid, error_against_bins, evidence, ranking_bump, reliability

PICTURES |= {
    Clinical: clinical,
    DecisionCurve: decision_curve,
    Estimate: estimate,
    Evaluation: reliability,
    Repair: repair,
    Segments: segments,
    Threshold: threshold,
}

__all__ = [
    "classwise_grid",
    "clinical",
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
