"""What each error measures, in plain words and as a formula (MathML), from its property, norm and binning rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from truecal.baselines import ERRORS, Baseline
from truecal.core.errors import CalibrationError
from truecal.core.properties import Binary, Classwise, Confidence, Full, Property, TopLabel
from truecal.core.rules import ArgmaxQuantile, BinningRule, EqualWidth, Halfspaces, Quantile, TwoBin
from truecal.evaluation.ranking import ECE_NAMES


@dataclass(frozen=True)
class Measure:
    """One error, explained: what it is called in words, what it asks, its bins, and its formula (MathML)."""

    name: str
    error: CalibrationError | Baseline
    symbol: str
    rule: str
    label: str
    asks: str
    bins: str
    formula: str
    letters: str
    """What the letters of the formula stand for, or where a baseline, which has no formula here, comes from."""

    @property
    def truthful(self) -> bool:
        return self.error.truthful

    @property
    def loss(self) -> str | None:
        """What n times a squared error is on average for a calibrated model, in words."""
        if isinstance(self.error, CalibrationError) and self.error.norm == "l2":
            return self.error.associated_loss
        return None


@cache
def measure(name: str) -> Measure:
    """The explanation of a member of ERRORS.

    >>> from truecal.report.measures import measure
    >>> measure("confidence_l1").label, measure("classwise").label
    ('ECE', 'per class, quantile bins')
    """
    error = ERRORS[name]
    if isinstance(error, Baseline):
        return Measure(name, error, error.title, "as published", error.title, error.definition, "", "", error.reference)
    (rule, bins), words = _RULES[type(error.binning)], _PROPERTIES.get(type(error.property), _LINEAR)
    label = _label(name, error, words.what, rule)
    formula = _formula(error, words.residual)
    return Measure(name, error, pretty(error.symbol), rule, label, words.asks, bins, formula, words.letters)


def _label(name: str, error: CalibrationError, what: str, rule: str) -> str:
    if name in ECE_NAMES:
        return f"ECE of the {what}" if isinstance(error.property, Binary) else "ECE"
    uncorrected = isinstance(error.property, Confidence) and not error.corrected
    how = "absolute" if error.norm == "l1" else "uncorrected" if uncorrected else ""
    return ", ".join(filter(None, (what, how, rule)))


def pretty(symbol: str) -> str:
    """A symbol of the paper with raised letters instead of a caret.

    >>> from truecal.report.measures import pretty
    >>> pretty("LinCE^cw"), pretty("LinCE_full")
    ('LinCEᶜʷ', 'LinCE (full)')
    """
    base, _, raised = symbol.partition("^")
    if raised:
        return base + raised.translate(str.maketrans("cworr", "ᶜʷᵒʳʳ"))
    base, _, lowered = symbol.partition("_")
    return f"{base} ({lowered})" if lowered else base


_RULES: dict[type[BinningRule], tuple[str, str]] = {
    Quantile: ("quantile bins", "Bins hold equal numbers of samples."),
    EqualWidth: ("equal-width bins", "Bins have equal width: 0 to 1 is cut into equal pieces."),
    TwoBin: (
        "all single cuts",
        "One cut makes two bins, averaged over every place of the cut: no bin count to choose.",
    ),
    ArgmaxQuantile: (
        "quantile bins per top class",
        "Within each predicted class, bins by confidence hold equal numbers of samples.",
    ),
    Halfspaces: (
        "random half-spaces",
        "Predictions are projected on random directions, and each direction is cut at every place.",
    ),
}


class _Words(NamedTuple):
    """A property in words: its name, the question it asks, its residual (MathML) and the letters in it."""

    what: str
    asks: str
    residual: str
    letters: str


_CONFIDENCE = _Words(
    "top class",
    "When the top class is given 80 %, is it right in 80 % of those cases? Only the top class is looked at.",
    "<msub><mi>c</mi><mi>i</mi></msub><mo>−</mo><msub><mi>z</mi><mi>i</mi></msub>",
    "c: the confidence in the top class; z: 1 if it was right, else 0; n samples, B the bins.",
)
_LINEAR = _Words(
    "expectation",
    "Among samples with like predictions, is the mean of the outcome what they say?",
    "<msub><mi>u</mi><mi>i</mi></msub><mo>−</mo><mi>φ</mi><mo>(</mo><msub><mi>y</mi><mi>i</mi></msub><mo>)</mo>",
    "u: the prediction; φ(y): the outcome it speaks of; n samples, B the bins.",
)
_PROPERTIES: dict[type[Property], _Words] = {
    Classwise: _Words(
        "per class",
        "When a class is given 30 %, does it come in 30 % of those cases? Asked of each class, then averaged.",
        "<msubsup><mi>p</mi><mi>i</mi><mrow><mo>(</mo><mi>r</mi><mo>)</mo></mrow></msubsup><mo>−</mo>"
        "<mn>1</mn><mo>[</mo><msub><mi>y</mi><mi>i</mi></msub><mo>=</mo><mi>r</mi><mo>]</mo>",
        "p: the probability of class r; y: the label; k classes, n samples, B the bins.",
    ),
    Confidence: _CONFIDENCE,
    TopLabel: _CONFIDENCE,
    Full: _Words(
        "all classes",
        "Among samples with like predictions, do all classes come as often as the whole prediction says?",
        "<msub><mi>p</mi><mi>i</mi></msub><mo>−</mo><msub><mi>e</mi><msub><mi>y</mi><mi>i</mi></msub></msub>",
        "p: the vector of all probabilities; e: 1 at the label and 0 elsewhere; n samples, B the cells.",
    ),
    Binary: _Words(
        "positive class",
        "When the positive class is given 30 %, does it come in 30 % of those cases?",
        "<msub><mi>u</mi><mi>i</mi></msub><mo>−</mo><msub><mi>y</mi><mi>i</mi></msub>",
        "u: the probability of the positive class; y: 1 if it came, else 0; n samples, B the bins.",
    ),
}


def _formula(error: CalibrationError, residual: str) -> str:
    members = "<munder><mo>∑</mo><mrow><mi>i</mi><mo>∈</mo><mi>B</mi></mrow></munder>"
    inner = f"{members}<mrow><mo>(</mo>{residual}<mo>)</mo></mrow>"
    vector = isinstance(error.property, Full)
    if error.norm == "l1":
        size = f"<msub>{_fenced('‖', inner, '‖')}<mn>1</mn></msub>" if vector else _fenced("|", inner, "|")
        scale = _fraction("<mi>n</mi>")
    else:
        size = f"<msup>{_fenced('‖', inner, '‖') if vector else _fenced('(', inner, ')')}<mn>2</mn></msup>"
        scale = _fraction("<msup><mi>n</mi><mn>2</mn></msup>")
    body = f"<munder><mo>∑</mo><mi>B</mi></munder>{size}"
    if isinstance(error.binning, (TwoBin, Halfspaces)):
        body = f"<msubsup><mo>∫</mo><mn>0</mn><mn>1</mn></msubsup>{body}<mi>d</mi><mi>q</mi>"
    if isinstance(error.binning, Halfspaces):
        body = f"<munder><mi>mean</mi><mi>w</mi></munder>{body}"
    if isinstance(error.property, Classwise):
        body = f"{_fraction('<mi>k</mi>')}<munder><mo>∑</mo><mi>r</mi></munder>{scale}{body}"
    else:
        body = scale + body
    if error.corrected:
        mean = "<mover><mi>z</mi><mo>¯</mo></mover>"
        body += f"<mo>+</mo>{_fraction('<mi>n</mi>')}{_fenced('(', f'<mn>1</mn><mo>−</mo>{mean}', ')')}"
    return f'<math display="block"><mi>{pretty(error.symbol)}</mi><mo>=</mo>{body}</math>'


def _fraction(below: str) -> str:
    return f"<mfrac><mn>1</mn>{below}</mfrac>"


def _fenced(left: str, inside: str, right: str) -> str:
    mark = '<mo fence="true" stretchy="true">'
    return f"<mrow>{mark}{left}</mo>{inside}{mark}{right}</mo></mrow>"
