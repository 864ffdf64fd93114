"""Every binning rule: functions of the predictions alone that make cells."""

from .core.averages import OnGrid as OnGrid
from .core.averages import Poisson as Poisson
from .core.averages import TwoBin as TwoBin
from .core.rules import Edges as Edges
from .core.rules import EqualWidth as EqualWidth
from .core.rules import Exact as Exact
from .core.rules import Quantile as Quantile
from .core.rules import auto_bins as auto_bins
from .core.vectors import ArgmaxEdges as ArgmaxEdges
from .core.vectors import ArgmaxQuantile as ArgmaxQuantile
from .core.vectors import KdTree as KdTree
