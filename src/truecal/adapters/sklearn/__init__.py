"""scikit-learn: scorers for searches, displays, and evaluation by cross-validation."""

from .displays import ComparisonDisplay, ReliabilityDisplay
from .folds import OutOfFold, cross_compare, cross_evaluate, out_of_fold
from .scorers import Scorer

__all__ = [
    "ComparisonDisplay",
    "OutOfFold",
    "ReliabilityDisplay",
    "Scorer",
    "cross_compare",
    "cross_evaluate",
    "out_of_fold",
]
