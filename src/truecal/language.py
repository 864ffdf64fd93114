"""Language models: the confidence of sampled answers, stated confidence, judges, and maps of a confidence."""

from .evidence.of_answers import Sampling as Sampling
from .kinds.answers import normalize_answer as normalize_answer
from .kinds.stated_text import WORDS as WORDS
from .kinds.stated_text import Stated as Stated
from .kinds.stated_text import stated_confidence as stated_confidence
from .results.crossfit import Recalibrated as Recalibrated
from .results.crossfit import recalibrate as recalibrate
from .results.judging import PassRate as PassRate
from .results.judging import pass_rate as pass_rate
from .results.questions import Questions as Questions
from .results.questions import by_question as by_question
from .results.sampled_answers import from_samples as from_samples
from .results.sampled_answers import majority_share as majority_share
from .results.stated_confidence import StatedComparison as StatedComparison
from .results.stated_confidence import compare_stated as compare_stated
from .results.stated_confidence import from_stated as from_stated
