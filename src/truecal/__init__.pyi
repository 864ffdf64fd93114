# The public names and their modules: type checkers read this, and `truecal` loads a name from here on first use.
from . import analysis as analysis
from . import forecasts as forecasts
from . import io as io
from . import language as language
from . import losses as losses
from . import plots as plots
from . import properties as properties
from . import recalibration as recalibration
from . import results as results
from . import rules as rules
from . import sql as sql
from . import tokens as tokens
from .adapters.sklearn.scorers import SCORERS, scorer
from .auditing import audit
from .baselines import ERRORS, ece
from .core.averages import Poisson, TwoBin
from .core.losses import LOSSES, brier, classification_error, cross_entropy
from .core.properties import Binary, Classwise, Confidence, Full, Linear, TopLabel
from .core.rules import Edges, EqualWidth, Quantile
from .core.table import BinTable
from .inference.calibration import calibration_test
from .inference.estimation import estimate
from .inference.gaps import gap
from .inference.intervals import confidence_interval
from .inference.monitoring import Monitor, monitor
from .inference.paired import paired_difference
from .inference.planning import rows_needed
from .inference.repair import load_map
from .inference.segments import segments
from .inference.thresholds import threshold
from .kinds import TopPredictions
from .kinds.functions import (
    binary_error,
    classwise_error,
    confidence_error,
    distribution_error,
    full_error,
    labelwise_error,
    linear_error,
    ordinal_error,
    score,
    top_label_error,
)
from .kinds.named_errors import decompose
from .recalibration import (
    BetaScaling,
    PlattScaling,
    TemperatureScaling,
    VennAbers,
    calibrate,
    select_recalibration,
)
from .results.compare import compare
from .results.comparison import Comparison
from .results.decision_curve import decision_curve
from .results.evaluate import evaluate
from .results.evaluation import Evaluation
from .results.risk_profile import clinical
from .results.sampled_answers import from_samples
from .scale.stream import Stream, stream
from .sums.errors import CalibrationError

__version__: str

__all__ = [
    "ERRORS",
    "LOSSES",
    "SCORERS",
    "BetaScaling",
    "BinTable",
    "Binary",
    "CalibrationError",
    "Classwise",
    "Comparison",
    "Confidence",
    "Edges",
    "EqualWidth",
    "Evaluation",
    "Full",
    "Linear",
    "Monitor",
    "PlattScaling",
    "Poisson",
    "Quantile",
    "Stream",
    "TemperatureScaling",
    "TopLabel",
    "TopPredictions",
    "TwoBin",
    "VennAbers",
    "audit",
    "binary_error",
    "brier",
    "calibrate",
    "calibration_test",
    "classification_error",
    "classwise_error",
    "clinical",
    "compare",
    "confidence_error",
    "confidence_interval",
    "cross_entropy",
    "decision_curve",
    "decompose",
    "distribution_error",
    "ece",
    "estimate",
    "evaluate",
    "from_samples",
    "full_error",
    "gap",
    "labelwise_error",
    "linear_error",
    "load_map",
    "monitor",
    "ordinal_error",
    "paired_difference",
    "rows_needed",
    "score",
    "scorer",
    "segments",
    "select_recalibration",
    "stream",
    "threshold",
    "top_label_error",
]
