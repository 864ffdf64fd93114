"""From the results of a run to words: a line for each cell, and the tables of benchmarks/README.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import floor, log10
from pathlib import Path
from typing import Any

from truecal.io import write_atomic

from .contestants import TASKS, Task
from .measuring import Cell
from .running import FULL, PEERS, ROOT, Plan, Size

RESULTS = Path(__file__).with_name("results.json")
SUMMARY = {
    "confidence": Size(10**6, 10, 20),
    "classwise": Size(50_000, 1000, 20),
    "classwise_ece": Size(50_000, 1000, 20),
    "smooth": Size(10**6, 10, 20),
}
"""The size at which the first table shows each task."""
LEAST_MB = 1.0
"""Less memory counts as so much: pages that a process already has are not seen."""

Key = tuple[str, str, Size]


def stored() -> dict[str, Any]:
    """The run that the pages show."""
    found: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return found


def by_key(cells: list[Cell]) -> dict[Key, Cell]:
    return {(c["task"], c["contestant"], Size(c["rows"], c["classes"], c["bins"])): c for c in cells}


# -- one cell in words -------------------------------------------------------------------------------------------------


def seconds_text(seconds: float) -> str:
    return f"{digits(1000 * seconds)} ms" if seconds < 1 else f"{digits(seconds)} s"


def megabytes_text(mb: float | None) -> str:
    return "–" if mb is None else f"{digits(mb)} MB" if mb >= LEAST_MB else f"< {LEAST_MB:g} MB"


def digits(x: float) -> str:
    """Two significant digits, without an exponent."""
    rounded = float(f"{x:.1e}")
    places = max(0, 1 - floor(log10(abs(rounded)))) if rounded else 0
    return f"{rounded:,.{places}f}"


def time_ratio(cell: Cell, first: Cell) -> str:
    """How many times the seconds of the first: "> 12x" where the budget ended it."""
    if "seconds" not in first:
        return "–"
    if "over" in cell:
        return f"> {digits(cell['over'] / first['seconds'])}x"
    return f"{digits(cell['seconds'] / first['seconds'])}x" if "seconds" in cell else "fails"


def memory_ratio(cell: Cell, first: Cell) -> str:
    mine, theirs = cell.get("peak_mb"), first.get("peak_mb")
    if mine is None or theirs is None:
        return "–"
    return f"{digits(max(mine, LEAST_MB) / max(theirs, LEAST_MB))}x"


def difference(cell: Cell, first: Cell) -> float | None:
    """How far a value is from the first one's, as a share of it."""
    if "value" not in cell or "value" not in first:
        return None
    return (cell["value"] - first["value"]) / abs(first["value"])


def line(cell: Cell, first: Cell) -> str:
    """A cell as it is printed when it is measured."""
    where = f"{cell['task']:<14} n={cell['rows']:<10,} k={cell['classes']:<5,} m={cell['bins']:<5,}"
    start = f"{where} {cell['contestant']:<27}"
    if "problem" in cell:
        return f"{start} fails: {cell['problem']}"
    if "over" in cell:
        tried = "" if cell["tried"] else " (not tried: cut off at a smaller size)"
        return f"{start} {time_ratio(cell, first)}, more than {cell['over']:g} s{tried}"
    costs = (
        f"{seconds_text(cell['seconds']):>8} (cpu {seconds_text(cell['cpu_seconds']):>8}) {time_ratio(cell, first):>8}"
    )
    memory = f"{megabytes_text(cell['peak_mb']):>9} {memory_ratio(cell, first):>7}"
    away = difference(cell, first)
    return f"{start} {costs}   {memory}   {'' if away is None else f'value {away:+.0e}'}"


# -- tables ------------------------------------------------------------------------------------------------------------


def markdown(head: list[str], rows: list[list[str]], left: int) -> str:
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def summary(results: Mapping[str, Any]) -> str:
    """Every task at one size."""
    cells, rows = by_key(results["cells"]), []
    for name, task in TASKS.items():
        size = SUMMARY[name]
        first = cells[name, next(iter(task.contestants)), size]
        for i, contestant in enumerate(task.contestants):
            cell = cells[name, contestant, size]
            what = [task.title, f"{size.rows:,} x {size.classes:,}"] if i == 0 else ["", ""]
            costs = [time_ratio(cell, first), memory_ratio(cell, first)]
            if i == 0:
                costs = [seconds_text(cell["seconds"]), megabytes_text(cell["peak_mb"])]
            rows.append([*what, contestant, *costs])
    versions = ", ".join(f"{name} {results['versions'][name]}" for name in PEERS)
    head = ["computed", "rows x classes", "by", "time", "peak memory"]
    said = f"{SUMMARY['confidence'].bins} bins, {results['cores']} cores; {versions}."
    return f"{markdown(head, rows, left=3)}\n\n{said}"


def details(results: Mapping[str, Any], plan: Plan = FULL) -> str:
    """The tables of benchmarks/README.md: every task as rows, classes and bins grow."""
    cells = by_key(results["cells"])
    parts = [_measured(results)]
    for name, task in TASKS.items():
        parts += [f"### {task.title}", f"{task.definition}."]
        parts += [_growth(name, task, plan.sweeps[grows], grows, cells) for grows in task.grows]
        parts += [_values(name, task, plan, cells), *_failures(name, task, plan, cells)]
        called = [[contestant, str(prepare.__doc__)] for contestant, prepare in task.contestants.items()]
        parts.append(markdown(["", "what is called"], called, left=2))
    return "\n\n".join(parts)


def _measured(results: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items() if version)
    return (
        f"Measured on {results['date']} with Python {results['python']} on {results['cores']} cores: {versions}. The "
        f"fastest of {results['calls']} calls counts, or of as many as begin within {results['enough']:g} seconds; a "
        f"first call longer than {results['budget']:g} seconds is cut off, and more than "
        f"{results['memory_limit_gb']} GB of memory are refused. Batches have {results['batch']:,} rows."
    )


def _growth(name: str, task: Task, sizes: tuple[Size, ...], grows: str, cells: Mapping[Key, Cell]) -> str:
    """Time and memory of all contestants along one sweep; those of the first as they are, the others' as ratios."""
    first_name = next(iter(task.contestants))
    firsts = [cells[name, first_name, size] for size in sizes]
    rows = []
    for contestant in task.contestants:
        found = [cells[name, contestant, size] for size in sizes]
        if contestant == first_name:
            rows.append([contestant, *(_own_costs(cell) for cell in found)])
        else:
            rows.append([contestant, *(_ratios(cell, first) for cell, first in zip(found, firsts, strict=True))])
    fixed = ", ".join(f"{getattr(sizes[0], other):,} {other}" for other in Size._fields if other != grows)
    return markdown([fixed, *(f"{getattr(size, grows):,} {grows}" for size in sizes)], rows, left=1)


def _own_costs(cell: Cell) -> str:
    if "seconds" not in cell:
        return "fails" if "problem" in cell else f"> {cell['over']:g} s"
    return (
        f"{seconds_text(cell['seconds'])} ({seconds_text(cell['cpu_seconds'])} cpu), {megabytes_text(cell['peak_mb'])}"
    )


def _ratios(cell: Cell, first: Cell) -> str:
    if "seconds" not in cell or "seconds" not in first:
        return time_ratio(cell, first)
    cpu = f"{digits(cell['cpu_seconds'] / first['cpu_seconds'])}x"
    return f"{time_ratio(cell, first)} ({cpu} cpu), {memory_ratio(cell, first)}"


def _each(name: str, task: Task, plan: Plan, cells: Mapping[Key, Cell]) -> Iterator[tuple[str, Size, Cell, Cell]]:
    first = next(iter(task.contestants))
    for contestant in task.contestants:
        for size in plan.sizes(task.grows):
            yield contestant, size, cells[name, contestant, size], cells[name, first, size]


def differences(name: str, task: Task, plan: Plan, cells: Mapping[Key, Cell]) -> list[tuple[str, Size, float]]:
    """How far every value is from the first contestant's."""
    found = ((who, size, difference(cell, first)) for who, size, cell, first in _each(name, task, plan, cells))
    return [(who, size, away) for who, size, away in found if away is not None]


def _values(name: str, task: Task, plan: Plan, cells: Mapping[Key, Cell]) -> str:
    """How far values are apart; what is further than the task allows is named one by one."""
    most: dict[str, float] = {}
    far = []
    for who, size, away in differences(name, task, plan, cells):
        if abs(away) <= task.tolerance:
            most[who] = max(most.get(who, 0.0), abs(away))
        else:
            far.append(f" {who} at {_size_text(size)}: {away:+.1%}.")
    said = ", ".join(f"{who} {away:.0e}" for who, away in most.items() if who != next(iter(task.contestants)))
    return f"Values differ from truecal's by at most these shares ({task.why}): {said}.{''.join(far)}"


def _failures(name: str, task: Task, plan: Plan, cells: Mapping[Key, Cell]) -> list[str]:
    found = [
        f"- {contestant} at {_size_text(size)}: `{cell['problem']}`"
        for contestant, size, cell, _ in _each(name, task, plan, cells)
        if "problem" in cell
    ]
    return ["\n".join(["What failed:", "", *found])] if found else []


def _size_text(size: Size) -> str:
    return f"{size.rows:,} rows, {size.classes:,} classes, {size.bins:,} bins"


# -- pages -------------------------------------------------------------------------------------------------------------

BEGIN, END = "<!-- made by python -m benchmarks.peers --write -->", "<!-- end -->"


def whole(results: Mapping[str, Any]) -> str:
    """One table in short, then every task in full."""
    return f"{summary(results)}\n\n{details(results)}"


PAGES = {ROOT / "benchmarks" / "README.md": whole}


def with_tables(text: str, tables: str) -> str:
    """A page with the tables in their place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or END not in rest:
        raise ValueError(f"expected a page with {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def write(results: Mapping[str, Any]) -> None:
    """The pages, from the results of a run of full size."""
    for page, tables in PAGES.items():
        write_atomic(page, with_tables(page.read_text("utf-8"), tables(results)))
