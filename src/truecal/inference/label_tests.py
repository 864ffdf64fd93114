"""Test several labels per row one by one, and join the tests under any dependence of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.properties import Binary
from ..core.sample import Sample
from ..core.types import Groups
from .calibration_result import CalibrationTest, FormDetail
from .null import LABEL_BY_LABEL, POSITIVE
from .omnibus import omnibus_test
from .sign_flips import cluster_test

ROW_SIGNS = "given its prediction, the weighted residual of a row has mean 0: for many rows its sign may be flipped"


def one_view(sample: Sample, j: int) -> Sample:
    """View j of a sample as the probability of one event."""
    outcome = sample.outcome(slice(j, j + 1))[0]
    hard = bool(np.isin(outcome, (0.0, 1.0)).all())
    about: dict[str, Any] = {"marks": outcome == 1} if hard else {"values": outcome}
    if not hard and sample.variance is not None:
        about["variance"] = np.ascontiguousarray(sample.variance[:, j])
    weights: dict[str, Any] = {"weights": sample.weights, "weight_exponent": sample.weight_exponent}
    return Sample(Binary.kind, np.ascontiguousarray(sample.view(j)), **about, **weights, event=True)


def label_test(
    sample: Sample,
    draws: Callable[[Sample], int],
    seed: int,
    names: Sequence[str],
    level: float = 0.95,
    clusters: Groups | None = None,
    noun: str = "label",
) -> tuple[CalibrationTest, list[float]]:
    """Test each label, and return the tests joined by Holm's method with the corrected p-value of each.

    The labels of a row depend on each other in unknown ways, so nothing can be drawn for all of them together; each
    label alone is drawn from its predictions, and Holm's method is valid under any dependence. Weighted outcomes cannot
    be drawn: the signs of their residuals are flipped row by row.
    """
    tests, drawn = [], LABEL_BY_LABEL if sample.variance is None else POSITIVE
    for j in range(sample.views):
        view = one_view(sample, j)
        if clusters is None and view.marks is not None:
            tests.append(omnibus_test(view, draws(view), seed, level=level))
            continue
        own = (np.arange(view.rows), view.rows) if clusters is None else clusters
        tests.append(cluster_test(view, own, draws(view), seed, level))
        drawn = ROW_SIGNS if clusters is None and tests[j].n_resamples else tests[j].null
    raw = [test.pvalue for test in tests]
    corrected, worst = holm(raw), int(np.argmin(raw))
    joined = replace(
        tests[worst],
        pvalue=corrected[worst],
        strongest=f"{names[worst]}: {tests[worst].strongest}",
        reason=f"{names[worst]}: {tests[worst].reason}",
        low_gap=tests[worst].low_gap / float(np.sqrt(sample.views)),
        null=drawn,
        details=tuple(FormDetail(name, test.pvalue, low=test.low_gap) for name, test in zip(names, tests, strict=True)),
        name=f"each of {sample.views} {noun}{'s' * (sample.views > 1)}",
        looks=sample.views,
    )
    return joined, corrected


def holm(pvalues: Sequence[float]) -> list[float]:
    """P-values corrected by Holm's step-down method.

    >>> from truecal.inference.label_tests import holm
    >>> holm([.01, .5, .02])
    [0.03, 0.5, 0.04]
    """
    order, largest, out = np.argsort(pvalues, kind="stable"), 0.0, [0.0] * len(pvalues)
    for i, j in enumerate(order.tolist()):
        largest = max(largest, min(1.0, (len(pvalues) - i) * pvalues[j]))
        out[j] = largest
    return out
