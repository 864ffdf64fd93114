# The public names and their modules: type checkers read this, and `truecal` loads a name from here on first use.
from . import io as io
from . import plots as plots
from .adapters.sklearn.scorers import (
    SCORERS,
    scorer,
)
from .auditing import (
    AuditReport,
    audit,
)
from .baselines import (
    ERRORS,
    Baseline,
    ece,
)
from .core.averages import OnGrid, Poisson, TwoBin
from .core.errors import (
    CalibrationError,
    Decomposition,
    decompose,
)
from .core.functions import (
    binary_error,
    classwise_error,
    confidence_error,
    full_error,
    linear_error,
    score,
    top_label_error,
)
from .core.losses import (
    LOSSES,
    brier,
    classification_error,
    confidence_loss,
    cross_entropy,
    linear_loss,
    spherical,
)
from .core.properties import (
    Binary,
    Classwise,
    Confidence,
    Full,
    Linear,
    Outcomes,
    TopLabel,
)
from .core.rules import Edges, EqualWidth, Exact, Quantile
from .core.table import (
    BinTable,
)
from .core.tabulate import (
    tabulate,
)
from .core.vectors import ArgmaxEdges, ArgmaxQuantile, Halfspaces, KdTree, KMeans
from .evaluation.comparison import (
    Comparison,
    compare,
)
from .evaluation.model import (
    Evaluation,
    evaluate,
)
from .evaluation.ranking import (
    Dominance,
    dominance,
)
from .inference.bands import (
    ConsistencyBands,
    consistency_bands,
)
from .inference.calibration import (
    CalibrationTest,
    calibration_test,
)
from .inference.direction import (
    MeanGap,
    mean_gap,
)
from .inference.gaps import (
    Gap,
    gap,
)
from .inference.inputs import (
    TopPredictions,
)
from .inference.intervals import (
    Interval,
    confidence_interval,
)
from .inference.monitoring import (
    Monitor,
    MonitorUpdate,
    monitor,
)
from .inference.null_band import (
    Noise,
    NullBand,
    noise_of_U,
    null_band,
)
from .inference.paired import (
    PairedDifference,
    paired_difference,
)
from .inference.refinement import (
    Refinement,
    refinement,
)
from .recalibration import (
    BetaScaling,
    CalibratedClassifier,
    CanonicalRecalibration,
    DirichletScaling,
    HistogramBinning,
    Identity,
    IsotonicOneVsRest,
    MatrixScaling,
    PlattScaling,
    ScalingBinning,
    Selection,
    TemperatureScaling,
    VectorScaling,
    VennAbers,
    calibrate,
    select_recalibration,
)
from .scale.stream import (
    Stream,
    stream,
)

__version__: str

__all__ = [
    "ERRORS",
    "LOSSES",
    "SCORERS",
    "ArgmaxEdges",
    "ArgmaxQuantile",
    "AuditReport",
    "Baseline",
    "BetaScaling",
    "BinTable",
    "Binary",
    "CalibratedClassifier",
    "CalibrationError",
    "CalibrationTest",
    "CanonicalRecalibration",
    "Classwise",
    "Comparison",
    "Confidence",
    "ConsistencyBands",
    "Decomposition",
    "DirichletScaling",
    "Dominance",
    "Edges",
    "EqualWidth",
    "Evaluation",
    "Exact",
    "Full",
    "Gap",
    "Halfspaces",
    "HistogramBinning",
    "Identity",
    "Interval",
    "IsotonicOneVsRest",
    "KMeans",
    "KdTree",
    "Linear",
    "MatrixScaling",
    "MeanGap",
    "Monitor",
    "MonitorUpdate",
    "Noise",
    "NullBand",
    "OnGrid",
    "Outcomes",
    "PairedDifference",
    "PlattScaling",
    "Poisson",
    "Quantile",
    "Refinement",
    "ScalingBinning",
    "Selection",
    "Stream",
    "TemperatureScaling",
    "TopLabel",
    "TopPredictions",
    "TwoBin",
    "VectorScaling",
    "VennAbers",
    "audit",
    "binary_error",
    "brier",
    "calibrate",
    "calibration_test",
    "classification_error",
    "classwise_error",
    "compare",
    "confidence_error",
    "confidence_interval",
    "confidence_loss",
    "consistency_bands",
    "cross_entropy",
    "decompose",
    "dominance",
    "ece",
    "evaluate",
    "full_error",
    "gap",
    "linear_error",
    "linear_loss",
    "mean_gap",
    "monitor",
    "noise_of_U",
    "null_band",
    "paired_difference",
    "refinement",
    "score",
    "scorer",
    "select_recalibration",
    "spherical",
    "stream",
    "tabulate",
    "top_label_error",
]
