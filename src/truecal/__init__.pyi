# The public names and their modules: type checkers read this, and `truecal` loads a name from here on first use.
from . import analysis as analysis
from . import forecasts as forecasts
from . import io as io
from . import losses as losses
from . import plots as plots
from . import properties as properties
from . import recalibration as recalibration
from . import results as results
from . import rules as rules
from .adapters.sklearn.scorers import (
    SCORERS,
    scorer,
)
from .auditing import (
    audit,
)
from .baselines import (
    ERRORS,
    ece,
)
from .core.averages import (
    Poisson,
    TwoBin,
)
from .core.errors import (
    CalibrationError,
    decompose,
)
from .core.functions import (
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
from .core.losses import (
    LOSSES,
    brier,
    classification_error,
    cross_entropy,
    spherical,
)
from .core.properties import (
    Binary,
    Classwise,
    Confidence,
    Full,
    Linear,
    TopLabel,
)
from .core.rules import (
    Edges,
    EqualWidth,
    Quantile,
)
from .core.table import (
    BinTable,
)
from .evaluation.comparison import (
    Comparison,
    compare,
)
from .evaluation.model import (
    Evaluation,
    evaluate,
)
from .inference.bands import (
    consistency_bands,
)
from .inference.calibration import (
    calibration_test,
)
from .inference.gaps import (
    gap,
)
from .inference.inputs import (
    TopPredictions,
)
from .inference.intervals import (
    confidence_interval,
)
from .inference.monitoring import (
    Monitor,
    monitor,
)
from .inference.null_band import (
    null_band,
)
from .inference.paired import (
    paired_difference,
)
from .recalibration import (
    BetaScaling,
    DirichletScaling,
    HistogramBinning,
    IsotonicOneVsRest,
    MatrixScaling,
    PlattScaling,
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
    "BetaScaling",
    "BinTable",
    "Binary",
    "CalibrationError",
    "Classwise",
    "Comparison",
    "Confidence",
    "DirichletScaling",
    "Edges",
    "EqualWidth",
    "Evaluation",
    "Full",
    "HistogramBinning",
    "IsotonicOneVsRest",
    "Linear",
    "MatrixScaling",
    "Monitor",
    "PlattScaling",
    "Poisson",
    "Quantile",
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
    "consistency_bands",
    "cross_entropy",
    "decompose",
    "distribution_error",
    "ece",
    "evaluate",
    "full_error",
    "gap",
    "labelwise_error",
    "linear_error",
    "monitor",
    "null_band",
    "ordinal_error",
    "paired_difference",
    "score",
    "scorer",
    "select_recalibration",
    "spherical",
    "stream",
    "top_label_error",
]
