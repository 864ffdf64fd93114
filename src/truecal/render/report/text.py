"""Words and numbers as the page shows them: names made safe to read, values rounded, signs written out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

LONGEST_NAME = 240
LABEL = 22

_SCRIPT_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def shorten(text: str, most: int) -> str:
    """The text, or its beginning and its end, which is where file names differ.

    >>> from truecal.render.report.text import shorten
    >>> shorten("checkpoint-0123456789-final", 15)
    'checkpo…9-final'
    """
    if len(text) <= most:
        return text
    head = most // 2
    return text[:head] + "…" + text[len(text) - (most - 1 - head) :]


def distinct(texts: Iterable[str]) -> list[str]:
    """The texts, those that came before with a number behind them.

    >>> from truecal.render.report.text import distinct
    >>> distinct(["a", "a", "b"])
    ['a', 'a (2)', 'b']
    """
    found: list[str] = []
    for text in texts:
        name, number = text, 1
        while name in found:
            number += 1
            name = f"{text} ({number})"
        found.append(name)
    return found


def number(value: float | None, digits: int = 4, sign: str = "") -> str:
    """A value with so many significant digits; a dash where there is none; with sign="+" what is above zero has one.

    >>> from truecal.render.report.text import number
    >>> number(0.0123456), number(-3e-7), number(None), number(0.0), number(0.5, 3, "+")
    ('0.01235', '−3×10⁻⁷', '–', '0', '+0.5')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:{sign if value else ''}.{digits}g}"
    if "e" in text:
        base, power = text.split("e")
        text = f"{base}×10{str(int(power)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return text.replace("-", "−")


def interval(low: float | None, high: float | None, sign: str = "+") -> str:
    """Both ends, or nothing where one is missing or unbounded.

    >>> from truecal.render.report.text import interval
    >>> interval(-0.1, 0.2), interval(None, 0.2), interval(-0.1, float("inf"))
    ('−0.1 to +0.2', '', '')
    """
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{number(low, 3, sign)} to {number(high, 3, sign)}"


def rounded(value: float | None, digits: int = 5) -> float | None:
    """A number with so many significant digits for the data inside the page; None where JSON has no number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in, nor start another.

    >>> from truecal.render.report.text import script_json
    >>> print(script_json("</script>"))
    "\\u003c/script\\u003e"
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_SCRIPT_ESCAPES)
