"""An audit as HTML: a page of its own, or its body for a notebook; everything from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

import truecal

from ..core.result import table_html
from .outcome import called, proof_lines, reason

if TYPE_CHECKING:
    from .outcome import AuditReport

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse } th, td { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top }
th { border-bottom: 1px solid #999 } pre { background: #f4f4f4; padding: 1rem; overflow-x: auto }
.verdict { font-size: 1.2rem; border-left: .3rem solid #999; padding-left: .8rem }
.gamed { border-color: #b3261e } .certified { border-color: #1b7f3b }
"""


def page(report: AuditReport) -> str:
    """The whole page."""
    title = escape(f"Audit of {report.metric}")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>{body(report)}"
        f"<p>truecal {escape(truecal.__version__)}</p></body></html>\n"
    )


def body(report: AuditReport) -> str:
    """Verdict, proof, findings, checks, and what was searched."""
    kind = report.verdict.split()[0]
    title = f'<h1 style="overflow-wrap: anywhere">Audit of {escape(report.metric)}</h1>'
    parts = [title, f'<p class="verdict {kind}">{escape(report.summary)}</p>']
    if report.options:
        parts.append(f"<p>Options: {escape(', '.join(f'{n}={v!r}' for n, v in report.options.items()))}</p>")
    if report.proof is not None:
        script = f'<pre style="overflow-x: auto">{escape(report.snippet())}</pre>'
        parts += ["<h2>Proof</h2>", _list(proof_lines(report.proof)), script]
    if report.findings:
        rows = [(finding.text, f"{finding.gain:.4g}") for finding in report.findings]
        parts += ["<h2>What pays</h2>", table_html(rows, ("finding", "largest gain seen"))]
    checks = [(c.name, "passed" if c.passed else "failed", c.detail + reason(c)) for c in report.checks]
    parts += ["<h2>Checks</h2>", table_html(checks, ("check", "", "seen"))]
    searched = [
        (s.where, str(s.rows), str(s.classes), f"{s.worlds:,}", f"{s.predictions:,}", f"{s.resolution:.1g}")
        for s in report.searched
    ]
    heads = ("searched", "rows", "classes", "worlds", "predictions", "smallest gain seen")
    parts += ["<h2>Where was looked</h2>", table_html(searched, heads)]
    parts.append(_list([*report.notes, f"{report.calls:,} calls, seed {report.seed}; {called(report)}"]))
    return "\n".join(parts)


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
