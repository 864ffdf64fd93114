"""One HTML page about a comparison or an evaluation: it opens offline and loads nothing."""

from .render.report import render_report as render_report
from .render.report import write_report as write_report
