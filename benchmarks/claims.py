"""The table of claims in docs/how-sure-are-we.md, from the rates of results/conclusions: nothing is simulated here.

    python -m benchmarks.claims        # write the table again

Every claim names a file, the rows and the column that it is about, and what was asked of it.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .conclusions import FOLDER

PAGE = Path(__file__).parents[1] / "docs" / "how-sure-are-we.md"
START, END = "<!-- claims -->\n", "<!-- end claims -->"
Rows = Mapping[str, str | tuple[str, ...]]


@dataclass(frozen=True)
class Claim:
    """What is said, what was asked, and where the rates are: a column of some rows of a file."""

    said: str
    asked: str
    file: str
    column: str
    rows: Rows = field(default_factory=dict)
    before: tuple[str, Rows] | None = None
    """The column and the rows that have the same of earlier code or of the usual method."""

    def of(self, column: str, rows: Rows) -> list[float]:
        """The rates, one per row that is meant."""
        with open(FOLDER / f"{self.file}.csv", newline="") as file:
            every = list(csv.DictReader(file))
        wanted = {name: (x,) if isinstance(x, str) else x for name, x in rows.items()}
        return [float(row[column]) for row in every if all(row[name] in wanted[name] for name in wanted)]

    @property
    def cells(self) -> list[str]:
        """A row of the table."""
        then = "" if self.before is None else text_of(self.of(*self.before))
        now = text_of(self.of(self.column, self.rows))
        return [self.said, self.asked, then, now, f"[{self.file}](../results/conclusions/{self.file}.csv)"]


def text_of(rates: list[float]) -> str:
    """ "0.945 to 0.990", or one number where all are the same."""
    low, high = f"{min(rates):.3f}", f"{max(rates):.3f}"
    return low if low == high else f"{low} to {high}"


NOW, BEFORE = {"code": "now"}, {"code": "before"}
AGREE, ALONE = {"lower end": "with the test"}, {"lower end": "interval alone"}
CALIBRATED = {"one segment is off by, points": "0.0"}
CLAIMS = (
    Claim("A 95% interval contains the gap", "0.95", "gap-coverage", "interval holds the gap"),
    Claim("The same in a stream", "0.95", "stream-coverage", "interval holds the gap"),
    Claim(
        "The test rejects, and 0 is in the interval",
        "0",
        "agreement",
        "rejected, 0 inside",
        AGREE,
        ("rejected, 0 inside", ALONE),
    ),
    Claim(
        "The test does not reject, and 0 is outside",
        "0",
        "agreement",
        "not rejected, 0 outside",
        AGREE,
        ("not rejected, 0 outside", ALONE),
    ),
    Claim("The lower end is at most the gap", "≥ 0.94", "agreement", "coverage", AGREE, ("coverage", ALONE)),
    Claim("A model 1.8 times over-confident passes `max_gap=3`", "0", "tolerance", "passes", {"world": "T 1.8"}),
    Claim(
        "Calibrated forecasts in time are rejected",
        "≤ 0.08",
        "in-time",
        "rejected",
        {},
        ("rejected, rows as independent", {}),
    ),
    Claim(
        "True quantiles and perfect ensembles are rejected",
        "≤ 0.06",
        "forecasts",
        "perfect",
        {},
        ("perfect, interpolated", {}),
    ),
    Claim("Forecasts of 0.7 of the spread are rejected (300 rows)", "≥ 0.8", "forecasts", "spread × .7", {"n": "300"}),
    Claim(
        "All intervals of segments hold, for sharp predictions",
        "≥ 0.94",
        "segments-sharp",
        "joint coverage",
        NOW,
        ("joint coverage", BEFORE),
    ),
    Claim(
        "Some calibrated segment of clusters is significant",
        "≤ 0.07",
        "segments-of-clusters",
        "some segment is significant",
        NOW | CALIBRATED,
        ("some segment is significant", BEFORE | CALIBRATED),
    ),
    Claim(
        "Recalibration worsens a calibrated model",
        "≤ 0.08",
        "harm",
        "worse, guarded",
        {"world": "T 1"},
        ("worse", {"world": "T 1"}),
    ),
    Claim(
        "The interval of a change contains it",
        "0.9",
        "monitor-change",
        "interval holds the change",
        NOW,
        ("interval holds the change", BEFORE),
    ),
    Claim(
        "A gate breaks its promise (δ = 0.05)",
        "≤ 0.05",
        "gates",
        "promise broken",
        NOW,
        ("promise broken", BEFORE),
    ),
    Claim(
        "One of several equally good models is said to predict better",
        "≤ 0.05",
        "which-predicts-better",
        "one called better",
        {},
        ("one called better, t interval", {}),
    ),
    Claim(
        "One of two models equally far off in 1 to 5 rows is called closer to calibrated",
        "≤ 0.05",
        "few-rows-differ",
        "one is called closer to calibrated",
        NOW | {"rows that differ": ("1", "2", "5")},
    ),
    Claim("A 95% interval contains the raw error", "≥ 0.93", "error-intervals", "coverage", NOW),
    Claim("The test finds a gap with `rows_needed` rows", "≥ 0.8", "rows-needed", "power, .8 wanted", NOW),
    Claim(
        "A level is named for a model that is right on average",
        "≤ 0.05",
        "directions",
        "level named",
        {"world": ("calibrated", "T 1.6", "T 2", "T 3")},
    ),
    Claim("A 95% interval of `tc.estimate` holds", "0.95", "estimates", "interval holds it"),
)


def table() -> str:
    """The claims with their rates, as Markdown."""
    heads = ["what happens", "asked", "before", "now", "rates"]
    lines = [heads, ["---"] * len(heads), *(claim.cells for claim in CLAIMS)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def page(text: str) -> str:
    """The page with the table between its marks."""
    before, _, rest = text.partition(START)
    return before + START + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
