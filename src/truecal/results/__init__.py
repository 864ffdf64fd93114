"""evaluate and compare: one function makes an Evaluation from evidence, one a Comparison, with their texts and tables.

The classes of results, for annotations, are loaded from their modules when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

_CLASSES = {
    "AuditReport": "auditing",
    "Baseline": "baselines",
    "Decomposition": "sums.errors",
    "BinTable": "core.table",
    "Clinical": "results.risk_profile",
    "Comparison": "results.comparison",
    "DecisionCurve": "results.decision_curve",
    "Evaluation": "results.evaluation",
    "ConsistencyBands": "inference.bands",
    "CalibrationTest": "inference.calibration_result",
    "Estimate": "inference.estimation",
    "Gap": "inference.gaps",
    "Interval": "inference.intervals",
    "MonitorUpdate": "inference.monitoring",
    "NullBand": "inference.null",
    "PairedDifference": "inference.paired",
    "PredictionMap": "inference.repair",
    "Repair": "inference.repair",
    "Finding": "inference.segments",
    "Segment": "inference.segments",
    "Segments": "inference.segments",
    "Threshold": "inference.thresholds",
}


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module 'truecal.results' has no attribute {name!r}")
    return getattr(importlib.import_module(f"truecal.{_CLASSES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_CLASSES)
