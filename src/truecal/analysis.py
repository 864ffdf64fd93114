"""Tables of bins, signed mean gaps, dominance and leaderboards of models, gates and bands."""

from .inference.bands import consistency_bands as consistency_bands
from .inference.direction import MeanGap as MeanGap
from .inference.direction import mean_gap as mean_gap
from .inference.gates import GateCheck as GateCheck
from .inference.gates import Gates as Gates
from .inference.gates import joint_thresholds as joint_thresholds
from .inference.gates import load_gates as load_gates
from .results.compare import same_order as same_order
from .results.leaderboard import Leaderboard as Leaderboard
from .results.leaderboard import leaderboard as leaderboard
from .results.ranking import Dominance as Dominance
from .results.ranking import dominance as dominance
from .sums.tabulate import tabulate as tabulate
