"""Result: what every result offers, plain numbers with `to_dict` and its text as HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from html import escape
from typing import Any, ClassVar

import numpy as np

from .extras import require

PICTURES: dict[type, Callable[..., Any]] = {}
"""The function that draws each kind of result; `truecal.plots` registers them when it is loaded."""
_HIDDEN = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Result:
    """A frozen dataclass of numbers with a readable text; equal results are those with equal numbers.

    Names in the text may come from a file: whatever a subclass writes, the text has no control characters.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("__repr__", "__str__", "explain"):
            if name in vars(cls):
                setattr(cls, name, _without_controls(vars(cls)[name]))

    derived: ClassVar[tuple[str, ...]] = ()
    """Properties that `to_dict` has after the fields."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; numbers that JSON lacks (undefined, infinite) become None."""
        names = (*(field.name for field in fields(self)), *self.derived)  # type: ignore[arg-type]  # a dataclass
        return {name: plain(getattr(self, name)) for name in names}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and type(self) is type(other) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self))

    def _repr_html_(self) -> str:
        lines = "\n".join(html_text(line) for line in repr(self).split("\n"))
        return f'<pre style="white-space: pre-wrap">{lines}</pre>'


class Pictured(Result):
    """A result of which there is a picture."""

    def plot(self, *, ax: Any = None, **options: Any) -> Any:
        """Draw the result with matplotlib, as its function in `truecal.plots` does; returns the Axes."""
        require("truecal.plots", "plots")
        return PICTURES[type(self)](self, ax=ax, **options)


def _without_controls(method: Callable[[Any], str]) -> Callable[[Any], str]:
    @wraps(method)
    def said(self: Any) -> str:
        return clean_lines(method(self))

    return said


def clean_lines(text: str) -> str:
    """Lines of text in which nothing is hidden.

    >>> from truecal.core.result import clean_lines
    >>> clean_lines("a\\x1b[2J\\nb") == "a\\ufffd[2J\\nb"
    True
    """
    return "\n".join(map(clean, text.split("\n")))


def clean(text: object) -> str:
    """Text in which nothing is hidden: controls, direction overrides and lone surrogates become U+FFFD.

    A direction override in a file name could turn the words around it back to front, and a lone surrogate cannot be
    written as UTF-8.

    >>> from truecal.core.result import clean
    >>> clean("a\\u202eb\\x00c") == "a\\ufffdb\\ufffdc"
    True
    """
    return _HIDDEN.sub("\ufffd", re.sub(r"[\n\t\r]", " ", str(text)))


_SIGNS = {ord(char): chr(0x2400 + ord(char)) for char in "\t\n\v\f\r"}


def on_one_line(name: object) -> str:
    """The name that a user gave to a model, class, group, feature or file, with signs for tabs and line breaks.

    Names enter results through this function, so that none can look like a separate line.

    >>> from truecal.core.result import on_one_line
    >>> on_one_line("a\\n  calibrated?   yes")
    'a␊  calibrated?   yes'
    """
    return str(name).translate(_SIGNS)


def html_text(text: object) -> str:
    """Text for a page or a notebook's cell, in which it can be neither markup nor hidden."""
    return escape(clean(text))


def table_html(rows: Iterable[Sequence[str]], heads: Sequence[str] = ()) -> str:
    """Texts as a table that scrolls by itself where a notebook's cell is narrow; without heads, rows begin with one."""

    def line(texts: Sequence[str], first: str, other: str) -> str:
        tags = [first] + [other] * (len(texts) - 1)
        cells = (
            f'<{tag} style="text-align: left">{html_text(text)}</{tag}>' for text, tag in zip(texts, tags, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    head = f"<thead>{line(heads, 'th', 'th')}</thead>" if heads else ""
    body = "".join(line(row, "td" if heads else "th", "td") for row in rows)
    return f'<div style="overflow-x: auto"><table>{head}<tbody>{body}</tbody></table></div>'


def plain(value: Any) -> Any:
    """Plain JSON types: dataclasses become dictionaries, arrays lists, and numbers that JSON lacks become None."""
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value
