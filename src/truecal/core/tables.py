"""Tables as text, LaTeX and Markdown, of titles and cells."""

from __future__ import annotations

import csv
import io
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .extras import require
from .result import Result, clean, clean_lines, html_text, table_html

WIDTH = 80
_NARROWEST = 12  # a longer name gets a separate line where the table would be too wide


class Head(NamedTuple):
    """The title of a column, in one line or several, and whether its cells are aligned to the right."""

    title: str
    right: bool = True


def width_of(text: str) -> int:
    """How many places a text takes on a screen.

    >>> from truecal.core.tables import width_of
    >>> width_of("Brier"), width_of("犬"), width_of("e\\u0301")
    (5, 2, 1)
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def table_lines(heads: Sequence[Head], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """A table as lines, its titles first; where its numbers are wider than `width`, every row becomes a sentence.

    A first cell that does not fit gets a separate line, also without a `width`, where 80 places are usual.

    >>> from truecal.core.tables import Head, table_lines
    >>> print("\\n".join(table_lines([Head("model", False), Head("Brier")], [["a", "0.25"], ["forest", "0.3"]])))
    model   Brier
    a        0.25
    forest    0.3
    """
    rows = [[clean(cell) for cell in row] for row in rows]
    titles = [head.title.split("\n") for head in heads]
    widths = [max(map(width_of, (*titles[i], *(row[i] for row in rows)))) for i in range(len(heads))]
    rest = sum(widths[1:])
    space = 2 if widths[0] + rest + 2 * (len(widths) - 1) <= (width or WIDTH) else 1
    left = (width or WIDTH) - rest - space * (len(widths) - 1)
    if left >= min(_NARROWEST, widths[0]):
        widths[0] = min(widths[0], left)
    elif width is not None:
        return [_sentence(heads, row) for row in rows]

    def line(cells: Sequence[str]) -> str:
        padded = []
        for cell, head, wide in zip(cells, heads, widths, strict=True):
            blank = " " * max(0, wide - width_of(cell))
            padded.append(blank + cell if head.right else cell + blank)
        return (" " * space).join(padded).rstrip()

    deep = max(map(len, titles))
    found = [line(cells) for cells in zip(*([""] * (deep - len(title)) + title for title in titles), strict=True)]
    for first, *others in rows:
        long = width_of(first) > widths[0]
        found += [first] if long else []
        found.append(line(["" if long else first, *others]))
    return found


def ranked_lines(heads: Sequence[Head], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """A table whose first two columns are rank and name: they are one column, so that a long name has its own line."""
    wide = max(width_of(row[0]) for row in rows)
    merged = [[f"{row[0]:>{wide}} {row[1]}", *row[2:]] for row in rows]
    return table_lines([Head(f"{'#':>{wide}} {heads[1].title}", False), *heads[2:]], merged, width)


def _sentence(heads: Sequence[Head], row: Sequence[str]) -> str:
    facts = (f"{head.title} {cell}".replace("\n", " ") for head, cell in zip(heads[1:], row[1:], strict=True) if cell)
    return f"{row[0].strip()}: {', '.join(facts)}"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV with a column for every key; text that a spreadsheet would take for a formula stays text.

    >>> from truecal.core.tables import csv_text
    >>> print(csv_text([{"model": "=1+1", "Brier": -0.25}]), end="")
    model,Brier
    '=1+1,-0.25
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = dict.fromkeys(name for row in rows for name in row)
    writer.writerow(map(csv_cell, names))
    writer.writerows([csv_cell(row.get(name, "")) for name in names] for row in rows)
    return out.getvalue()


def csv_cell(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula: an apostrophe before it makes it text. Numbers stay numbers."""
    if not isinstance(value, str):
        return value
    value = clean(value)
    if value.lstrip()[:1] not in ("=", "+", "-", "@"):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def markdown(heads: Sequence[Head], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> from truecal.core.tables import Head, markdown
    >>> print(markdown([Head("model", False), Head("Brier")], [["a|b", "0.25"]]))
    | model | Brier |
    | --- | ---: |
    | a\\|b | 0.25 |
    """
    titles = [markdown_text(head.title.replace("\n", " ")) for head in heads]
    marks = ["---:" if head.right else "---" for head in heads]
    cells = [[markdown_text(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (titles, marks, *cells))


def latex(heads: Sequence[Head], rows: Sequence[Sequence[str]]) -> str:
    """A table in LaTeX, with the rules of the package booktabs.

    >>> from truecal.core.tables import Head, latex
    >>> print(latex([Head("model", False), Head("p")], [["a_b", "≤ 0.001"]]))
    \\begin{tabular}{lr}
    \\toprule
    model & p \\\\
    \\midrule
    a\\_b & $\\le$ 0.001 \\\\
    \\bottomrule
    \\end{tabular}
    """
    titles = [latex_text(head.title.replace("\n", " ")) for head in heads]
    body = [" & ".join(map(latex_text, row)) + r" \\" for row in rows]
    where = "".join("r" if head.right else "l" for head in heads)
    head = " & ".join(titles) + r" \\"
    lines = [rf"\begin{{tabular}}{{{where}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines)


_LATEX: dict[str, str | int | None] = {char: f"\\{char}" for char in "&%$#_{}"}
_LATEX |= {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "≤": r"$\le$",
    "−": "$-$",
    "∞": r"$\infty$",
}
_MARKDOWN: dict[str, str | int | None] = {char: f"\\{char}" for char in "\\`*_[]<>|"}


def latex_text(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return clean(text).translate(str.maketrans(_LATEX))


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is."""
    return clean(text).translate(str.maketrans(_MARKDOWN))


Table = tuple[Sequence[Head], Sequence[Sequence[str]]]
"""The heads and the cells of a table."""


class Tabular(Result, ABC):
    """Abstract: a result with a table, which Python, notebooks, LaTeX, Markdown and the command line show alike."""

    notes: tuple[str, ...] = ()

    @property
    @abstractmethod
    def headline(self) -> str:
        """What the table is about, in one line."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the table shows."""
        return ()

    @abstractmethod
    def table(self) -> Table:
        """Heads and cells."""

    def tables(self) -> list[Table]:
        """The table, and others of some results."""
        return [self.table()]

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """The numbers, as rows of a data frame."""

    def to_pandas(self) -> Any:
        """The numbers as a data frame."""
        return require("pandas", "pandas").DataFrame(self.rows())

    def to_latex(self) -> str:
        """The table for LaTeX, with the rules of the package booktabs."""
        return latex(*self.table())

    def to_markdown(self) -> str:
        """The table in Markdown."""
        return markdown(*self.table())

    def __repr__(self) -> str:
        lines = [f"  {line}" for heads, rows in self.tables() for line in table_lines(heads, rows)]
        return clean_lines("\n".join([self.headline, *lines, *self.sentences, *(f"note: {n}" for n in self.notes)]))

    def _repr_html_(self) -> str:
        tables = "".join(table_html(rows, [head.title for head in heads]) for heads, rows in self.tables())
        words = "".join(f"<p>{html_text(line)}</p>" for line in (*self.sentences, *self.notes))
        return f"<p>{html_text(self.headline)}</p>{tables}{words}"
