"""From the stored results to results/audit, PROOFS.md beside this file and the column "audit" of docs/measures.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.audit.measures_table import markdown
from truecal.auditing.lasting import SURE
from truecal.auditing.worlds import WAYS
from truecal.io import write_atomic

from .words import AFTER, INTRO, KINDS, LEFT_OUT, LIBRARIES, PROOFS_INTRO

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
AUDIT = HERE.parents[1] / "results" / "audit" / "RESULTS.md"
Result = dict[str, Any]

PROOFS = HERE / "PROOFS.md"
SUMMARY = (
    "| library | metrics | gamed | gamed at 300 rows | for example, expected value at 300 rows |\n"
    "| --- | ---: | ---: | ---: | --- |"
)
HEAD = (
    "| metric | computes | verdict | at 300 rows: truth | lie | gain | smallest proof | checks that failed |\n"
    "| --- | --- | --- | ---: | ---: | ---: | --- | --- |"
)


def results_of(library: str) -> Path:
    return HERE / f"{library}.json"


def stored() -> dict[str, Result]:
    """The results, by library."""
    return {name: json.loads(results_of(name).read_text("utf-8")) for name in LIBRARIES if results_of(name).exists()}


def write() -> None:
    """The pages, from the stored results."""
    found = stored()
    write_atomic(AUDIT, audit_page(found))
    write_atomic(PROOFS, proofs_page(found))
    measures = DOCS / "measures.md"
    write_atomic(measures, with_verdicts(measures.read_text("utf-8"), found["truecal"]))


# -- results/audit -----------------------------------------------------------------------------------------------------


def audit_page(found: Mapping[str, Result]) -> str:
    """The page: a line for each library, and one proof of each kind."""
    ours = found["truecal"]
    peers = [(name, row) for name, result in found.items() if name != "truecal" for row in result["metrics"]]
    judged = [(name, row) for name, row in peers if "audit" in row and not row["bug"]]
    free = [f"{name} `{row['name']}`" for name, row in judged if not _gamed(row)]
    gamed = [row for _, row in judged if _gamed(row)]
    numbers = {"audited": len(judged), "gamed": len(gamed), "lasting": sum(map(_survives, gamed))}
    about = {key: ours[key] for key in ("date", "truecal", "python")}
    intro = INTRO.format(**numbers, rest=len(free), names=", ".join(free))
    lines = [f"| {' | '.join(_line(name, result))} |" for name, result in found.items()]
    parts = [intro, "\n".join([SUMMARY, *lines]), AFTER.format(**about), "## One proof of each kind"]
    kinds = _one_of_each(found)
    parts += ["\n".join([KINDS, *(_kind(*first) for first in kinds)]), *_proof(*kinds[0])]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _line(name: str, result: Result) -> list[str]:
    """A library in numbers: metrics, gamed, gamed at 300 rows as well, and an example."""
    judged = [row for row in result["metrics"] if "audit" in row and not row["bug"]]
    gamed = [row for row in judged if _gamed(row)]
    lasting = [row for row in gamed if _survives(row)]
    example = ""
    if lasting:
        first = lasting[0]
        truth, lie, _ = _lasting(first["audit"]["lasting"])
        example = f"`{first['name']}`: truth {truth}, misreport {lie}"
    return [f"{name} {result['version']}", str(len(judged)), str(len(gamed)), str(len(lasting)), _cell(example)]


def _gamed(row: Result) -> bool:
    return bool(row["audit"]["verdict"] == "gamed")


def _survives(row: Result) -> bool:
    """Whether a lie gains at 300 rows as well."""
    lasting = row["audit"]["lasting"]
    return lasting is not None and lasting["gain"] > SURE * lasting["error"]


def _one_of_each(found: Mapping[str, Result]) -> list[tuple[str, Result]]:
    """For each way of lying that gains at 300 rows, the first library and metric under which it does."""
    first: dict[str, tuple[str, Result]] = {}
    for name, result in found.items():
        for row in result["metrics"]:
            if "lasting_script" in row and not row["bug"] and _survives(row):
                first.setdefault(row["audit"]["lasting"]["kind"], (name, row))
    return list(first.values())


def _kind(name: str, row: Result) -> str:
    """One line: the misreport, what rewards it, and both expected values."""
    lasting = row["audit"]["lasting"]
    truth, lie, _ = _lasting(lasting)
    cells = (lasting["kind"], WAYS[lasting["kind"]], f"{name} `{row['name']}`", truth, lie)
    return f"| {' | '.join(map(_cell, cells))} |"


def _proof(name: str, row: Result) -> Iterator[str]:
    """The script of one metric, and what it prints."""
    yield f"### {row['audit']['lasting']['kind']}: {name} `{row['name']}`"
    yield _printed(row, "lasting_script", "lasting_output")


def proofs_page(found: Mapping[str, Result]) -> str:
    """The table of each library, and every script of every metric with what it printed."""
    parts = [PROOFS_INTRO]
    for name, result in found.items():
        parts += [f"## {name} {result['version']}", LIBRARIES[name], _with(result), _table(result["metrics"])]
        parts += _scripts(result["metrics"])
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
        return [name, row["what"], "not shown", "", "", "", row["problem"], ""]
    audit, proof = row["audit"], row["audit"]["proof"]
    checks = ", ".join(f"`{c['name']}`" for c in failed(audit))
    notes = [note.partition(":")[0] for note in audit["notes"] if note.startswith("the time limit")]
    if proof is None:
        where = re.sub(r"^(certified on a grid|no gain found:|no verdict:) ", "", audit["summary"])
        return [name, row["what"], audit["verdict"], "", "", "", "; ".join([where, *notes]), checks]
    verdict = f"**{audit['verdict']}**" if not row["bug"] else f"**a bug of this function**: {row['bug']}"
    if audit["unseen"]:
        verdict += f" ({' and '.join(map(str, audit['unseen']))} classes not tested)"
    world = f"{_world(proof)} ({proof['kind']}): {_numbers(proof)}{'' if proof['exact'] else '; outcomes drawn'}"
    return [name, row["what"], verdict, *_lasting(audit["lasting"]), "; ".join([world, *notes]), checks]


def _lasting(lasting: Result | None) -> list[str]:
    """Truth, lie and gain at 300 rows."""
    if lasting is None:
        return ["", "", "not tried"]
    truth, lie = (_number(lasting[key], 0) for key in ("expected_truth", "expected_lie"))
    gain = f"{lasting['gain']:.2g} ± {lasting['error']:.1g}"
    return [
        truth,
        f"{lie} ({lasting['kind']})",
        gain if lasting["gain"] > SURE * lasting["error"] else f"not beyond noise ({gain})",
    ]


def _numbers(proof: Result) -> str:
    rounding = proof["bound"]
    truth, lie = (_number(proof[key], rounding) for key in ("expected_truth", "expected_lie"))
    return f"{truth} → {lie}"


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


def _printed(row: Result, script: str, output: str) -> str:
    return f"```python\n{row[script]}\n```\n\nprints\n\n```\n{row[output]}\n```"


def _scripts(rows: Sequence[Result]) -> Iterator[str]:
    """For every metric its scripts and what they print."""
    for row in rows:
        kinds = {"At 300 rows:": "lasting_", "The smallest proof:": "", "The checks that failed:": "checks_"}
        printed = [
            f"{title}\n\n{_printed(row, f'{kind}script', f'{kind}output')}"
            for title, kind in kinds.items()
            if f"{kind}script" in row
        ]
        if printed:
            details = "; ".join(f"`{c['name']}`: {c['detail']}" for c in failed(row["audit"]))
            yield "\n\n".join([f"### `{row['name']}`", *printed, *([details] if details else [])])


# -- docs/measures.md --------------------------------------------------------------------------------------------------


def verdicts(ours: Result) -> dict[str, str]:
    """What the audit says of every member of ERRORS, in a few words."""
    return {row["name"]: _verdict(row) for row in ours["metrics"]}


def _verdict(row: Result) -> str:
    if "audit" not in row:
        return "not shown"
    proof = row["audit"]["proof"]
    if proof is None:
        return str(row["audit"]["verdict"])
    n = len(proof["world"])
    gain, rows = (row["audit"]["lasting"]["gain"], 300) if _survives(row) else (proof["gain"], n)
    return f"{gain:.2g} ({rows})"


def with_verdicts(text: str, ours: Result) -> str:
    """The page of measures with its table replaced."""
    return re.sub(r"^\| name \|.*(?:\n\|.*)*", lambda _: markdown(verdicts(ours)), text, count=1, flags=re.MULTILINE)
