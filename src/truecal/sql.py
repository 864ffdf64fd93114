"""Predictions in a database or warehouse: measured by two queries on the engine that has them."""

from .scale.sql import DIALECTS as DIALECTS
from .scale.sql import Queries as Queries
from .scale.sql import compare as compare
from .scale.sql import evaluate as evaluate
from .scale.sql import queries as queries
from .scale.sql import read_sums as read_sums
