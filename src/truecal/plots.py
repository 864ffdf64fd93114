"""Pictures of results with matplotlib."""

from .render.plots import Curve as Curve
from .render.plots import classwise_grid as classwise_grid
from .render.plots import dominance_chain as dominance_chain
from .render.plots import error_against_bins as error_against_bins
from .render.plots import estimate as estimate
from .render.plots import evidence as evidence
from .render.plots import kernel_regression as kernel_regression
from .render.plots import leave_one_out_bandwidth as leave_one_out_bandwidth
from .render.plots import ranking_bump as ranking_bump
from .render.plots import reliability as reliability
from .render.plots import repair as repair
from .render.plots import segments as segments
from .render.plots import threshold as threshold
from .render.plots import trend as trend
