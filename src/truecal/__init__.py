"""truecal: calibration errors that cannot be gamed.

Metrics take labels first, then probabilities: `classwise_error(y_true, y_proba)`. `ERRORS` lists every error with
whether it is truthful and why; `decompose` splits one into how good the predictor is and how far from calibrated.
"""

from __future__ import annotations

# Nothing is imported before a name is asked for, not even from the standard library: the command line begins here, and
# answers Ctrl-C in its own words only from then on.

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.2.0"


_MODULES = (
    *("analysis", "forecasts", "io", "language", "losses", "plots"),
    *("properties", "recalibration", "results", "rules", "sql", "tokens"),
)
"""Public modules that are loaded when they are asked for: tc.plots.reliability(y, p)."""
_NAMES = {
    "adapters.sklearn.scorers": "scorer SCORERS",
    "auditing": "audit",
    "baselines": "ece ERRORS",
    "core.averages": "Poisson TwoBin",
    "core.losses": "brier classification_error cross_entropy LOSSES",
    "core.properties": "Binary Classwise Confidence Full Linear TopLabel",
    "core.rules": "Edges EqualWidth Quantile",
    "core.table": "BinTable",
    "inference.calibration": "calibration_test",
    "inference.estimation": "estimate",
    "inference.gaps": "gap",
    "inference.intervals": "confidence_interval",
    "inference.monitoring": "Monitor monitor",
    "inference.paired": "paired_difference",
    "inference.planning": "rows_needed",
    "inference.repair": "load_map",
    "inference.segments": "segments",
    "inference.thresholds": "threshold",
    "kinds": "TopPredictions",
    "kinds.functions": "binary_error classwise_error confidence_error distribution_error full_error "
    "labelwise_error linear_error ordinal_error score top_label_error",
    "kinds.named_errors": "decompose",
    "recalibration": "BetaScaling calibrate PlattScaling select_recalibration TemperatureScaling VennAbers",
    "results.compare": "compare",
    "results.comparison": "Comparison",
    "results.decision_curve": "decision_curve",
    "results.evaluate": "evaluate",
    "results.evaluation": "Evaluation",
    "results.risk_profile": "clinical",
    "results.sampled_answers": "from_samples",
    "scale.stream": "Stream stream",
    "sums.errors": "CalibrationError",
}
"""The public names of each module, which is loaded when one is asked for; `__init__.pyi` tells type checkers."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)  # of the table above


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'truecal' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_MODULES, "__version__"])
