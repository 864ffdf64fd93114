"""Every property that predictions can be checked for."""

from .core.cumulative import Cumulative as Cumulative
from .core.distributions import Distribution as Distribution
from .core.labelwise import Labelwise as Labelwise
from .core.properties import Binary as Binary
from .core.properties import Classwise as Classwise
from .core.properties import Confidence as Confidence
from .core.properties import Full as Full
from .core.properties import Linear as Linear
from .core.properties import OfDistributions as OfDistributions
from .core.properties import Outcomes as Outcomes
from .core.properties import Property as Property
from .core.properties import TopLabel as TopLabel
