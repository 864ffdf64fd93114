"""The classes of results, for annotations: what the public functions return."""

from .auditing import AuditReport as AuditReport
from .baselines import Baseline as Baseline
from .core.errors import Decomposition as Decomposition
from .core.table import BinTable as BinTable
from .evaluation.comparison import Comparison as Comparison
from .evaluation.model import Evaluation as Evaluation
from .inference.bands import ConsistencyBands as ConsistencyBands
from .inference.calibration import CalibrationTest as CalibrationTest
from .inference.estimation import Estimate as Estimate
from .inference.gaps import Gap as Gap
from .inference.intervals import Interval as Interval
from .inference.monitoring import MonitorUpdate as MonitorUpdate
from .inference.null_band import NullBand as NullBand
from .inference.paired import PairedDifference as PairedDifference
from .inference.repair import PredictionMap as PredictionMap
from .inference.repair import Repair as Repair
from .inference.segments import Finding as Finding
from .inference.segments import Segment as Segment
from .inference.segments import Segments as Segments
from .inference.thresholds import Threshold as Threshold
