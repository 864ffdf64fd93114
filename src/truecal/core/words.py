"""Numbers and notes as people read them: points, gaps, lists of names."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Sequence

LOSS_TITLES = {"brier": "Brier", "rps": "RPS", "crps": "CRPS", "ipcw_brier": "IPCW Brier", "confidence_loss": "loss"}
"""What losses that models are ordered by are called."""
IS_OUTCOME = (
    "is the outcome under another name: given the outcome, every model looks miscalibrated, even the true "
    "probabilities; group by something known before the outcome"
)
SHOWN = 4
"""Models named in a list; the rest are counted."""
_ELSEWHERE = {
    "ece": ("confidence_l1", "binary_l1"),
    "expected_calibration_error": ("confidence_l1", "binary_l1"),
    "calibration_error": ("confidence_l1", "binary_l1"),
    "log_loss": ("cross_entropy",),
    "logloss": ("cross_entropy",),
    "nll": ("cross_entropy",),
    "accuracy": ("classification_error",),
    "brier_score": ("brier",),
    "brier_score_loss": ("brier",),
}
"""What other libraries call measures, and their names here."""


def points_text(value: float | None) -> str:
    """Points as people read them: "5.4", "25", and "0.0" where chance alone made the gap negative.

    What is above 0 does not look like 0.

    >>> from truecal.core.words import points_text
    >>> points_text(5.42), points_text(25.2), points_text(-.3), points_text(.0312)
    ('5.4', '25', '0.0', '0.03')
    """
    if value is None:
        return ""
    if 0.0005 < value < 0.05:
        return f"{value:.{2 if value >= 0.005 else 3}f}"
    return f"{max(0.0, value):.{1 if value < 9.95 else 0}f}"


def count_text(n: int) -> str:
    """A number of rows: "2000", "1,000,000".

    >>> from truecal.core.words import count_text
    >>> count_text(2000), count_text(1_000_000)
    ('2000', '1,000,000')
    """
    return f"{n:,}" if n >= 10_000 else str(n)


def p_text(pvalue: float, bound: bool = False) -> str:
    """A p-value with two or three decimals: "p = 0.80", "p = 0.032", "p ≤ 0.001" where it is a bound.

    >>> from truecal.core.words import p_text
    >>> p_text(.8), p_text(.0321), p_text(.03), p_text(.001, bound=True), p_text(3e-9)
    ('p = 0.80', 'p = 0.032', 'p = 0.030', 'p ≤ 0.001', 'p < 0.0001')
    """
    if pvalue < 1e-4:
        return "p < 0.0001"
    if bound and pvalue < 1:
        return f"p ≤ {pvalue:.2g}"
    return f"p = {pvalue:.{2 if pvalue >= 0.0995 else 3 if pvalue >= 0.00095 else 4}f}"


def sum_text(score: float, name: str, loss: float) -> str:
    """A score as a sum whose shown digits add up.

    >>> from truecal.core.words import sum_text
    >>> sum_text(.44563, "Brier", .43208), sum_text(.00101, "Brier", .00117)
    ('0.4456 = Brier 0.4321 + 0.0135', '0.00101 = Brier 0.00117 − 0.00016')
    """
    digits = digits_of(loss)
    shown, part = round(score, digits), round(loss, digits)
    sign = "+" if shown >= part else "−"
    return f"{shown:.{digits}f} = {name} {part:.{digits}f} {sign} {abs(shown - part):.{digits}f}"


def digits_of(loss: float) -> int:
    """Decimal places at which a loss has three digits or more, at least four."""
    return min(12, max(4, 2 - math.floor(math.log10(loss)))) if loss > 1e-9 else 4


def nearest(name: str, known: Collection[str], most: int = 1) -> list[str]:
    """Names that a reader may have meant: those of a measure that other libraries call so, or similar ones.

    >>> from truecal.core.words import nearest
    >>> nearest("neg_log_loss", ["brier", "cross_entropy"]), nearest("classwize", ["classwise", "binary"])
    (['cross_entropy'], ['classwise'])
    """
    plain = name.lower().removeprefix("neg_").replace("-", "_").replace(" ", "_")
    found = [here for here in (plain, *_ELSEWHERE.get(plain, ())) if here in known]
    return found[:most] or difflib.get_close_matches(plain, known, most)


def accuracy_text(accuracy: float) -> str:
    """ "91.2%", or nothing where predictions have no top class."""
    return f"{accuracy:.1%}" if accuracy == accuracy else ""


def merged_notes(notes: Iterable[str]) -> list[str]:
    """Notes that say the same of several files are one, and so are those about one file.

    >>> from truecal.core.words import merged_notes
    >>> merged_notes(["a.npz: labels from y.npy", "a.npz: 3 classes", "too few rows", "b.npz: labels from y.npy"])
    ['a.npz and b.npz: labels from y.npy', 'a.npz: 3 classes', 'too few rows']
    >>> merged_notes(["a.npz: labels from y.npy", "a.npz: 3 classes"])
    ['a.npz: labels from y.npy; 3 classes']
    """
    about: dict[str, list[str]] = {}
    for note in notes:
        who, colon, what = note.partition(": ")
        named = colon and " " not in who  # a name and what is said of it, not a sentence with a colon
        files = about.setdefault(what if named else note, [])
        files += [who] if named and who not in files else []
    said: dict[tuple[str, ...], list[str]] = {}
    for i, (what, files) in enumerate(about.items()):
        said.setdefault(tuple(files) or ("", str(i)), []).append(what)
    return [f"{some_of(names)}: {'; '.join(words)}" if names[0] else words[0] for names, words in said.items()]


def some_of(names: Sequence[str]) -> str:
    """a, b and 3 more."""
    shown = list(names[:SHOWN])
    rest = len(names) - len(shown)
    words = [*shown, f"{rest} more"] if rest else shown
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
