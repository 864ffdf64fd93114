"""Every property that predictions can be checked for."""

from .core.properties import Binary as Binary
from .core.properties import Classwise as Classwise
from .core.properties import Confidence as Confidence
from .core.properties import Full as Full
from .core.properties import Linear as Linear
from .core.properties import OfDistributions as OfDistributions
from .core.properties import Outcomes as Outcomes
from .core.properties import Property as Property
from .core.properties import TopLabel as TopLabel
from .kinds.multilabel import Labelwise as Labelwise
from .kinds.numbers import Distribution as Distribution
from .kinds.ordered import Cumulative as Cumulative
from .kinds.survival import Survival as Survival
