"""scikit-learn: scorers for searches, and evaluation by cross-validation."""

from .folds import OutOfFold, cross_compare, cross_evaluate, out_of_fold
from .scorers import Scorer

__all__ = ["OutOfFold", "Scorer", "cross_compare", "cross_evaluate", "out_of_fold"]
