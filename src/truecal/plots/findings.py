"""Pictures of where a model is off and of what may be trusted, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .draw import COLORS, _axes, _plain

if TYPE_CHECKING:
    from ..inference.segments import Segments

_NOT_CLEAR = "#8A8A8A"


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
        color = (COLORS[1] if segment.gap > 0 else COLORS[0]) if found else _NOT_CLEAR
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
    about = f" (class {segment.of})" if segment.of else ""
    return _plain(f"{'' if number is None else f'finding {number}: '}{name}{about}")
