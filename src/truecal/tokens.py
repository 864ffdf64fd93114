"""Token probabilities of language models: observed tokens in batches or as a whole, and the probability of a text."""

from .io.token_batches import batches as batches
from .io.token_batches import read as read
from .io.token_batches import sequence_probability as sequence_probability
from .io.token_logs import Tokens as Tokens
