"""Tables of bins, signed mean gaps, dominance and leaderboards of models and bands."""

from .inference.bands import consistency_bands as consistency_bands
from .inference.direction import MeanGap as MeanGap
from .inference.direction import mean_gap as mean_gap
from .inference.null_band import null_band as null_band
from .results.compare import same_order as same_order
from .results.leaderboard import Leaderboard as Leaderboard
from .results.leaderboard import leaderboard as leaderboard
from .results.ranking import Dominance as Dominance
from .results.ranking import dominance as dominance
from .sums.tabulate import tabulate as tabulate
