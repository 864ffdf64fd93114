"""Pictures of results with matplotlib: each function draws what it is given, takes `ax=` and returns the Axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.extras import require
from ...core.result import clean_lines
from ...core.rules import bins_text
from ...evidence.values import Reliability
from ...inference.gaps import gap_text
from ...kinds.named_errors import COMPOSED
from ...results.diagram import main_diagram, worst_view
from ...results.evaluate import evaluate
from ...results.ranking import ranks
from ..palette import LINES

if TYPE_CHECKING:
    from ...evidence.values import ErrorValue
    from ...inference.monitoring import Monitor
    from ...results.comparison import Comparison
    from ...results.evaluation import Evaluation

Array = NDArray[Any]

COLORS = LINES
OFF = "#D55E00"
"""What is too high or over-confident."""
MARKERS = "osD^vPX*"
DASHES = ("-", "--", "-.", ":")

_BAND = "#999999"
_PAST_ALARM = 4  # powers of ten above an alarm that are shown
_NEAR = 0.08  # of the width of a logarithmic axis: labels of bin counts closer than that may touch
_FEW = 6  # series up to which intervals are shaded
_MOST_NAMED, _APART = 14, 0.07  # lines that are named at their ends, and how far apart of the height
_MOST_PLACES = 12  # files that are named below the evidence of a monitor


def _axes(ax: Any, **figure: Any) -> Any:
    """The axes that were given, or those of a new figure."""
    return require("matplotlib.pyplot", "plots").subplots(layout="constrained", **figure)[1] if ax is None else ax


def _style(i: int) -> dict[str, Any]:
    """Colour, marker and dash of the i-th series: no two of the first 32 agree in all three."""
    return {
        "color": COLORS[i % len(COLORS)],
        "marker": MARKERS[i % len(MARKERS)],
        "linestyle": DASHES[i // len(COLORS) % len(DASHES)],
    }


def _formula(symbol: str) -> str:
    """The paper's name of an error with its superscript raised."""
    name, _, raised = symbol.partition("^")
    return f"{name}$^{{\\mathrm{{{raised}}}}}$" if raised else name


def _plain(text: Any) -> str:
    """A name as it is: dollar signs would start a formula, a leading underscore would hide it from the legend, and
    fonts lack the signs for line breaks."""
    shown = clean_lines(str(text)).translate(dict.fromkeys(range(0x2400, 0x2425), " ")).replace("$", r"\$")
    return "\u200b" + shown if shown.startswith("_") else shown


def reliability(
    source: Any,
    y_proba: Any = None,
    *,
    name: str = "model",
    title: str | None = None,
    view: int | None = None,
    ax: Any = None,
    label: str | None = None,
    **style: Any,
) -> Any:
    """Reliability diagram: observed frequency against predicted probability, bin by bin.

    The grey band is where a calibrated model's points would fall; bars at the bottom are a histogram of predictions.
    `source` and `y_proba` are labels and predictions as `tc.evaluate` takes them, which is called with `name`. Or
    `source` alone is an Evaluation (the diagram of its gap) or one of its `reliability` values. The title has the name
    of the model and its gap, unless it is given; `view` is the class, label or threshold of a diagram with several, by
    default the one that is farthest off; `style` is that of the curve, such as color.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import truecal as tc
    >>> from truecal import plots
    >>> result = tc.evaluate([0, 1, 1, 0] * 5, [.2, .9, .6, .1] * 5, n_resamples=19)
    >>> ax = plots.reliability(result)
    >>> ax.get_xlabel()
    'predicted probability'
    >>> ax = plots.reliability([0, 1, 1, 0] * 5, [.2, .9, .6, .1] * 5, name="small")
    >>> ax.get_title().split(chr(10))[0]
    'small'
    >>> matplotlib.pyplot.close("all")
    """
    if y_proba is not None:
        source = evaluate(source, y_proba, name=name)
    diagram = _diagram(source)
    if view is None:
        view = 0 if diagram is source else worst_view(source, diagram)
    ax = _axes(ax, figsize=(4.2, 4.2))
    full = diagram.count[view] > 0
    x, y = diagram.mean_report[view][full], diagram.mean_outcome[view][full]
    _draw_histogram(ax, diagram.histogram)
    _say_counts(ax, diagram.count[view][full])
    if diagram.low is not None and diagram.high is not None:
        low, high = diagram.low[view][full], diagram.high[view][full]
        ax.fill_between(x, low, high, color=_BAND, alpha=0.35, linewidth=0, label="calibrated", zorder=1)
    ax.plot([0, 1], [0, 1], color="#666666", linewidth=1, linestyle="--", zorder=2)
    curve: dict[str, Any] = {"color": COLORS[0], "marker": "o", "markersize": 5, "linestyle": "", "zorder": 3}
    ax.plot(x, y, label=_plain(label or "observed"), **curve | style)
    about = f", {diagram.names[view]}" if diagram.names and diagram is not source else ""
    ax.set(xlabel=diagram.axes[0] + about, ylabel=diagram.axes[1], aspect="equal")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    words = _title(source) if title is None else title
    if words:
        ax.set_title(_plain(words), fontsize="medium")
    return ax


def _title(source: Any) -> str:
    """The name of an evaluated model and its gap; nothing for a bare diagram."""
    if not hasattr(source, "reliability"):
        return ""
    return source.name if source.gap is None else f"{source.name}\ngap {gap_text(source.gap)}"


def _diagram(source: Any) -> Reliability:
    """The diagram itself, or that of an evaluation's top class, or the first that it has."""
    if isinstance(source, Reliability):
        return source
    diagrams: Mapping[str, Reliability] | None = getattr(source, "reliability", None)
    if diagrams is None:
        raise TypeError("reliability takes labels and predictions, reliability(y_true, y_proba), or an Evaluation")
    found = main_diagram(source)
    if found is None:
        raise ValueError("this evaluation holds no reliability table")
    return found


def _draw_histogram(ax: Any, bars: Array | None) -> None:
    """How many predictions there are along the axis, the tallest bar an eighth of the height."""
    if bars is None or not bars.any():
        return
    left = np.arange(len(bars)) / len(bars)
    heights = bars / bars.max() / 8
    ax.bar(left, heights, width=0.9 / len(bars), align="edge", color="#56B4E9", alpha=0.6, zorder=0)


def _say_counts(ax: Any, count: Array) -> None:
    """The number of bins and of rows in them, in words."""
    if len(count) == 0:
        return
    low, high = f"{count.min():,.0f}", f"{count.max():,.0f}"
    words = f"{len(count)} bins of {low if low == high else f'{low} to {high}'}"
    ax.text(0.03, 0.97, words, transform=ax.transAxes, va="top", fontsize="x-small", color="#2b6f94")


def classwise_grid(
    evaluation: Evaluation,
    *,
    classes: Sequence[int] | None = None,
    names: Sequence[Any] | None = None,
    axes: Any = None,
) -> Any:
    """Reliability diagrams of several classes, labels or thresholds, by default the nine most frequent.

    Returns the array of Axes.
    """
    several = [name for name, found in evaluation.reliability.items() if found.table.views > 1]
    if not several:
        raise ValueError("a classwise grid needs the probabilities of all classes")
    diagram, property = evaluation.reliability[several[0]], COMPOSED[several[0]].property
    came = diagram.table.outcome.sum(axis=1)
    order = np.arange(len(came)) if property.in_order else np.argsort(-came, kind="stable")
    shown = list(order[:9]) if classes is None else list(classes)
    if axes is None:
        columns = min(3, len(shown))
        rows = -(-len(shown) // columns)
        axes = _axes(None, nrows=rows, ncols=columns, figsize=(2.9 * columns, 2.9 * rows), squeeze=False)
        for spare in axes.flat[len(shown) :]:
            spare.set_axis_off()
    for ax, j in zip(np.ravel(axes), shown, strict=False):
        reliability(diagram, view=int(j), ax=ax)
        known = diagram.names[j] if names is None and diagram.names else property.view_name(int(j), names)
        ax.set_title(_plain(known), fontsize="small")
        ax.label_outer()
    return axes


def error_against_bins(comparison: Comparison, error: str = "classwise", *, ax: Any = None) -> Any:
    """The error of each model against the number of bins.

    A squared error is drawn as n·error = loss + U, so that heights mean the same at every bin count; up to six models
    have the interval of U where it was measured.
    """
    ax = _axes(ax, figsize=(5.4, 3.8))
    lines = {name: comparison.evaluations[name].rows(error) for name in comparison.names}
    first = lines[comparison.names[0]]
    x = [row.n_bins for row in first if row.n_bins is not None]
    if not x:
        raise ValueError(f"{error!r} has no bin count to draw against")
    for i, (name, rows) in enumerate(lines.items()):
        heights = [row.value if row.U is None else _sum(row, row.U) for row in rows]
        ax.plot(x, heights, label=_plain(name), markersize=4, **_style(i))
        ends = [(row.n_bins, _sum(row, row.U_low), _sum(row, row.U_high)) for row in rows if row.U_low is not None]
        if len(lines) <= _FEW and ends:
            ax.vlines(*zip(*ends, strict=True), color=_style(i)["color"], alpha=0.4, linewidth=3)
    symbol = _formula(first[0].symbol)
    value = symbol if first[0].loss is None else f"n·{symbol} = loss + U"
    ax.set(xlabel="number of bins", ylabel=value, xscale="log")
    ax.set_xticks(x, _staggered(x))
    ax.minorticks_off()
    _name_lines(ax)
    return ax


def _staggered(counts: Sequence[int]) -> list[str]:
    """Labels of bin counts on a logarithmic axis; each that would touch the one before stands a line lower."""
    share = np.diff(np.log(counts)) / np.log(counts[-1] / counts[0]) if len(counts) > 1 else []
    lines = [0]
    for step in share:
        lines.append(lines[-1] + 1 if step < _NEAR else 0)
    return ["\n" * line + str(m) for m, line in zip(counts, lines, strict=True)]


def _sum(row: ErrorValue, U: float | None) -> float:
    """loss + U, or where U is unknown the loss alone."""
    return (row.loss or 0.0) + (U or 0.0)


def _name_lines(ax: Any) -> None:
    """The name of each line at its right end, in its colour, moved so that no two touch; many lines have a legend."""
    lines = ax.get_lines()
    if len(lines) > _MOST_NAMED:
        ax.legend(
            fontsize="x-small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1), ncols=-(-len(lines) // 20)
        )
        return
    low, high = ax.get_ylim()
    at = -1.0
    for line in sorted(lines, key=lambda line: line.get_ydata()[-1]):
        at = max((line.get_ydata()[-1] - low) / (high - low), at + _APART)
        place = {"transform": ax.transAxes, "va": "center", "fontsize": "small", "color": line.get_color()}
        ax.text(1.02, at, line.get_label(), **place)


def ranking_bump(comparison: Comparison, error: str = "confidence_l1", *, ax: Any = None) -> Any:
    """Rank of each model at each bin count by an error, 1 at the top: lines that cross are flips."""
    table, counts = comparison.values(error)
    place = ranks(table)
    ax = _axes(ax, figsize=(1.8 + 1.3 * len(counts), 1.2 + 0.32 * len(comparison.names)))
    x = np.arange(len(counts))
    for i, name in enumerate(comparison.names):
        ax.plot(x, place[:, i], linewidth=2, markersize=7, **_style(i))
        ax.annotate(_plain(name), (x[-1], place[-1, i]), xytext=(8, 0), textcoords="offset points", va="center")
    ax.set_xticks(x, [bins_text(m) for m in counts])
    ax.set_yticks(np.arange(1, len(comparison.names) + 1))
    ax.set(ylim=(len(comparison.names) + 0.5, 0.5), xlim=(-0.2, len(counts) - 0.2), ylabel="rank")
    ax.set_title(f"{_formula(comparison.symbol(error))}: rank at each bin count", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def evidence(monitor: Monitor, *, ax: Any = None) -> Any:
    """The e-value of a monitor over its rows, with those of its processes, the alarm level, and the alarm.

    Where rows came with times, such as names of files, the axis is marked where each begins. Lines
    end at ten thousand times that level.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import truecal as tc
    >>> from truecal import plots
    >>> monitor = tc.monitor()
    >>> _ = monitor.update([0, 1, 1, 0] * 50, [.2, .9, .6, .1] * 50)
    >>> ax = plots.evidence(monitor)
    >>> ax.get_ylabel()
    'e-value'
    >>> matplotlib.pyplot.close(ax.figure)
    """
    ax = _axes(ax, figsize=(7.0, 3.8))
    history, now = monitor.history, monitor.result()
    height = -np.log10(monitor.alpha)
    top = height + _PAST_ALARM  # infinite evidence is drawn there

    def draw(log_evalues: Array, **line: Any) -> None:
        ax.plot(history.rows, np.minimum(log_evalues / np.log(10), top), **line)

    for i, (name, values) in enumerate(history.log_processes.items()):
        draw(values, label=_plain(name), **{**_style(i), "marker": None, "linewidth": 1, "alpha": 0.8})
    draw(history.log_evalues, color="#000000", linewidth=2, label="all together")
    ax.axhline(height, color="#666666", linewidth=1, linestyle="--", label=f"alarm at {1 / monitor.alpha:.4g}")
    if now.since is not None:
        reached = now.since + 1  # that many rows, the first being row 0
        ax.axvline(reached, color="#666666", linewidth=1, linestyle=":")
        when = f"row {now.since}" if now.since_time is None else f"row {now.since}, {now.since_time}"
        above = {"xycoords": ax.get_xaxis_transform(), "xytext": (0, 3), "textcoords": "offset points"}
        ax.annotate(_plain(when), (reached, 1), ha="center", va="bottom", fontsize="small", **above)
    each = -(-len(history.places) // _MOST_PLACES)
    for i, place in enumerate(history.places):
        ax.axvline(place.start, ymax=0.03, color="#666666", linewidth=1)
        if i % each == 0:
            where = {"xycoords": ax.get_xaxis_transform(), "xytext": (3, 4), "textcoords": "offset points"}
            ax.annotate(_plain(place.name), (place.start, 0), rotation=90, fontsize="x-small", va="bottom", **where)
    ax.set(xlabel="rows", ylabel="e-value", ylim=(-1.7 - 1.4 * (each > 0), top + 0.1))
    ax.yaxis.set_major_locator(require("matplotlib.ticker", "plots").MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(lambda exponent, _: f"$10^{{{exponent:.0f}}}$")
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return ax
