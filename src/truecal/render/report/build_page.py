"""The page put together: template, style, scripts and data, under a policy that lets nothing else run or load."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

import truecal
from truecal.core.result import clean
from truecal.render.report.charts import decision_chart, risk_chart, specifications
from truecal.render.report.content import payload, read, summary
from truecal.render.report.measures import measure
from truecal.render.report.text import LABEL, distinct, interval, number, script_json, shorten
from truecal.results.risk_profile import Clinical


def render(result: Any, title: str | None, classes: Sequence[object] | None, intro: str | None, decisions: Any) -> str:
    """The page of a Comparison or an Evaluation."""
    source = read(result, classes)
    library, script = _library(), _asset("page.js")
    return _template().render(
        summary(source, title, intro),
        decisions=None if decisions is None else _decisions(decisions),
        policy=_policy(library, script),
        style=Markup(_asset("style.css")),
        library=Markup(library),
        script=Markup(script),
        data=Markup(script_json(payload(source))),
        specs=Markup(script_json(specifications())),
        version=truecal.__version__,
    )


def _decisions(result: Any) -> dict[str, Any]:
    """The section about decisions: sentences, a table, and two charts as pictures, which need no script.

    A Clinical brings its tables and its curve too.
    """
    measures: list[Any] = []
    if isinstance(result, Clinical):
        tables = zip(("What clinical papers report", "Centres"), result.tables(), strict=False)
        measures = [(name, [head.title for head in heads], rows) for name, (heads, rows) in tables]
        curve, result = Markup(vl_convert.vegalite_to_svg(risk_chart(result))), result.decisions
    heads, rows = result.table()
    names = distinct(shorten(clean(curve.name), LABEL) for curve in result.curves)
    charts = [Markup(vl_convert.vegalite_to_svg(decision_chart(result, names, net))) for net in (True, False)]
    return {
        "headline": result.headline,
        "sentences": [*result.sentences, *result.notes],
        "heads": [*(head.title for head in heads[:2]), *names],
        "rows": rows,
        "charts": charts,
        "measures": measures,
        "curve": curve if measures else "",
    }


@lru_cache(maxsize=1)
def _library() -> str:
    """Vega, Vega-Lite and vega-embed as one script; its names stay inside a function of their own."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return _inside_script(f"(() => {{{bundle}\n}})();")


def _inside_script(code: str) -> str:
    """Code that cannot end its script element: these only occur in strings, where the backslash changes nothing."""
    return code.replace("\r\n", "\n").replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _asset(name: str) -> str:
    return files("truecal.render.report").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """Only these scripts run, named by their hashes; nothing is loaded from anywhere.

    An inline handler or script that came in with a name would not run even if it were not escaped.
    """
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _shown(value: Any) -> Any:
    """What an expression of the template writes: a text of the user hides nothing; markup escapes it afterwards."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    environment.filters["number"] = number
    environment.globals.update(interval=interval, measure=measure)
    return environment.from_string(_asset("page.html.j2"))
