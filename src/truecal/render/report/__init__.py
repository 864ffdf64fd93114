"""One HTML page about a comparison or an evaluation: it opens offline and loads nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from truecal.core.extras import require

if TYPE_CHECKING:
    from truecal.results.comparison import Comparison
    from truecal.results.decision_curve import DecisionCurve
    from truecal.results.evaluation import Evaluation


def render_report(
    result: Comparison | Evaluation,
    *,
    title: str | None = None,
    classes: Sequence[object] | None = None,
    intro: str | None = None,
    decisions: DecisionCurve | None = None,
) -> str:
    """The page as text: the leaderboard, the verdict, reliability diagrams, rankings by bin count, and the details.

    `classes` names the columns, in order; without it a class is called by its number. `intro` is a sentence or two
    under the title, and `decisions` a result of `tc.decision_curve`, which gets a section. Names of models, files and
    classes and the title are shown as text, never as markup.

    >>> import truecal as tc
    >>> from truecal.report import render_report
    >>> y, a, b = [0, 1, 1, 0] * 10, [.2, .9, .6, .1] * 10, [.4, .6, .6, .4] * 10
    >>> page = render_report(tc.compare(y, {"a": a, "<u>b": b}, n_bins=(2, 5), n_resamples=19), title="Two models")
    >>> page.startswith("<!doctype html>"), "<u>b" in page, "&lt;u&gt;b" in page
    (True, False, True)
    """
    page = require("truecal.render.report.build_page", "report")
    return str(page.render(result, title, classes, intro, decisions))


def write_report(
    result: Comparison | Evaluation,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    classes: Sequence[object] | None = None,
    intro: str | None = None,
    decisions: DecisionCurve | None = None,
) -> None:
    """Write the page of `render_report` to `path`; a failed write leaves no partial file.

    >>> import pathlib, tempfile
    >>> import truecal as tc
    >>> from truecal.report import write_report
    >>> result = tc.evaluate([0, 1, 1, 0] * 10, [.2, .9, .6, .1] * 10, n_bins=(2, 5), n_resamples=19)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(result, pathlib.Path(folder, "report.html"))
    ...     print([file.name for file in pathlib.Path(folder).iterdir()])
    ['report.html']
    """
    from truecal.io import write_atomic

    write_atomic(path, render_report(result, title=title, classes=classes, intro=intro, decisions=decisions))


__all__ = ["render_report", "write_report"]
