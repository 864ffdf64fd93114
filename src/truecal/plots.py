"""Pictures of results with matplotlib."""

from .render.plots import classwise_grid as classwise_grid
from .render.plots import clinical as clinical
from .render.plots import decision_curve as decision_curve
from .render.plots import error_against_bins as error_against_bins
from .render.plots import estimate as estimate
from .render.plots import evidence as evidence
from .render.plots import ranking_bump as ranking_bump
from .render.plots import reliability as reliability
from .render.plots import repair as repair
from .render.plots import segments as segments
from .render.plots import threshold as threshold
