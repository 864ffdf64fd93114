"""truecal: calibration errors that cannot be gamed.

Metrics take labels first, then probabilities: `classwise_error(y_true, y_proba)`. `ERRORS` lists every error with
whether it is truthful and why; `decompose` splits one into how good the predictor is and how far from calibrated.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from typing import Any

__version__ = "0.1.0"


def _homes() -> dict[str, str]:
    """The module of each public name, as `__init__.pyi` lists them; nothing is imported before it is used."""
    stub = pkgutil.get_data(__name__, "__init__.pyi") or b""
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {name.name: f".{node.module}" for node in imports for name in node.names}


_HOMES = _homes()
__all__ = sorted(_HOMES)  # the stub spells them


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'truecal' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
