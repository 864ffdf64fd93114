"""Every proper loss."""

from .core.losses import LOSSES as LOSSES
from .core.losses import brier as brier
from .core.losses import classification_error as classification_error
from .core.losses import confidence_loss as confidence_loss
from .core.losses import cross_entropy as cross_entropy
from .core.losses import linear_loss as linear_loss
from .core.losses import spherical as spherical
from .kinds.ordered import rps as rps
