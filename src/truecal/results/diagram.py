"""A reliability diagram as a few lines of SVG, for notebooks: no library draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.result import html_text
from ..core.types import Array

if TYPE_CHECKING:
    from ..evidence.values import Reliability
    from .evaluation import Evaluation

SIZE, LEFT, TOP = 180, 40, 22  # of the square and of the margins, in pixels
MOST_SHOWN = 4


def main_diagram(found: Evaluation) -> Reliability | None:
    """The diagram of what the gap measures, or else the first."""
    diagrams = found.reliability
    return next((diagrams[name] for name in (found.gap_name, *diagrams) if name in diagrams), None)


def worst_view(found: Evaluation, diagram: Reliability) -> int:
    """The label, class or threshold that is farthest off, where they are listed; else the first."""
    known = [view for view in found.views if view.name in diagram.names]
    worst = min(known, key=lambda view: (view.gap.note != "", -view.gap.low, -view.gap.points), default=None)
    return 0 if worst is None else diagram.names.index(worst.name)


def reliability_svg(found: Evaluation) -> str:
    """The main diagram: points, the band of a calibrated model, the diagonal, and a histogram of predictions."""
    diagram, title = main_diagram(found), found.name
    if diagram is None:
        return ""
    view = worst_view(found, diagram)
    full = diagram.count[view] > 0
    x, y = diagram.mean_report[view][full], diagram.mean_outcome[view][full]
    if len(x) == 0:
        return ""
    parts = []
    if diagram.low is not None and diagram.high is not None:
        edge = [*_points(x, diagram.low[view][full]), *_points(x, diagram.high[view][full])[::-1]]
        parts.append(f'<polygon points="{" ".join(edge)}" fill="#999999" fill-opacity="0.35"/>')
    right, bottom = LEFT + SIZE, TOP + SIZE
    bars = () if diagram.histogram is None else diagram.histogram / max(diagram.histogram.max(), 1e-300)
    for i, share in enumerate(bars):
        wide, high = SIZE / len(bars), SIZE / 8 * float(share)
        parts.append(
            f'<rect x="{LEFT + i * wide:.1f}" y="{bottom - high:.1f}" width="{wide - 1:.1f}" height="{high:.1f}" '
            'fill="#56B4E9" fill-opacity="0.6"/>'
        )
    frame = f'x="{LEFT}" y="{TOP}" width="{SIZE}" height="{SIZE}" fill="none" stroke="currentColor"'
    parts.append(f'<rect {frame} stroke-opacity="0.4"/>')
    parts.append(
        f'<line x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{TOP}" stroke="currentColor" stroke-opacity="0.6" '
        'stroke-dasharray="4 3"/>'
    )
    for point in _points(x, y):
        cx, cy = point.split(",")
        parts.append(f'<circle cx="{cx}" cy="{cy}" r="2.5" fill="#0072B2"/>')
    across, up_words = diagram.axes
    across += f", {diagram.names[view]}" if diagram.names else ""
    numbers = "; ".join(f"{a:.0%} predicted, {b:.0%} observed" for a, b in zip(x, y, strict=True))
    shown = title if len(title) <= 32 else f"{title[:31]}…"
    texts = [
        (LEFT + SIZE / 2, TOP - 8, "middle", shown, ""),
        (LEFT + SIZE / 2, bottom + 30, "middle", across, ""),
        (12, TOP + SIZE / 2, "middle", up_words, f' transform="rotate(-90 12 {TOP + SIZE / 2})"'),
        *((LEFT + SIZE * tick / 2, bottom + 14, "middle", f"{tick / 2:g}", "") for tick in range(3)),
        *((LEFT - 5, bottom - SIZE * tick / 2 + 4, "end", f"{tick / 2:g}", "") for tick in range(3)),
    ]
    parts += [
        f'<text x="{at:g}" y="{up:g}" text-anchor="{anchor}"{more}>{html_text(text)}</text>'
        for at, up, anchor, text, more in texts
    ]
    width, height = right + 12, bottom + 38
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="Reliability diagram: {numbers}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def _across(at: float) -> str:
    return f"{LEFT + SIZE * float(at):.1f}"


def _points(x: Array, y: Array) -> list[str]:
    return [f"{_across(a)},{TOP + SIZE * (1 - float(b)):.1f}" for a, b in zip(x, y, strict=True)]
