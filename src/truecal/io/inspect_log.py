"""Logs of inspect_ai, read by its own reader: stated confidences, or log-probabilities of letters or whole answers."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from truecal.io.array_files import Entry, open_arrays, zip_members
from truecal.io.column_rules import COLUMNS_OPTION, LABEL_OPTION, Request
from truecal.io.failures import listing, need, parsing, quote
from truecal.io.harness import Document, predictions_of
from truecal.io.prediction_file import Floats, Predictions
from truecal.io.source import Source
from truecal.io.token_logs import sequence

CONFIDENCE = "confidence"
_KEPT = 10  # bytes of memory per byte of a log whose objects stay
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_START = re.compile(rb'\s*\{\s*"version".*"eval_id"', re.DOTALL)
HITS: dict[object, bool] = {"C": True, "I": False, "N": False, 1: True, 0: False}
"""Scores as hits: True and 1.0 are 1 here, N is no answer."""


def is_inspect_log(request: Request) -> bool:
    """Whether a .json file begins as the logs do."""
    with open(request.path, "rb") as stream:
        return _START.match(stream.read(4096)) is not None


def inspect_samples(request: Request) -> tuple[list[Any], tuple[str, ...]]:
    """The samples of a log by id and epoch, and notes on its run."""
    library = need("inspect_ai.log", "inspect", "inspect_ai logs")
    if zipfile.is_zipfile(request.path):
        for member in zip_members(request.path, "an inspect_ai log"):
            request.budget.charge(_KEPT * member.file_size, quote(member.filename))
    with parsing(request.path, "an inspect_ai log"):
        log = library.read_eval_log(request.path)
        samples = sorted(log.samples or (), key=lambda sample: (str(sample.id), sample.epoch))
    if not samples:
        raise request.refuse("the log has no samples")
    notes = () if log.status == "success" else (f"the status of the log is {quote(log.status)}",)
    unscored = next((sample for sample in samples if not sample.scores), None)
    if notes and unscored is not None:
        missing = f"its status is {quote(log.status)} and sample {quote(unscored.id)} has no score"
        raise request.refuse(f"the run of the log has not ended, {missing}: run inspect eval-retry")
    return samples, notes


def read_inspect_log(request: Request, name: str, labels_elsewhere: bool) -> Source | Predictions:
    """Stated confidences and hits as a source; else the chances of whole answers, or of the letters of choices.

    Several epochs of a sample are one group.
    """
    samples, notes = inspect_samples(request)
    source = None if request.kind == "choices" else _stated(request, samples, notes)
    if source is None and request.kind != "choices" and all(map(_logged, samples)) and not samples[0].choices:
        source = _sequences(request, samples, notes)
    if source is not None:
        ids, row_of = np.unique([str(sample.id) for sample in samples], return_inverse=True)
        return replace(source, groups=row_of.reshape(-1) if len(ids) < len(samples) else None)
    documents = [_document(request, row, sample) for row, sample in enumerate(samples)]
    how = (
        "probabilities of the choices from the logprobs of the answer's letter, scaled to sum to 1, one row per sample"
    )
    own = replace(request, label_column=None)
    return predictions_of(own, name, labels_elsewhere, documents, [how, *notes])


def _stated(request: Request, samples: Sequence[Any], notes: tuple[str, ...]) -> Source | None:
    """Confidences in the metadata of scores or samples, beside hits by the score; None where there are none."""
    key = request.proba_columns[0] if request.proba_columns is not None else CONFIDENCE
    scores = [score_of(request, sample) for sample in samples]
    stated = [
        math.nan if (found := stated_key(sample, score, key)) is None else found
        for sample, score in zip(samples, scores, strict=True)
    ]
    with parsing(request.path, f"numbers in {quote(key)} of the metadata"):
        values = np.array([_confidence(value) for value in stated], dtype=np.float64)
    if np.isnan(values).all():
        if request.proba_columns is not None:
            raise request.refuse(f"expected {quote(key)} in the metadata of scores or samples ({COLUMNS_OPTION})")
        return None
    return _source(request, samples, scores, values, notes)


def _logged(sample: Any) -> list[Any]:
    """The tokens of an answer with their log-probabilities."""
    return [token for choice in sample.output.choices[:1] for token in getattr(choice.logprobs, "content", ())]


def _sequences(request: Request, samples: Sequence[Any], notes: tuple[str, ...]) -> Source:
    """The probability of the text of each answer, beside hits by the score."""
    chances = [sequence([token.logprob for token in _logged(s)], request.length_normalized) for s in samples]
    how = "probability per token, length-normalized," if request.length_normalized else "probability"
    scores = [score_of(request, sample) for sample in samples]
    about = f"confidence: the {how} of the text of each answer"
    return _source(request, samples, scores, np.array(chances), (about, *notes))


def _source(
    request: Request, samples: Sequence[Any], scores: Sequence[Any], confidence: Floats, notes: tuple[str, ...]
) -> Source:
    correct = np.array([correct_by_score(request, s, score.value) for s, score in zip(samples, scores, strict=True)])
    entries = {
        CONFIDENCE: Entry(confidence.shape, "f", lambda: confidence),
        "correct": Entry(correct.shape, "b", lambda: correct),
    }
    return replace(open_arrays(request, entries), notes=notes)


def _confidence(value: Any) -> Any:
    """A confidence that is text, such as "85%", as a number; other values as they are."""
    if not isinstance(value, str):
        return value
    from truecal.kinds.stated_text import stated_confidence  # its patterns take long to compile

    found = stated_confidence([value])
    return value if found.missing else found.values[0]


def stated_key(sample: Any, score: Any, key: str = CONFIDENCE) -> Any:
    """The confidence in the metadata of a score or its sample, or None."""
    return next((m[key] for m in (score.metadata, sample.metadata) if m and m.get(key) is not None), None)


def score_of(request: Request, sample: Any) -> Any:
    """The only score of a sample, or the one that is named."""
    scores = sample.scores or {}
    name = request.label_column or (next(iter(scores)) if len(scores) == 1 else None)
    if name not in scores:
        found = f"found {listing(scores)}: name it with {LABEL_OPTION}"
        raise request.refuse(f"expected one score of sample {quote(sample.id)}, {found}")
    return scores[name]


def correct_by_score(request: Request, sample: Any, value: object) -> bool:
    """Whether a score says that the answer is right."""
    if not isinstance(value, (str, bool, int, float)) or value not in HITS:
        wanted = f"a score of C or I, or 1 or 0, for sample {quote(sample.id)}"
        raise request.refuse(f"expected {wanted}, got {quote(value)}")
    return HITS[value]


def _document(request: Request, row: int, sample: Any) -> Document:
    letters = LETTERS[: len(sample.choices or ())]
    answer = next((token for token in reversed(_logged(sample)) if token.token.strip() in tuple(letters)), None)
    if len(letters) < 2 or answer is None:
        raise request.refuse(
            f"expected {quote(CONFIDENCE)} in the metadata of scores or samples, or choices with the logprobs of the "
            f"answer's letter; sample {quote(sample.id)} has neither: "
            "run inspect eval with --logprobs --top-logprobs 20, or with --epochs 10 to sample answers"
        )
    chances = dict.fromkeys(letters, 0.0)
    for token in answer.top_logprobs or ():
        if token.token.strip() in chances:
            chances[token.token.strip()] += math.exp(token.logprob)  # "A" and " A" are one answer
    missing = [letter for letter, chance in chances.items() if chance == 0]
    if missing:
        raise request.refuse(
            f"expected logprobs of all {len(letters)} choices of sample {quote(sample.id)}, {listing(missing)} not "
            "among the top ones: run inspect eval with a larger --top-logprobs"
        )
    target = sample.target if isinstance(sample.target, str) else "".join(sample.target)
    index = letters.find(target) if len(target) == 1 else -1
    if index < 0:
        raise request.refuse(f"expected one letter as the target of sample {quote(sample.id)}, got {quote(target)}")
    return Document(row + 1, row, tuple(math.log(chance) for chance in chances.values()), None, index, None)
