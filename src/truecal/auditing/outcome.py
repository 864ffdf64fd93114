"""AuditReport: the verdict on a metric, its proof, scripts that check the proof, and the page of all this."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, final

from numpy.typing import NDArray

import truecal
from truecal.core.result import Result, html_text, table_html

from .expectations import Proof, Reproduction
from .lasting import ROWS, Lasting
from .metric import CallForm, label_sets, members
from .search import Certificate, Rewarded, Searched

Verdict = Literal["gamed", "certified", "no gain found", "no verdict"]
_JSON = (str, int, float, bool, type(None))


@final
@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(Result):
    """The result of an audit: `verdict` is "gamed", "certified", "no gain found" or "no verdict", and never "truthful".

    gamed: `proof` holds a small world, a lie and the gain, and `lasting` truth, lie and gain at 300 rows. certified:
    for every world and every prediction on the grids of `certificates` no lie gains; beyond them as far as `searched`
    says. no gain found: as far as `searched` says, which gives for every part the smallest gain that would have been
    seen. no verdict: `reason` says why.
    """

    metric: str
    options: dict[str, Any]
    verdict: Verdict
    reason: str
    """Why there is no verdict."""
    lasting: Lasting | None
    """Truth and the best lie at 300 rows, of a metric that is gamed."""
    proof: Proof | None
    findings: tuple[Rewarded, ...]
    certificates: tuple[Certificate, ...]
    searched: tuple[Searched, ...]
    forms: dict[int, CallForm]
    """How the metric was called, by number of classes."""
    unseen: tuple[int, ...]
    """Numbers of classes that were asked for and not looked at."""
    notes: tuple[str, ...]
    calls: int
    seed: int

    @property
    def passed(self) -> bool:
        """Whether there is a verdict and no lie gains."""
        return self.verdict in ("certified", "no gain found")

    @property
    def summary(self) -> str:
        """The verdict in one sentence; of a metric that is gamed, first what a lie gains at 300 rows."""
        return f"{self._verdict}{self._not_looked_at}"

    @property
    def _verdict(self) -> str:
        if self.proof is not None:
            rows, outcomes = self.proof.rows, len(self.proof.outcomes)
            how = "its one outcome" if outcomes == 1 else f"all {outcomes} outcomes listed"
            size = f"{rows} row{'s' * (rows > 1)}, {self.proof.classes} classes"
            small = f"a lie gains {self.proof.gain:.4g} on average ({size}, {how})"
            return f"gamed: {small}" if self.lasting is None else f"gamed: {lasting_text(self.lasting)}; {small}"
        if self.verdict == "certified":
            grids = "; ".join(map(str, self.certificates))
            above = max(certificate.resolution for certificate in self.certificates)
            return f"certified on a grid ({grids}): no lie on it gains{f' above {above:.1g}' if above else ''}"
        if self.verdict == "no verdict":
            return f"no verdict: {self.reason}"
        tried = sum(part.worlds for part in self.searched)
        return f"no gain found: nothing above {self.resolution:.1g} in {tried:,} worlds that were tried"

    @property
    def _not_looked_at(self) -> str:
        return f"; not tested: {' and '.join(map(str, self.unseen))} classes" if self.unseen else ""

    @property
    def resolution(self) -> float:
        """The smallest gain that every part of the search would have seen."""
        return max((part.resolution for part in self.searched if part.worlds), default=float("nan"))

    def reproduce(self) -> Reproduction:
        """The arrays of the proof: the world, the lie, every outcome and its chance, as the metric takes them.

        >>> import truecal as tc
        >>> metric = tc.ERRORS["binary_l1"]
        >>> report = tc.audit(metric, budget=1000)
        >>> world, lie, outcomes, chances = report.reproduce()
        >>> truth = sum(chance * metric(y, world) for y, chance in zip(outcomes, chances))
        >>> lying = sum(chance * metric(y, lie) for y, chance in zip(outcomes, chances))
        >>> bool(lying < truth), round(float(truth - lying - report.proof.gain), 12)
        (True, 0.0)
        """
        proof = self._proof
        form = self.forms[proof.classes]
        world, lie = (form.predictions(rows) for rows in (proof.world, proof.lie))
        return Reproduction(world, lie, form.labels(proof.outcomes, world), proof.chances)

    def snippet(self, *, lasting: bool = False) -> str:
        """A script that checks the proof with numpy and the metric alone; or the numbers at 300 rows.

        >>> import truecal as tc
        >>> print(tc.audit(tc.confidence_error, metric_options={"norm": "l1"}, classes=2, budget=1000).snippet())
        import itertools
        import numpy as np
        from truecal.kinds.functions import confidence_error as metric
        world = np.array([[0.7, 0.3]])
        lie = np.array([[1.0, 0.0]])
        def expected(p):
            total = 0.0
            for y in itertools.product(*(np.flatnonzero(row) for row in world)):
                chance = np.prod(world[np.arange(len(world)), y])
                total += chance * float(metric(np.array(y), p, norm='l1'))
            return total
        print("truth", expected(world), "lie", expected(lie))
        """
        return lasting_snippet(self) if lasting else snippet(self)

    @property
    def _proof(self) -> Proof:
        if self.proof is None:
            raise ValueError(f"there is no counterexample to reproduce: {self.summary}")
        return self.proof

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; options that are none are shown as text, and outcomes follow from the world."""
        options = {name: value if isinstance(value, _JSON) else repr(value) for name, value in self.options.items()}
        return {**super().to_dict(), "options": options, "summary": self.summary}

    def to_html(self) -> str:
        """A self-contained page, which loads nothing."""
        return page(self)

    def _repr_html_(self) -> str:
        return body(self)

    def __repr__(self) -> str:
        lines = [f"audit of {self.metric}", f"  {self.summary}"]
        if self.lasting is not None:
            lines.append(f"  {lasting_line(self.lasting)}")
        if self.proof is not None:
            lines += [f"  {line}" for line in proof_lines(self.proof)]
        lines += [f"  {finding.text} (up to {finding.gain:.3g})" for finding in self.findings]
        lines += [f"  note: {note}" for note in self.notes]
        lines.append(f"  {self.calls:,} calls, seed {self.seed}; {called(self)}")
        return "\n".join(lines)


def called(report: AuditReport) -> str:
    """How the metric was called, in words."""
    form = next(iter(report.forms.values()))
    words = [f"{form.array} arrays, {'labels first' if form.convention == 'y_true_first' else 'predictions first'}"]
    if 2 in report.forms:
        column = report.forms[2].binary == "column"
        words.append(f"two classes as {'the second column' if column else 'a matrix'}")
    return ", ".join([*words, *(["logits"] if form.input == "logits" else [])])


def lasting_text(lasting: Lasting) -> str:
    """Truth and lie at 300 rows, in a few words."""
    if not lasting.survives:
        return f"no lie that was tried gains significantly at {ROWS} rows"
    return f"at {ROWS} rows the truth has {lasting.expected_truth:.3g} and a lie {lasting.expected_lie:.3g}"


def lasting_line(lasting: Lasting) -> str:
    """Truth, lie and gain at 300 rows."""
    values = f"the truth has {lasting.expected_truth:.4g}, the best lie ({lasting.kind}) {lasting.expected_lie:.4g}"
    return f"{ROWS} rows, {lasting.classes} classes: {values}; gain {lasting.gain:.2g} ± {lasting.error:.1g}"


def proof_lines(proof: Proof) -> list[str]:
    """World and lie row by row, equal rows once, and the two expected values."""
    rows = list(zip(map(_row, proof.world), map(_row, proof.lie), strict=True))
    times: dict[tuple[str, str], int] = {}
    for pair in rows:
        times[pair] = times.get(pair, 0) + 1
    lines = []
    for (world, lie), count in list(times.items())[:12]:
        told = "told truthfully" if world == lie else f"predicted as {lie}"
        lines.append(f"{count} row{'s' * (count > 1)} with chances {world}, {told}")
    if len(times) > 12:
        lines.append(f"and {len(times) - 12} more kinds of row")
    truth, lie = (_value(value, proof.bound) for value in (proof.expected_truth, proof.expected_lie))
    margin = f" (rounding explains at most {proof.bound:.1g})" if proof.bound else ""
    return [*lines, f"expected value {truth} for the truth, {lie} for the lie{margin}"]


def _value(value: float, bound: float) -> str:
    return "0" if abs(value) <= bound else f"{value:.6g}"


def _row(values: NDArray[Any]) -> str:
    return f"({', '.join(_short(float(value)) for value in values)})"


def _short(value: float) -> str:
    """As few digits as tell a value from its neighbours in a proof."""
    return f"{value:.4g}" if abs(value - float(f"{value:.4g}")) < 1e-9 else f"{value:.7g}"


# -- the script --------------------------------------------------------------------------------------------------------

_LISTED = """def expected(p):
    total = 0.0
    for y in itertools.product(*(np.flatnonzero(row) for row in world)):
        chance = np.prod(world[np.arange(len(world)), y])
        total += chance * float({call})
    return total"""


def snippet(report: AuditReport) -> str:
    """The script of a proof."""
    proof = report._proof
    rows = [f"{name} = np.array({rows.tolist()!r})" for name, rows in (("world", proof.world), ("lie", proof.lie))]
    return "import itertools\n" + _script(report, proof.classes, rows, _LISTED)


_AT_SCALE = """def expected(p, draws={draws}):
    uniform = np.random.default_rng(2).random((draws, len(world), 1))
    total = 0.0
    for y in (uniform >= world.cumsum(axis=1)[:, :-1]).sum(axis=2):
        total += float({call}) / draws
    return total"""


def lasting_snippet(report: AuditReport) -> str:
    """The script of the numbers at 300 rows."""
    lasting = report.lasting
    if lasting is None:
        raise ValueError(f"there are no numbers at {ROWS} rows to reproduce: {report.summary}")
    return _script(report, lasting.classes, [lasting.code], _AT_SCALE.replace("{draws}", str(lasting.draws)))


def _script(report: AuditReport, classes: int, rows: list[str], expected: str) -> str:
    """Imports, labels, `rows` that make world and lie, the function `expected`, and both expected values."""
    form = report.forms[classes]
    lines = ["import numpy as np", *(["import torch"] if form.array == "torch" else []), _import(report.metric)]
    if form.outcomes == "labels":  # the labels in each class of the world
        lines.append(f"labels = np.array({label_sets(classes).tolist()})")
    lines += [*rows, expected.format(call=_call(form, report.options))]
    return "\n".join([*lines, 'print("truth", expected(world), "lie", expected(lie))'])


def _import(name: str) -> str:
    for of, known in members().items():
        if name in known:
            return f"from truecal import {of}\nmetric = {of}[{name!r}]"
    module, _, attribute = name.partition(":")
    if re.fullmatch(r"[\w.]+", module) and attribute.isidentifier() and module != "__main__":
        return f"from {module} import {attribute} as metric"
    return f"metric = ...  # {' '.join(name.split())}"


def _call(form: CallForm, options: dict[str, Any]) -> str:
    column = form.binary == "column"
    predictions = "p[:, 1]" if column else "p"
    if form.input == "logits":
        predictions = "np.log(p[:, 1] / p[:, 0])" if column else "np.log(p)"
    y = "np.array(y)"
    if form.outcomes == "labels":
        y = "labels[np.array(y)]"
        predictions = "np.log(p @ labels / (1 - p @ labels))" if form.input == "logits" else "p @ labels"
    if form.outcomes == "numbers":
        y, predictions = "np.array(y, dtype=float)", "p.cumsum(axis=1)[:, :-1]"
    if form.array == "torch":
        y, predictions = f"torch.tensor({y})", f"torch.tensor({predictions})"
    pair = [y, predictions] if form.convention == "y_true_first" else [predictions, y]
    return f"metric({', '.join([*pair, *(f'{name}={value!r}' for name, value in options.items())])})"


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse } tbody tr { border-top: 1px solid #e4e4e4 }
th, td { text-align: left; padding: .3rem 1rem .3rem 0; vertical-align: top } td:first-child { min-width: 9rem }
pre { background: #f4f4f4; padding: 1rem; font-size: .9rem } ul { padding-left: 1.2rem }
p, li { overflow-wrap: anywhere } .meaning { color: #555 }
.verdict { font-size: 1.2rem; border-left: .3rem solid #999; padding-left: .8rem }
.gamed { border-color: #b3261e } .certified { border-color: #1b7f3b }
@media (max-width: 40rem) { body { margin: 1rem auto; font-size: 15px } th, td { padding-right: .7rem } }
"""
_MEANING = {
    "gamed": "A forecaster who knows the true probabilities scores better, on average, by predicting something else. "
    "The metric may still describe a sample well; it should not decide which model is best.",
    "certified": "For every world and every prediction on the grids named above, predicting the truth is best; beyond "
    "them nothing that was tried gained.",
    "no gain found": "Nothing that was tried gained more than the number above. That proves nothing about what was not "
    "tried.",
    "no verdict": "The metric could not be judged: see the reason above.",
}


def page(report: AuditReport) -> str:
    """The whole page."""
    title = html_text(f"Audit of {report.metric}")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>{body(report)}"
        f"<p>truecal {html_text(truecal.__version__)}</p></body></html>\n"
    )


def body(report: AuditReport) -> str:
    """Verdict, proof, findings, and what was searched."""
    kind = report.verdict.split()[0]
    title = f'<h1 style="overflow-wrap: anywhere">Audit of {html_text(report.metric)}</h1>'
    parts = [title, f'<p class="verdict {kind}">{html_text(report.summary)}</p>']
    parts.append(f'<p class="meaning">{_MEANING[report.verdict]}</p>')
    if report.options:
        parts.append(f"<p>Options: {html_text(', '.join(f'{n}={v!r}' for n, v in report.options.items()))}</p>")
    if report.lasting is not None:
        script = f'<pre style="overflow-x: auto">{_code(report.snippet(lasting=True))}</pre>'
        parts += ["<h2>At 300 rows</h2>", _list([lasting_line(report.lasting)]), script]
    if report.proof is not None:
        script = f'<pre style="overflow-x: auto">{_code(report.snippet())}</pre>'
        parts += ["<h2>The smallest proof</h2>", _list(proof_lines(report.proof)), script]
    if report.findings:
        rows = [(finding.text, f"{finding.gain:.4g}") for finding in report.findings]
        parts += ["<h2>What pays</h2>", table_html(rows, ("finding", "largest gain"))]
    searched = [
        (where, str(rows), str(classes), f"{worlds:,}", f"{predictions:,}", f"{resolution:.1g}")
        for (where, rows, classes), (worlds, predictions, resolution) in _together(report.searched).items()
    ]
    heads = ("searched", "rows", "classes", "worlds", "predictions", "gains above")
    parts += ["<h2>What was searched</h2>", table_html(searched, heads)]
    parts.append(_list([*report.notes, f"{report.calls:,} calls, seed {report.seed}; {called(report)}"]))
    return "\n".join(parts)


def _together(parts: Iterable[Searched]) -> dict[tuple[str, int, int], tuple[int, int, float]]:
    """Parts of a search of one kind and size as one: how many worlds and predictions, and the coarsest resolution."""
    found: dict[tuple[str, int, int], tuple[int, int, float]] = {}
    for part in parts:
        key = (part.where, part.rows, part.classes)
        worlds, predictions, resolution = found.get(key, (0, 0, 0.0))
        found[key] = (worlds + part.worlds, predictions + part.predictions, max(resolution, part.resolution))
    return found


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{html_text(item)}</li>' for item in items)}</ul>"


def _code(text: str) -> str:
    return "\n".join(html_text(line) for line in text.split("\n"))
