"""What each error measures, in plain words and as a formula (MathML), from its property, norm and binning rule."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from truecal.baselines import ERRORS, Baseline
from truecal.core.properties import Property
from truecal.core.result import html_text
from truecal.core.rules import BinningRule
from truecal.results.ranking import ECE_NAMES
from truecal.sums.errors import CalibrationError


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

    >>> from truecal.render.report.measures import measure
    >>> measure("confidence_l1").label, measure("classwise").label
    ('ECE', 'per class, quantile bins')
    """
    error = ERRORS[name]
    if isinstance(error, Baseline):
        return Measure(name, error, error.title, "as published", error.title, error.definition, "", "", error.reference)
    rule, said = _rule_words(error.binning), _property_words(error.property)
    label, formula = _label(name, error, said["what"], rule["name"]), _formula(error, said["residual"])
    symbol = pretty(error.symbol)
    return Measure(name, error, symbol, rule["name"], label, said["asks"], rule["bins"], formula, said["letters"])


@cache
def _words() -> dict[str, Any]:
    words = tomllib.loads(files("truecal.render.report").joinpath("measures.toml").read_text(encoding="utf-8"))
    words["properties"]["TopLabel"] = words["properties"]["Confidence"]
    return words


def _rule_words(rule: BinningRule) -> dict[str, str]:
    name = type(rule).__name__
    return _words()["rules"].get(name) or {"name": name, "bins": ""}


def _property_words(property: Property) -> dict[str, str]:
    """The words for a property: written ones, or its own."""
    own = {
        "what": property.kind,
        "asks": f"Are predictions right on average, among samples with similar predictions: {property.asks}?",
        "residual": f"<mtext>{html_text(property.residual_text)}</mtext>",
        "letters": "n samples, B the bins.",
    }
    return _words()["properties"].get(type(property).__name__) or own


def _label(name: str, error: CalibrationError, what: str, rule: str) -> str:
    if name in ECE_NAMES:
        return f"ECE of the {what}" if error.property.event else "ECE"
    uncorrected = error.property.picks_outcome and not error.corrected
    how = "absolute" if error.norm == "l1" else "uncorrected" if uncorrected else ""
    return ", ".join(filter(None, (what, how, rule)))


def pretty(symbol: str) -> str:
    """A symbol of the paper with raised letters instead of a caret.

    >>> from truecal.render.report.measures import pretty
    >>> pretty("LinCE^cw"), pretty("LinCE_full")
    ('LinCEᶜʷ', 'LinCE (full)')
    """
    base, _, raised = symbol.partition("^")
    if raised:
        return base + raised.translate(str.maketrans("cworr", "ᶜʷᵒʳʳ"))
    base, _, lowered = symbol.partition("_")
    return f"{base} ({lowered})" if lowered else base


def _formula(error: CalibrationError, residual: str) -> str:
    members = "<munder><mo>∑</mo><mrow><mi>i</mi><mo>∈</mo><mi>B</mi></mrow></munder>"
    inner = f"{members}<mrow><mo>(</mo>{residual}<mo>)</mo></mrow>"
    vector = error.property.vector
    if error.norm == "l1":
        size = f"<msub>{_fenced('‖', inner, '‖')}<mn>1</mn></msub>" if vector else _fenced("|", inner, "|")
        scale = _fraction("<mi>n</mi>")
    else:
        size = f"<msup>{_fenced('‖', inner, '‖') if vector else _fenced('(', inner, ')')}<mn>2</mn></msup>"
        scale = _fraction("<msup><mi>n</mi><mn>2</mn></msup>")
    body = f"<munder><mo>∑</mo><mi>B</mi></munder>{size}"
    if error.binning.averages:
        body = f"<msubsup><mo>∫</mo><mn>0</mn><mn>1</mn></msubsup>{body}<mi>d</mi><mi>q</mi>"
    if error.property.mean_text:
        body = f"{_fraction('<mi>k</mi>')}<munder><mo>∑</mo><mi>r</mi></munder>{scale}{body}"
    else:
        body = scale + body
    if error.corrected:
        if not error.property.picks_outcome:
            return _equation(error, f"{body}<mo>+</mo><mtext>{html_text(error.property.correction_text)}</mtext>")
        mean = "<mover><mi>z</mi><mo>¯</mo></mover>"
        body += f"<mo>+</mo>{_fraction('<mi>n</mi>')}{_fenced('(', f'<mn>1</mn><mo>−</mo>{mean}', ')')}"
    return _equation(error, body)


def _equation(error: CalibrationError, body: str) -> str:
    return f'<math display="block"><mi>{pretty(error.symbol)}</mi><mo>=</mo>{body}</math>'


def _fraction(below: str) -> str:
    return f"<mfrac><mn>1</mn>{below}</mfrac>"


def _fenced(left: str, inside: str, right: str) -> str:
    mark = '<mo fence="true" stretchy="true">'
    return f"<mrow>{mark}{left}</mo>{inside}{mark}{right}</mo></mrow>"
