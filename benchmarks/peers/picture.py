"""The picture of a run: seconds and memory as rows, classes and bins grow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from truecal.io import atomic_path
from truecal.render.plots.draw import COLORS

from .contestants import TASKS
from .measuring import Cell
from .page import LEAST_MB, Key, by_key
from .running import PEERS, Plan, Size

DRAWN = ("confidence", "classwise")
BUILDERS = {
    "truecal": "-",
    "truecal, torch": "--",
    "truecal, stream": "-.",
    "truecal, CalibrationMetric": (0, (4, 1, 1, 1, 1, 1)),
    "truecal, Dask": ":",
}
"""Builders of truecal have one colour and differ in their lines."""
MARKERS = "sD^v"
UNITS = {"seconds": "seconds", "peak_mb": "peak memory, MB"}


def draw(results: Mapping[str, Any], plan: Plan, path: Path) -> None:
    """Two tasks, each with its time and its memory; where the budget ended a call an arrow points up."""
    cells = by_key(results["cells"])
    figure = Figure(figsize=(11, 13), layout="constrained")
    grid = figure.subplots(2 * len(DRAWN), len(Size._fields), sharey="row")
    for i, task in enumerate(DRAWN):
        for j, unit in enumerate(UNITS):
            for ax, grows in zip(grid[2 * i + j], Size._fields, strict=True):
                _panel(ax, task, unit, plan.sweeps[grows], grows, cells)
            first = grid[2 * i + j][0]
            first.set_ylabel(UNITS[unit])
            if j == 0:
                first.set_title(TASKS[task].title, loc="left", fontweight="bold")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False, handlelength=3.5)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=80, format="png")


def _panel(ax: Axes, task: str, unit: str, sizes: tuple[Size, ...], grows: str, cells: Mapping[Key, Cell]) -> None:
    for contestant in TASKS[task].contestants:
        found = [(getattr(size, grows), cells[task, contestant, size]) for size in sizes]
        drawn = [(x, _height(cell, unit)) for x, cell in found if cell.get(unit) is not None]
        style = _style(contestant)
        ax.plot([x for x, _ in drawn], [y for _, y in drawn], label=contestant, **style)
        over = [(x, cell["over"]) for x, cell in found if "over" in cell and unit == "seconds"]
        ax.plot(
            [x for x, _ in over],
            [y for _, y in over],
            **style | {"linestyle": "none", "marker": r"$\uparrow$", "markersize": 11},
        )
    others = (f"{getattr(sizes[0], other):,} {other}" for other in Size._fields if other != grows)
    ax.set(xscale="log", yscale="log", xlabel=f"{grows} ({', '.join(others)})")
    places = [getattr(size, grows) for size in sizes]
    ax.set_xticks(places, [f"{place:,}" for place in places], fontsize="small")
    ax.set_xticks([], minor=True)
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)


def _height(cell: Cell, unit: str) -> float:
    return max(cell[unit], LEAST_MB) if unit == "peak_mb" else cell[unit]


def _style(contestant: str) -> dict[str, Any]:
    if contestant in BUILDERS:
        return {"color": COLORS[0], "linestyle": BUILDERS[contestant], "linewidth": 2, "marker": "o", "markersize": 4}
    place = PEERS.index(contestant)
    return {"color": COLORS[1:][place], "marker": MARKERS[place], "markersize": 5, "linewidth": 1.2}
