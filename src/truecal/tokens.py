"""Token probabilities of language models: observed tokens in batches or as a whole, and the probability of a text."""

from .io.token_logs import Tokens as Tokens
from .io.tokens import batches as batches
from .io.tokens import read as read
from .io.tokens import sequence_probability as sequence_probability
