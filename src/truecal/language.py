"""Language models: the confidence of sampled answers, stated confidence, judges, and maps of a confidence."""

from .core.answers import normalize_answer as normalize_answer
from .core.stated import WORDS as WORDS
from .core.stated import Stated as Stated
from .core.stated import stated_confidence as stated_confidence
from .evaluation.crossfit import Recalibrated as Recalibrated
from .evaluation.crossfit import recalibrate as recalibrate
from .evaluation.judging import PassRate as PassRate
from .evaluation.judging import pass_rate as pass_rate
from .evaluation.sampled import Sampling as Sampling
from .evaluation.sampled import from_samples as from_samples
from .evaluation.sampled import majority_share as majority_share
from .evaluation.stated import StatedComparison as StatedComparison
from .evaluation.stated import compare_stated as compare_stated
from .evaluation.stated import from_stated as from_stated
