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


_HOMES: dict[str, str] = {}
_MODULES = (
    "analysis",
    "forecasts",
    "io",
    "language",
    "losses",
    "plots",
    "properties",
    "recalibration",
    "results",
    "rules",
    "sql",
    "tokens",
)
"""Public modules that are loaded when they are asked for: tc.plots.reliability(y, p)."""
_MOVED = {
    "analysis": (
        "Dominance",
        "MeanGap",
        "Noise",
        "Refinement",
        "consistency_bands",
        "dominance",
        "mean_gap",
        "noise_of_U",
        "null_band",
        "refinement",
        "tabulate",
    ),
    "losses": (
        "confidence_loss",
        "linear_loss",
        "spherical",
    ),
    "properties": ("Outcomes",),
    "recalibration": (
        "CalibratedClassifier",
        "CanonicalRecalibration",
        "DirichletScaling",
        "HistogramBinning",
        "Identity",
        "MatrixScaling",
        "ScalingBinning",
        "Selection",
    ),
    "results": (
        "AuditReport",
        "Baseline",
        "CalibrationTest",
        "ConsistencyBands",
        "Decomposition",
        "Gap",
        "Interval",
        "MonitorUpdate",
        "NullBand",
        "PairedDifference",
    ),
    "rules": (
        "ArgmaxEdges",
        "ArgmaxQuantile",
        "Exact",
        "Halfspaces",
        "KMeans",
        "KdTree",
        "OnGrid",
    ),
}
"""Names that left the top level in 0.3: they warn for one release."""


def _homes() -> dict[str, str]:
    """The module of each public name, as `__init__.pyi` lists them."""
    if not _HOMES:
        import ast
        import pkgutil

        stub = pkgutil.get_data(__name__, "__init__.pyi") or b""
        imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom) and node.module]
        _HOMES.update({name.name: f".{node.module}" for node in imports for name in node.names})
    return _HOMES


def __getattr__(name: str) -> Any:
    if name == "__all__":  # the stub spells them
        return sorted(_homes())
    import importlib

    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    for module, names in _MOVED.items():
        if name in names:
            import warnings

            warnings.warn(f"truecal.{name} is now truecal.{module}.{name}", DeprecationWarning, stacklevel=2)
            return getattr(importlib.import_module(f".{module}", __name__), name)
    if name.startswith("__") or name not in _homes():
        raise AttributeError(f"module 'truecal' has no attribute {name!r}")
    value = getattr(importlib.import_module(_homes()[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes(), *_MODULES})
