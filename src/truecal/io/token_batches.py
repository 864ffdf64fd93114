"""Observed tokens of logs in batches or as a whole, and the probability of a text, as `truecal.tokens` offers them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from truecal.core.data import check_positive_int
from truecal.core.parameters import described
from truecal.core.types import Array
from truecal.io.column_rules import Request
from truecal.io.read_file import file_format
from truecal.io.token_logs import BATCH, Tokens, read_tokens, sequence, token_batches

_PATH = "A file of responses, .jsonl (also .gz or .zst) or .json."
_OBSERVED = "Whether all tokens of the log are text that was given, also those in places of generated text."


@described("Tokens.", path=_PATH, observed=_OBSERVED)
def read(path: str | os.PathLike[str], *, observed: bool = False) -> Tokens:
    """The observed tokens of a log: text that was given to a model, with the probabilities of the next token.

    Logs are responses of servers, one per line (.jsonl) or in a list (.json): `prompt_logprobs` of vLLM, or completions
    with `echo`. Each text is a document. Generated tokens are drawn from the model: whatever its probabilities, they
    come true at those rates, so they raise an error. Raises FileError.

    >>> import json, pathlib, tempfile
    >>> from truecal import tokens
    >>> step = {"7": {"logprob": -1.2, "rank": 2, "decoded_token": "b"}, "3": {"logprob": -0.4, "decoded_token": "a"}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.jsonl")
    ...     _ = path.write_text(json.dumps({"prompt_logprobs": [None, step]}))
    ...     found = tokens.read(path)
    >>> found.token.tolist(), found.predicted.tolist(), found.correct.tolist(), found.confidence.round(2).tolist()
    (['b'], ['a'], [False], [0.67])
    """
    return read_tokens(_request(path, observed))


@described("An iterator over Tokens.", path=_PATH, observed=_OBSERVED, rows="About how many tokens a batch has.")
def batches(path: str | os.PathLike[str], *, observed: bool = False, rows: int = BATCH) -> Iterator[Tokens]:
    """The observed tokens of a log in batches of whole documents, in memory that does not grow with the file.

    For `tc.stream("top_label")`: `stream.update(batch.correct, batch.confidence, groups=batch.document)`.
    """
    return token_batches(_request(path, observed), check_positive_int(rows, "rows"))


@described(
    "An array, one probability per text.",
    logprobs="The log-probabilities of the tokens of each text.",
    length_normalized="Whether to take the mean of the log-probabilities instead of their sum.",
)
def sequence_probability(logprobs: Iterable[Sequence[float]], *, length_normalized: bool = False) -> Array:
    """The probability of each text from the log-probabilities of its tokens: exp Σ log p, or exp of their mean.

    As a confidence that an answer is right either has to be measured: a right answer can be put in many words, so the
    probability of one text is too low, and the mean per token is no probability of the text at all.

    >>> from truecal import tokens
    >>> tokens.sequence_probability([[-0.1, -0.3], [-1.0]]).round(3)
    array([0.67 , 0.368])
    >>> tokens.sequence_probability([[-0.1, -0.3], [-1.0]], length_normalized=True).round(3)
    array([0.819, 0.368])
    """
    found = []
    for row, values in enumerate(logprobs):
        each = np.asarray(values, dtype=np.float64)
        if each.ndim != 1 or not each.size or not (each <= 0).all():
            raise ValueError(f"logprobs row {row} must hold one or more numbers that are at most 0, got {values!r:.80}")
        found.append(sequence(each.tolist(), length_normalized))
    return np.array(found)


def _request(path: str | os.PathLike[str], observed: bool) -> Request:
    place = os.fsdecode(path)
    request = Request(place, kind="tokens" if observed else None)
    if file_format(place) not in ("json", "jsonl"):
        raise request.refuse("expected a log of responses, .jsonl or .json")
    return request
