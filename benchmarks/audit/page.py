"""From the stored results to docs/audit.md and the column "audit" of docs/measures.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from truecal.baselines.table import markdown
from truecal.io import write_atomic

from .words import INTRO, LEFT_OUT, LIBRARIES

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
Result = dict[str, Any]

HEAD = (
    "| metric | computes | verdict | smallest world | truth | lie | gain | also pays | checks that failed |\n"
    "| --- | --- | --- | --- | ---: | ---: | ---: | --- | --- |"
)


def results_of(library: str) -> Path:
    return HERE / f"{library}.json"


def stored() -> dict[str, Result]:
    """What was found, by library."""
    return {name: json.loads(results_of(name).read_text("utf-8")) for name in LIBRARIES if results_of(name).exists()}


def write() -> None:
    """Both pages, from the stored results."""
    found = stored()
    write_atomic(DOCS / "audit.md", audit_page(found))
    measures = DOCS / "measures.md"
    write_atomic(measures, with_verdicts(measures.read_text("utf-8"), found["truecal"]))


# -- docs/audit.md -----------------------------------------------------------------------------------------------------


def audit_page(found: Mapping[str, Result]) -> str:
    """The whole page."""
    ours = found["truecal"]
    peers = [(name, row) for name, result in found.items() if name != "truecal" for row in result["metrics"]]
    judged = [(name, row) for name, row in peers if "audit" in row]
    free = [f"{name} `{row['name']}`" for name, row in judged if row["audit"]["verdict"] != "gamed"]
    numbers = {"audited": len(judged), "gamed": len(judged) - len(free), "rest": len(free), "names": ", ".join(free)}
    about = {key: ours[key] for key in ("date", "truecal", "python")}
    parts = [INTRO.format(**numbers, **about)]
    for name, result in found.items():
        parts += [f"## {name} {result['version']}", LIBRARIES[name], _with(result), _table(result["metrics"])]
        parts += list(_scripts(result["metrics"]))
    versions = {name.replace("-", "_"): result["version"] for name, result in found.items()}
    return "\n\n".join([part.strip() for part in [*parts, LEFT_OUT.format(**versions)]]) + "\n"


def _with(result: Result) -> str:
    others = ", ".join(f"{name} {version}" for name, version in result["with"].items() if version)
    return f"Seen with {others}, on {result['date']}."


def _table(rows: Sequence[Result]) -> str:
    return "\n".join([HEAD, *(f"| {' | '.join(map(_cell, _cells(row)))} |" for row in rows)])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").split())


def _cells(row: Result) -> list[str]:
    name = f"`{row['name']}`"
    if "audit" not in row:
        return [name, row["what"], "no verdict", row["problem"], "", "", "", "", ""]
    audit, proof = row["audit"], row["audit"]["proof"]
    checks = "; ".join(f"`{c['name']}`: {c['detail']}" for c in failed(audit))
    if proof is None:
        _, _, where = audit["summary"].partition(" on a grid ")
        where = where.removeprefix("(").replace("): ", ": ") if where else audit["summary"].partition(": ")[2]
        notes = [note.partition(":")[0] for note in audit["notes"] if note.startswith("the time limit")]
        return [name, row["what"], audit["verdict"], "; ".join([where, *notes]), "", "", "", "", checks]
    pays = ", ".join(f["name"] for f in audit["findings"] if f["name"] != proof["kind"])
    rounding = proof["bound"] if proof["exact"] else 0.0
    numbers = [_number(proof[key], rounding) for key in ("expected_truth", "expected_lie", "gain")]
    world = f"{_world(proof)} ({proof['kind']}){'' if proof['exact'] else '; outcomes drawn, not listed'}"
    return [name, row["what"], f"**{audit['verdict']}**", world, *numbers, pays, checks]


def failed(audit: Result) -> list[Result]:
    """The checks that failed, but for the search itself."""
    return [check for check in audit["checks"] if not check["passed"] and check["name"] != "no_gain"]


def _number(value: float, bound: float) -> str:
    return "0" if abs(value) <= bound else f"{value:.4g}"


def _world(proof: Result) -> str:
    """Rows as chances → predictions; equal ones once, and a few of many."""
    kinds = Counter((_chances(w), _chances(u)) for w, u in zip(proof["world"], proof["lie"], strict=True))
    shown = [
        f"{f'{count} × ' if count > 1 else ''}{world}{' as they are' if world == lie else f' → {lie}'}"
        for (world, lie), count in sorted(kinds.items(), key=lambda item: item[0][0] == item[0][1])[:6]
    ]
    more = [f"and {len(kinds) - 6} more kinds of row"] if len(kinds) > 6 else []
    return ", ".join(shown + more)


def _chances(row: Sequence[float]) -> str:
    return f"({', '.join(f'{p:.4g}' if abs(p - float(f'{p:.4g}')) < 1e-9 else f'{p:.7g}' for p in row)})"


def _scripts(rows: Sequence[Result]) -> Iterator[str]:
    """For every metric its scripts and what they print, folded."""
    for row in rows:
        printed = [
            f"```python\n{row[kind]}\n```\n\nprints\n\n```\n{row[output]}\n```"
            for kind, output in (("script", "output"), ("checks_script", "checks_output"))
            if kind in row
        ]
        if printed:
            title = row["name"].replace("&", "&amp;").replace("<", "&lt;")
            yield "\n\n".join(
                [f"<details><summary>Check <code>{title}</code> yourself</summary>", *printed, "</details>"]
            )


# -- docs/measures.md --------------------------------------------------------------------------------------------------


def verdicts(ours: Result) -> dict[str, str]:
    """What the audit says of every member of ERRORS, in a few words."""
    return {row["name"]: _verdict(row) for row in ours["metrics"]}


def _verdict(row: Result) -> str:
    if "audit" not in row:
        return "no verdict: infinite with some chance in every small world"
    proof = row["audit"]["proof"]
    if proof is None:
        return str(row["audit"]["verdict"])
    n = len(proof["world"])
    return f"gamed: {proof['gain']:.2g} with {n} row{'s' * (n > 1)}"


def with_verdicts(text: str, ours: Result) -> str:
    """The page of measures with its table made anew."""
    return re.sub(r"^\| name \|.*(?:\n\|.*)*", lambda _: markdown(verdicts(ours)), text, count=1, flags=re.MULTILINE)
