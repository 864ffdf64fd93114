"""An audit as HTML: a whole page, or its body for a notebook; everything from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import truecal

from ..core.result import html_text, table_html
from .outcome import called, lasting_line, proof_lines, reason

if TYPE_CHECKING:
    from .outcome import AuditReport
    from .search import Searched

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse } tbody tr { border-top: 1px solid #e4e4e4 }
th, td { text-align: left; padding: .3rem 1rem .3rem 0; vertical-align: top } td:first-child { min-width: 9rem }
pre { background: #f4f4f4; padding: 1rem; font-size: .9rem } ul { padding-left: 1.2rem }
p, li { overflow-wrap: anywhere } .meaning { color: #555 }
.verdict { font-size: 1.2rem; border-left: .3rem solid #999; padding-left: .8rem }
.gamed { border-color: #b3261e } .certified { border-color: #1b7f3b }
@media (max-width: 40rem) { body { margin: 1rem auto; font-size: 15px } th, td { padding-right: .7rem } }
"""
_MEANING = {
    "gamed": "A forecaster who knows the true probabilities scores better, on average, by predicting something else. "
    "The metric may still describe a sample well; it should not decide which model is best.",
    "certified": "For every world and every prediction on the grids named above, predicting the truth is best; beyond "
    "them nothing that was tried gained.",
    "no gain found": "Nothing that was tried gained more than the number above. That proves nothing about what was not "
    "tried.",
    "no verdict": "The metric could not be judged: see the reason above.",
}


def page(report: AuditReport) -> str:
    """The whole page."""
    title = html_text(f"Audit of {report.metric}")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>{body(report)}"
        f"<p>truecal {html_text(truecal.__version__)}</p></body></html>\n"
    )


def body(report: AuditReport) -> str:
    """Verdict, proof, findings, checks, and what was searched."""
    kind = report.verdict.split()[0]
    title = f'<h1 style="overflow-wrap: anywhere">Audit of {html_text(report.metric)}</h1>'
    parts = [title, f'<p class="verdict {kind}">{html_text(report.summary)}</p>']
    parts.append(f'<p class="meaning">{_MEANING[report.verdict]}</p>')
    if report.options:
        parts.append(f"<p>Options: {html_text(', '.join(f'{n}={v!r}' for n, v in report.options.items()))}</p>")
    if report.lasting is not None:
        script = f'<pre style="overflow-x: auto">{_code(report.snippet(lasting=True))}</pre>'
        parts += ["<h2>At 300 rows</h2>", _list([lasting_line(report.lasting)]), script]
    if report.proof is not None:
        script = f'<pre style="overflow-x: auto">{_code(report.snippet())}</pre>'
        parts += ["<h2>The smallest proof</h2>", _list(proof_lines(report.proof)), script]
    if report.findings:
        rows = [(finding.text, f"{finding.gain:.4g}") for finding in report.findings]
        parts += ["<h2>What pays</h2>", table_html(rows, ("finding", "largest gain"))]
    checks = [(c.name, "passed" if c.passed else "FAILED", c.detail + reason(c)) for c in report.checks]
    parts += ["<h2>Checks</h2>", table_html(checks, ("check", "result", "seen"))]
    searched = [
        (where, str(rows), str(classes), f"{worlds:,}", f"{predictions:,}", f"{resolution:.1g}")
        for (where, rows, classes), (worlds, predictions, resolution) in _together(report.searched).items()
    ]
    heads = ("searched", "rows", "classes", "worlds", "predictions", "gains above")
    parts += ["<h2>What was searched</h2>", table_html(searched, heads)]
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
    return f"<ul>{''.join(f'<li>{html_text(item)}</li>' for item in items)}</ul>"


def _code(text: str) -> str:
    return "\n".join(html_text(line) for line in text.split("\n"))
