"""An audit as HTML: a page of its own, or its body for a notebook; everything from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import truecal

from .outcome import called, proof_lines, reason

if TYPE_CHECKING:
    from .outcome import AuditReport
    from .search import Searched

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
h1 { font-size: 1.4rem; overflow-wrap: anywhere } h2 { font-size: 1.1rem; margin-top: 2rem }
.wide { overflow-x: auto } table { border-collapse: collapse } tr + tr { border-top: 1px solid #e4e4e4 }
th, td { text-align: left; padding: .3rem 1rem .3rem 0; vertical-align: top } th { border-bottom: 1px solid #999 }
td:first-child { min-width: 9rem }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.failed { color: #b3261e; font-weight: 600 } ul { padding-left: 1.2rem }
pre { background: #f4f4f4; padding: 1rem; overflow-x: auto; font-size: .9rem }
p, li { overflow-wrap: anywhere }
.verdict { font-size: 1.2rem; border-left: .3rem solid #999; padding-left: .8rem } .meaning { color: #555 }
.gamed { border-color: #b3261e } .certified { border-color: #1b7f3b }
@media (max-width: 40rem) { body { margin: 1rem auto; font-size: 15px } th, td { padding-right: .7rem } }
"""
_MEANING = {
    "gamed": "A forecaster who knows the true chances does better, on average, by predicting something else. The "
    "metric may still describe a sample well; it should not decide who is best.",
    "certified": "For every world and every prediction on the grids named above, predicting the truth is best; beyond "
    "them nothing that was tried gained.",
    "no gain found": "Nothing that was tried gained more than the number above. That proves nothing about what was not "
    "tried.",
}


def page(report: AuditReport) -> str:
    """The whole page."""
    title = escape(f"Audit of {report.metric}")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>{body(report)}"
        f"<p>truecal {escape(truecal.__version__)}</p></body></html>\n"
    )


def body(report: AuditReport) -> str:
    """Verdict, proof, findings, checks, and what was searched."""
    kind = report.verdict.split()[0]
    parts = [f"<h1>Audit of {escape(report.metric)}</h1>", f'<p class="verdict {kind}">{escape(report.summary)}</p>']
    parts.append(f'<p class="meaning">{_MEANING[report.verdict]}</p>')
    if report.options:
        parts.append(f"<p>Options: {escape(', '.join(f'{n}={v!r}' for n, v in report.options.items()))}</p>")
    if report.proof is not None:
        parts += ["<h2>Proof</h2>", _list(proof_lines(report.proof)), f"<pre>{escape(report.snippet())}</pre>"]
    if report.findings:
        rows = [(finding.text, f"{finding.gain:.4g}") for finding in report.findings]
        parts += ["<h2>What pays</h2>", _table(("finding", "largest gain"), rows, numbers=1)]
    checks = [(c.name, "passed" if c.passed else "failed", c.detail + reason(c)) for c in report.checks]
    parts += ["<h2>Checks</h2>", _table(("check", "result", "seen"), checks)]
    searched = [
        (where, str(rows), str(classes), f"{worlds:,}", f"{predictions:,}", f"{resolution:.1g}")
        for (where, rows, classes), (worlds, predictions, resolution) in _together(report.searched).items()
    ]
    heads = ("searched", "rows", "classes", "worlds", "predictions", "gains above")
    parts += ["<h2>Where it looked</h2>", _table(heads, searched, numbers=5)]
    parts.append(_list([*report.notes, f"{report.calls:,} calls, seed {report.seed}; {called(report)}"]))
    return "\n".join(parts)


def _together(parts: Iterable[Searched]) -> dict[tuple[str, int, int], tuple[int, int, float]]:
    """Parts of a search of one kind and size as one: how many worlds and predictions, and the coarsest resolution."""
    found: dict[tuple[str, int, int], tuple[int, int, float]] = {}
    for part in parts:
        key = (part.where, part.rows, part.classes)
        worlds, predictions, resolution = found.get(key, (0, 0, 0.0))
        found[key] = (worlds + part.worlds, predictions + part.predictions, max(resolution, part.resolution))
    return found


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """A table whose last columns, as many as are told, hold numbers."""

    def cell(text: str, place: int, tag: str) -> str:
        kind = "number" if place >= len(heads) - numbers else "failed" if text == "failed" else ""
        return f"<{tag}{f' class={kind}' if kind else ''}>{escape(text)}</{tag}>"

    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(cell(text, place, tag) for place, text in enumerate(cells))}</tr>"

    return f'<div class="wide"><table>{line(heads, "th")}{"".join(line(row, "td") for row in rows)}</table></div>'
