"""Distributions of a number as forecasts come: quantiles, ensembles, CDF values, mean and standard deviation."""

from .core.distributions import Forecast as Forecast
from .core.distributions import cdf as cdf
from .core.distributions import ensemble as ensemble
from .core.distributions import normal as normal
from .core.distributions import quantiles as quantiles
from .core.distributions import thresholds as thresholds
from .inference.pit import Pit as Pit
from .inference.pit import pit as pit
