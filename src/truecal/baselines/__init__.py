"""Measures people know by name, with definition, source and whether each can be gamed."""

from __future__ import annotations

from typing import Any

from ..core.errors import COMPOSED
from .baseline import Baseline
from .binned import BINNED, ece
from .classical import CLASSICAL
from .cumulative import CUMULATIVE
from .decisions import DECISIONS
from .kernels import KERNELS
from .smooth import SMOOTH

BASELINES: dict[str, Baseline] = {
    baseline.name: baseline for baseline in (*BINNED, *KERNELS, *SMOOTH, *CUMULATIVE, *DECISIONS, *CLASSICAL)
}
"""The measures that are no composition of a property, a rule and a norm, or are known by another name."""

ERRORS: dict[str, Any] = {**COMPOSED, **BASELINES}
"""Every measure by name, a CalibrationError or a Baseline: each knows its property, whether it is truthful and why.
`evaluate` and `compare` measure the composed ones by themselves, and baselines where they are named."""

__all__ = ["BASELINES", "ERRORS", "Baseline", "ece"]
