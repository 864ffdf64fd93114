"""Distributions of a number as forecasts come: quantiles, ensembles, CDF values, mean and standard deviation."""

from .kinds.numbers import Forecast as Forecast
from .kinds.numbers import Pit as Pit
from .kinds.numbers import cdf as cdf
from .kinds.numbers import ensemble as ensemble
from .kinds.numbers import normal as normal
from .kinds.numbers import pit as pit
from .kinds.numbers import quantiles as quantiles
from .kinds.numbers import thresholds as thresholds
