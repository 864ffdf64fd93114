"""pass_rate: how often answers pass, from a judge's verdicts on all rows and people's labels on some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.data import check_reports, shown
from ..core.parameters import described
from ..core.result import Result
from ..core.types import Array
from ..inference.checks import check_level
from ..inference.estimation import ASSUMPTION, Quantity, estimate
from ..inference.gaps import Gap, gap, gap_text
from ..kinds.answers import read_mark


@final
@dataclass(frozen=True, repr=False, eq=False)
class PassRate(Result):
    """The pass rate by people's standard, with an interval; `naive` is the rate by the judge alone.

    `agreement` is the share of labelled rows on which judge and people agree, and `kappa` Cohen's: agreement beyond
    chance. `gap` is how far the judge's probabilities are from people's labels; None for verdicts of 0 and 1.
    """

    rate: float
    low: float
    high: float
    naive: float
    labelled: float
    labelled_low: float
    labelled_high: float
    agreement: float
    kappa: float
    gap: Gap | None
    n_labelled: int
    n_new: int
    level: float
    warning: str = ""
    assumption: str = ASSUMPTION

    def __repr__(self) -> str:
        lines = [
            f"pass rate {self.rate:.1%} [{self.low:.1%}, {self.high:.1%}] "
            f"({self.n_labelled} rows labelled by people, {self.n_new} by the judge alone, {self.level:.0%} interval)",
            f"  judge alone {self.naive:.1%}, labelled rows alone {self.labelled:.1%} "
            f"[{self.labelled_low:.1%}, {self.labelled_high:.1%}]",
            f"  judge and people agree on {self.agreement:.1%} of the labelled rows (Cohen's kappa {self.kappa:.2f})",
        ]
        if self.gap is not None:
            lines.append(f"  gap of the judge's probabilities {gap_text(self.gap)}")
        lines.append(f"  {self.assumption}")
        return "\n".join([*lines, *([f"  warning: {self.warning}"] if self.warning else [])])


@described(
    "A PassRate.",
    judge="The judge's verdict on every row: 0 or 1, true or false, or its probability of a pass.",
    human="People's verdicts, true or false, None where a row has none.",
    questions="The cluster of each row, such as its question, where rows are not independent.",
)
def pass_rate(judge: Any, human: Any, *, questions: Any = None, level: float = 0.95) -> PassRate:
    """The pass rate by people's standard, from a judge's verdicts on all rows and people's on some.

    The judge's mean over rows without a label is corrected by how far it was off on the labelled rows
    (prediction-powered, see `tc.estimate`). **Label a random draw of the rows**; the result warns if verdicts differ
    between both parts. Agreement says how good the judge is, and does not say how far the pass rate is off.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> good = rng.random(3000) < .6
    >>> judge = np.where(rng.random(3000) < .85, good, True)             # a lenient judge
    >>> human = [bool(g) if i < 200 else None for i, g in enumerate(good)]
    >>> found = tc.language.pass_rate(judge, human)
    >>> found.low < .6 < found.high < found.naive
    True
    """
    level = check_level(level)
    marks = list(human.tolist() if hasattr(human, "tolist") else human)
    verdicts = check_reports(np.asarray(_numbers(judge)), "judge")
    if len(marks) != len(verdicts):
        raise ValueError(
            f"human has {len(marks)} entries and judge {len(verdicts)}: expected one each, None if unknown"
        )
    known = np.array([not _unknown(mark) for mark in marks])
    if known.all():
        raise ValueError("human has a verdict for every row: take their mean")
    read = [read_mark(mark) for mark, here in zip(marks, known, strict=True) if here]
    if None in read:
        row = int(np.flatnonzero(known)[read.index(None)])
        raise ValueError(f"human must be true, false or None, got {shown(marks[row])} at row {row}")
    y = np.array(read, dtype=bool)
    labelled, new = verdicts[known], verdicts[~known]
    groups = None if questions is None else np.asarray(questions)[known]
    found = estimate(y, labelled, new, groups=groups, level=level)
    rate: Quantity = found["positive rate"]
    both = labelled >= 0.5
    hard = bool(np.isin(verdicts, (0.0, 1.0)).all())
    return PassRate(
        rate=rate.value,
        low=rate.low,
        high=rate.high,
        naive=float(verdicts.mean()),
        labelled=rate.labelled,
        labelled_low=rate.labelled_low,
        labelled_high=rate.labelled_high,
        agreement=float((both == y).mean()),
        kappa=_kappa(both, y),
        gap=None if hard else gap(y, labelled, error="binary", level=level, groups=groups),
        n_labelled=len(y),
        n_new=len(new),
        level=level,
        warning=found.warning,
    )


def _numbers(judge: Any) -> list[float]:
    rows = judge.tolist() if hasattr(judge, "tolist") else list(judge)
    out = []
    for row, value in enumerate(rows):
        mark = read_mark(value) if isinstance(value, (str, bool)) else value
        if mark is None or isinstance(mark, str):
            raise ValueError(f"judge must be true, false or a probability, got {shown(value)} at row {row}")
        out.append(float(mark))
    return out


def _unknown(mark: Any) -> bool:
    return mark is None or (isinstance(mark, float) and np.isnan(mark))


def _kappa(a: Array, b: Array) -> float:
    """Cohen's kappa; NaN where both always say the same."""
    agree, chance = float((a == b).mean()), float(a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean()))
    return (agree - chance) / (1 - chance) if chance < 1 else float("nan")
