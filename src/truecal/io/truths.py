"""Whether a column of labels is the outcome: not the decision of the model, not below chance, and which class is 1."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from truecal.io.column_rules import LABEL_OPTION, POSITIVE_OPTION, Labels, Request
from truecal.io.failures import FileError, listing, quote
from truecal.io.label_values import AGREE, FEWEST, Values, agreement
from truecal.io.prediction_file import Floats
from truecal.io.roles import is_called, polarity

RELATED = 2.0
"""Fewer standard errors of the covariance between labels and predictions are no relation."""
FEWEST_ROWS = 50
"""Fewer rows show neither that there is none, nor that numbers are never below 1/2."""


def is_decision(numbers: Floats, y: Any) -> bool:
    """Whether labels are the class of the largest prediction in all rows, or the rows beyond a threshold of it."""
    if y.ndim != 1 or len(y) < FEWEST or len(y) != len(numbers) or len(np.unique(y)) < 2 or np.isnan(numbers).any():
        return False
    if numbers.ndim == 2 and numbers.shape[1] > 2:
        return bool((numbers.argmax(axis=1) == y).all())
    p = numbers if numbers.ndim == 1 else numbers[:, -1] - numbers[:, 0]
    return bool(p[y == 1].min() > p[y == 0].max())


def settled(
    request: Request,
    labels: Labels,
    others: Callable[[], Labels],
    read: Callable[[str], Values],
    decided: Callable[[Values], bool | None],
) -> tuple[str, Values, str]:
    """The column of the truth among those that may hold it, its values, and what to say about the others.

    `decided` says of values whether they are a decision made from the predictions, and None where they cannot be labels
    at all. `others` are columns with weaker names, which count where all of the first are decisions.
    """
    first = labels.names[0]
    if labels.told:
        return first, read(first), labels.rule
    values: dict[str, Values] = {}
    verdicts: dict[str, bool | None] = {}

    def look(names: tuple[str, ...]) -> list[str]:
        for name in names:
            try:
                values[name] = read(name)
                verdicts[name] = decided(values[name])
            except FileError:
                if len(names) == 1:
                    raise
                verdicts[name] = None
        return [name for name in names if verdicts[name] is False]

    good = look(labels.names)
    if not good and all(verdicts[name] is None for name in labels.names):
        return first, read(first), labels.rule  # what is wrong is said where it is used
    decisions = [name for name, verdict in verdicts.items() if verdict]
    rule = labels.rule
    if not good and decisions:
        more = others()
        good, rule = look(tuple(n for n in more.names if n not in verdicts)), more.rule
    if not good:
        name = quote(decisions[0])
        raise request.refuse(
            f"the column {name} is the decision of the model in all {len(values[decisions[0]])} rows (the largest "
            "probability, or the probability above a threshold), so accuracy would be 100%: pass the outcomes with "
            f"{LABEL_OPTION} or --labels FILE; if {name} is the outcome, pass --label-column {decisions[0]}"
        )
    if len(good) > 1 and any(not _equal(values[good[0]], values[name]) for name in good[1:]):
        strong = [name for name in good if is_called(name, "truth")]
        likely = strong[0] if len(strong) == 1 else good[0]
        how = f"name one with {LABEL_OPTION}, such as --label-column {shlex.quote(likely)}"
        raise request.refuse(f"expected one label column, found {listing(good)}: {how}")
    note = f"; {listing(decisions)} is the decision of the model" if decisions else ""
    return good[0], values[good[0]], f"{rule}{note}"


def _equal(a: Values, b: Values) -> bool:
    """Whether two columns say the same, also where one has 1 and 0 for win and loss."""
    if np.array_equal(a, b) or a.shape != b.shape or a.ndim > 1:
        return a.shape == b.shape and np.array_equal(a, b)
    poles = [[polarity(value) for value in values.tolist()] for values in (a, b)]
    return poles[0] == poles[1] and None not in poles[0]


def check_is_of_one(request: Request, name: str, p: Floats, y: Any) -> None:
    """Refuse the probability of the predicted class in the place of that of one class: it is never below 1/2."""
    if y.ndim != 1 or len(p) < FEWEST_ROWS or p.min() < 0.5 or p.mean() - y.mean() < 0.2:
        return
    raise request.refuse(
        f"{quote(name)} is never below 1/2, and {y.mean():.0%} of the labels are 1: it may be the probability of the "
        "predicted class, of which the file needs the predicted labels; if it is the probability of 1, pass "
        f"--columns {shlex.quote(name)}"
    )


def check_not_below_chance(request: Request, numbers: Floats, y: Any, where: str, told: bool, weak: str) -> str:
    """Refuse labels that the predictions are against, or, where `weak` names a column that may be another one, that
    have nothing to do with them; the sentence to print where the caller named them."""
    z = agreement(numbers, y)
    if weak and z is not None and -AGREE < z < RELATED and len(y) >= FEWEST_ROWS:
        raise request.refuse(
            f"no relation between the predictions and {where}, which may be something else: if it has the labels, pass "
            f"--label-column {shlex.quote(weak)}; otherwise pass --labels FILE"
        )
    if z is None or z > -AGREE:
        return ""
    what = f"the predictions are against the labels in {where}: classes have lower probabilities in their own rows"
    if told:
        return what
    how = f"if the columns are in another order or of the other class, say which label is 1 with {POSITIVE_OPTION}"
    raise request.refuse(f"{what}: {how}; if the labels are right, name them with {LABEL_OPTION}")


def check_stated(request: Request, name: str, p: Floats, correct: npt.NDArray[np.bool_]) -> None:
    """Refuse hits beside a probability of one class: low values are right more often than they say."""
    low = p < 0.5
    excess, folded = correct[low] - p[low], np.where(low, 1 - p, p)
    if low.sum() < FEWEST or excess.mean() < AGREE * excess.std() / np.sqrt(len(excess)):
        return
    if float(((correct - folded) ** 2).mean()) > float(((correct - p) ** 2).mean()):
        return
    raise request.refuse(
        f"{quote(name)} is below 1/2 in {len(excess)} rows, and {correct[low].mean():.0%} of them are right: it may be "
        "the probability of one class, of which the file needs the outcome (0 or 1) instead of hits; if it is the "
        f"probability that the answer is right, give {request.path}:top_label"
    )
