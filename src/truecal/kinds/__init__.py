"""One object per kind of prediction: it reads input and names properties, losses, errors and words."""

from .binary import BINARY
from .classes import CLASSES
from .kind import KINDS, Kind, ece_names, register
from .multilabel import MULTILABEL
from .named_errors import COMPOSED
from .numbers import NUMBERS
from .ordered import ORDERED
from .survival import SURVIVAL
from .top_label import SAMPLED_ANSWERS, TOP_LABEL, TopPredictions

for _kind in (CLASSES, BINARY, ORDERED, MULTILABEL, NUMBERS, TOP_LABEL, SAMPLED_ANSWERS, SURVIVAL):
    register(_kind)

__all__ = [
    "BINARY",
    "CLASSES",
    "COMPOSED",
    "KINDS",
    "MULTILABEL",
    "NUMBERS",
    "ORDERED",
    "SAMPLED_ANSWERS",
    "SURVIVAL",
    "TOP_LABEL",
    "Kind",
    "TopPredictions",
    "ece_names",
    "register",
]
