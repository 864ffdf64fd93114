"""Pictures of where a model is off and of what may be trusted, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...core.extras import require
from .draw import COLORS, DASHES, OFF, _axes, _plain

if TYPE_CHECKING:
    from ...inference.estimation import Estimate
    from ...inference.repair import Repair
    from ...inference.segments import Segments
    from ...inference.thresholds import Threshold
    from ...results.decision_curve import DecisionCurve
    from ...results.risk_profile import Clinical

_NOT_CLEAR = "#8A8A8A"
_COSTS = (0.01, 0.02, 0.05, 0.1, 0.2, 1 / 3, 0.5, 2 / 3, 0.8, 0.9)
"""Thresholds at which the axis of costs has marks: 99 : 1, 49 : 1, 19 : 1, 9 : 1, 4 : 1, 2 : 1, 1 : 1 and so on."""


def decision_curve(
    result: DecisionCurve, *, kind: Literal["net benefit", "loss"] = "net benefit", ax: Any = None
) -> Any:
    """Net benefit over thresholds with simultaneous bands, beside acting on all rows and on none; or the mean of L_t.

    Net benefit is drawn up to the last threshold at which a model acts on at least 1% of the rows. With kind="loss"
    it is the Murphy diagram: lower is better, and the area under 2 L_t is the Brier score. The upper
    axis is the cost of a miss in units of that of a false alarm. Bands are drawn for up to three models.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import truecal as tc
    >>> found = tc.decision_curve([0, 1, 1, 0] * 50, [.1, .9, .8, .2] * 50, n_resamples=99)
    >>> ax = found.plot()
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('threshold', 'net benefit')
    >>> found.plot(kind="loss").get_ylabel()
    'mean loss $L_t$'
    >>> matplotlib.pyplot.close("all")
    """
    if kind not in ("net benefit", "loss"):
        raise ValueError(f'kind must be "net benefit" or "loss", got {kind!r}')
    net = kind == "net benefit"
    ax, t = _axes(ax, figsize=(6.4, 4.4)), result.thresholds
    for i, curve in enumerate(result.curves):
        color, band = COLORS[i % len(COLORS)], curve.net_benefit if net else curve.loss
        dash = DASHES[i // len(COLORS) % len(DASHES)]
        ax.plot(t, band.estimate, color=color, linewidth=1.8, linestyle=dash, label=_plain(curve.name), zorder=3)
        if len(result.curves) <= 3:
            ax.fill_between(t, band.band_low, band.band_high, color=color, alpha=0.15, linewidth=0)
    everybody = result.act_on_all.estimate if net else t * (1 - result.prevalence)
    nobody = np.zeros(len(t)) if net else (1 - t) * result.prevalence
    ax.plot(t, everybody, color="#555555", linewidth=1.2, linestyle="--", label="act on all", zorder=2)
    ax.plot(t, nobody, color="#555555", linewidth=1.2, linestyle=":", label="act on none", zorder=2)
    drawn = np.concatenate([curve.net_benefit.estimate if net else curve.loss.band_high for curve in result.curves])
    top = 1.12 * result.prevalence if net else 1.05 * min(drawn.max(), 2 * np.minimum(everybody, nobody).max())
    low = -0.25 * result.prevalence if net else 0.0
    last = result.last_used if net else float(t[-1])
    ax.set(
        xlabel="threshold", ylabel=kind if net else "mean loss $L_t$", ylim=(low, top), xlim=(0, min(1.0, last + t[0]))
    )
    places = [place for place in _COSTS if last / 14 < place < last]  # where they have space
    above = ax.secondary_xaxis("top")
    above.set_xticks(places, [f"{max(1, 1 / place - 1):.3g} : {max(1, place / (1 - place)):.3g}" for place in places])
    above.set_xlabel("cost of a miss : cost of a false alarm", fontsize="small")
    above.tick_params(labelsize="small")
    ax.legend(fontsize="small", frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def clinical(result: Clinical, *, ax: Any = None) -> Any:
    """Flexible calibration curves with their bands, and the distribution of risks by outcome below.

    Risks of rows with the event point up, those of rows without it down.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import truecal as tc
    >>> found = tc.clinical([0, 1, 1, 0, 1] * 40, [.1, .9, .8, .2, .3] * 40)
    >>> ax = found.plot()
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('predicted risk', 'observed frequency')
    >>> matplotlib.pyplot.close(ax.figure)
    """
    ax, curve = _axes(ax, figsize=(5.2, 5.6)), result.curve
    ax.plot([0, 1], [0, 1], color="#666666", linewidth=1, linestyle="--", label="ideal")
    band = f"loess, {result.level:.0%} band"
    ax.fill_between(curve.risk, curve.loess_low, curve.loess_high, color=COLORS[0], alpha=0.18, linewidth=0)
    ax.plot(curve.risk, np.clip(curve.loess, 0, 1), color=COLORS[0], linewidth=2, label=band)
    ax.plot(curve.risk, curve.spline, color=COLORS[1], linewidth=1.5, label="restricted cubic spline")
    ends = np.column_stack([curve.spline_low, curve.spline_high])
    ax.plot(curve.risk, ends, color=COLORS[1], linewidth=0.8, linestyle=":")
    tallest, middle = max(1, result.risks.max()), -0.12
    for counts, way, color in zip(result.risks, (-1, 1), (_NOT_CLEAR, COLORS[2]), strict=True):
        heights = 0.09 * way * counts / tallest
        ax.bar(result.edges[:-1], heights, np.diff(result.edges), bottom=middle, align="edge", color=color)
    ax.text(1.0, middle + 0.02, "events", ha="right", fontsize="small", color=COLORS[2])
    ax.text(1.0, middle - 0.045, "others", ha="right", fontsize="small", color="#666666")
    ax.set(xlabel="predicted risk", ylabel="observed frequency", xlim=(-0.01, 1.01), ylim=(-0.23, 1.02))
    ax.set_yticks(np.arange(6) / 5)
    ax.legend(fontsize="small", frameon=False, loc="upper left")
    ax.set_title(_plain(result.headline), fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def segments(result: Segments, *, most: int = 20, ax: Any = None) -> Any:
    """The gaps of the segments with the most evidence, sorted by size, with their joint intervals.

    Findings are named by their number and drawn in colour; segments that overlap with them are lighter, and those whose
    interval holds 0 are grey.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import truecal as tc
    >>> found = tc.segments([0, 1] * 100, [.4, .6] * 100, {"side": ["left"] * 100 + ["right"] * 100}, n_resamples=19)
    >>> ax = found.plot()
    >>> ax.get_xlabel()
    'mean prediction − observed frequency, in points'
    >>> matplotlib.pyplot.close(ax.figure)
    """
    leads = [(i + 1, finding.segment) for i, finding in enumerate(result.findings)]
    number = {id(segment): i for i, segment in leads}
    chosen = [segment for _, segment in leads][:most]
    chosen += [segment for segment in result.segments if id(segment) not in number][: max(0, most - len(chosen))]
    chosen.sort(key=lambda segment: segment.gap)
    ax = _axes(ax, figsize=(7.4, 1.1 + 0.27 * len(chosen)))
    for y, segment in enumerate(chosen):
        lead, found = number.get(id(segment)), segment.finding is not None
        color = (OFF if segment.gap > 0 else COLORS[0]) if found else _NOT_CLEAR
        fade = 1.0 if lead or not found else 0.45
        ax.plot([segment.low, segment.high], [y, y], color=color, linewidth=3 if lead else 1.6, alpha=fade)
        ax.plot([segment.gap], [y], marker="o", markersize=6 if lead else 4, color=color, alpha=fade)
    names = [_title(segment, number.get(id(segment))) for segment in chosen]
    ax.set_yticks(range(len(chosen)), names, fontsize="small")
    for tick, segment in zip(ax.get_yticklabels(), chosen, strict=True):
        tick.set_fontweight("bold" if id(segment) in number else "normal")
    ax.axvline(0, color="#666666", linewidth=1, linestyle="--", zorder=0)
    ax.set(xlabel="mean prediction − observed frequency, in points", ylim=(-0.6, len(chosen) - 0.4))
    ax.set_title(_plain(result.headline), fontsize="medium", loc="right")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def _title(segment: Any, number: int | None) -> str:
    name = segment.name if len(segment.name) <= 60 else segment.name[:59] + "…"
    return _plain(f"{'' if number is None else f'finding {number}: '}{name}{segment.about}")


def threshold(result: Threshold, *, ax: Any = None) -> Any:
    """The error among accepted rows against coverage, with its bound, what the model promises, and the threshold.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import truecal as tc
    >>> found = tc.threshold([0, 1, 1, 0] * 100, [.1, .9, .8, .2] * 100)
    >>> ax = found.plot()
    >>> ax.get_xlabel()
    'coverage'
    >>> matplotlib.pyplot.close(ax.figure)
    """
    ax = _axes(ax, figsize=(6.0, 4.2))
    x = result.coverages
    ax.plot(x, result.risks, color=COLORS[0], linewidth=2, label="observed error")
    ax.fill_between(x, result.risks, result.bounds, color=COLORS[0], alpha=0.18, linewidth=0)
    ax.plot(x, result.bounds, color=COLORS[0], linewidth=1, linestyle="--", label=f"bound, {1 - result.delta:.0%}")
    ax.plot(x, result.expectations, color=COLORS[1], linewidth=2, linestyle="-.", label="expected by the model")
    ax.axhline(result.risk, color="#666666", linewidth=1, linestyle=":", label=f"risk {result.risk:.4g}")
    if result.threshold is not None:
        ax.axvline(result.coverage, color=COLORS[2], linewidth=1.5, label=f"confidence ≥ {result.threshold:.3g}")
    ax.set(xlabel="coverage", ylabel="error among accepted rows", xlim=(0, 1.02))
    ax.set_ylim(0, max(2 * result.risk, 1.1 * float(max(result.risks.max(), result.expectations.max()))))
    percent = require("matplotlib.ticker", "plots").PercentFormatter(1.0)
    ax.xaxis.set_major_formatter(percent)
    ax.yaxis.set_major_formatter(percent)
    words = "no threshold keeps the promise"
    if result.threshold is not None:
        words = f"accept {result.coverage:.1%} with an error of at most {result.risk:.4g}"
    ax.set_title(words, fontsize="medium")
    ax.legend(fontsize="small", frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def estimate(result: Estimate, *, ax: Any = None) -> Any:
    """Each estimate with its interval, what the labelled rows say alone, and what the model itself expects.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import truecal as tc
    >>> found = tc.estimate([0, 1, 1, 0] * 10, [.1, .9, .8, .2] * 10, [.1, .9, .8, .2] * 100)
    >>> ax = found.plot()
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['Brier score', 'positive rate', 'accuracy']
    >>> matplotlib.pyplot.close(ax.figure)
    """
    ax = _axes(ax, figsize=(6.0, 0.9 + 0.62 * len(result.quantities)))
    found = list(result.quantities)[::-1]
    for y, q in enumerate(found):
        label = y == len(found) - 1
        ends = [q.labelled_low, q.labelled_high], [y - 0.18] * 2
        ax.plot(*ends, color=_NOT_CLEAR, linewidth=2, label="labelled rows alone" if label else None)
        ax.plot([q.low, q.high], [y, y], color=COLORS[0], linewidth=4, label="estimate" if label else None)
        ax.plot([q.value], [y], marker="o", markersize=7, color=COLORS[0])
        ax.plot(
            [q.naive], [y], marker="X", markersize=8, color=COLORS[1], linestyle="", label="naive" if label else None
        )
    ax.set_yticks(range(len(found)), [q.name for q in found])
    ax.set(ylim=(-0.6, len(found) - 0.4), xlabel="on the new rows")
    ax.set_title(result.headline, fontsize="medium")
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def repair(result: Repair, *, ax: Any = None) -> Any:
    """The gap that each map leaves on unseen rows, with its interval; the advised one in colour.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> import truecal as tc
    >>> found = tc.monitor().advise([0, 1, 1, 0, 1] * 40, [.1, .9, .8, .2, .3] * 40)
    >>> ax = found.plot()
    >>> ax.get_xlabel()
    'gap left, in points'
    >>> matplotlib.pyplot.close(ax.figure)
    """
    ax = _axes(ax, figsize=(6.0, 2.6))
    found = list(result.candidates)[::-1]
    for y, candidate in enumerate(found):
        color = COLORS[0] if candidate.name == result.best else _NOT_CLEAR
        ax.plot([max(0.0, candidate.low), max(0.0, candidate.high)], [y, y], color=color, linewidth=3)
        ax.plot([max(0.0, candidate.gap)], [y], marker="o", markersize=6, color=color)
    ax.set_yticks(range(len(found)), [f"{candidate.name}, score {candidate.score:.4f}" for candidate in found])
    ax.set(xlabel="gap left, in points", ylim=(-0.6, len(found) - 0.4), xlim=(0, None))
    ax.set_title(f"{result.n_samples} recent rows: {result.best}", fontsize="medium")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax
