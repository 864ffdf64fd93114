"""Language models: the confidence of sampled answers, stated confidence, and judges."""

from .core.answers import normalize_answer as normalize_answer
from .evaluation.sampled import Sampling as Sampling
from .evaluation.sampled import from_samples as from_samples
