"""Optional libraries: imported when they are needed, with the command that installs them when they are missing."""

from __future__ import annotations

import importlib
from typing import Any

_DISTRIBUTIONS = {
    "ibis": "ibis-framework",
    "sklearn": "scikit-learn",
    "vl_convert": "vl-convert-python",
}  # where pip knows another name


def require(module: str, extra: str) -> Any:
    """Import an optional module; raise an error that names the extra if it is missing.

    A module that is installed but broken raises its original error: installing it again would not help.

    >>> from truecal.core.extras import require
    >>> require("numpy.linalg", "all").__name__
    'numpy.linalg'
    >>> require("no_such_library", "plots")
    Traceback (most recent call last):
    ImportError: this needs no_such_library: run pip install "truecal[plots]"
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        name = _DISTRIBUTIONS.get(missing, missing)
        raise ImportError(f'this needs {name}: run pip install "truecal[{extra}]"', name=missing) from error
