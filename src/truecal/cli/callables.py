"""A metric by its name on the command line: a member of ERRORS or LOSSES, or module:callable."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from truecal.io.failures import one_line, quote


def find_metric(spec: str, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The callable that `spec` names, and the options that are left for its calls.

    A class is made with the options, and its instance, or the method that is named after it, is called without them:
    `package.module:Metric` and `package.module:Metric.measure` both work.
    """
    from truecal.auditing.metric import members

    module, colon, path = spec.partition(":")
    if not colon:
        known = {name: member for group in members().values() for name, member in group.items()}
        if spec not in known:
            raise ValueError(f"expected module:callable, or one of {', '.join(known)}; got {quote(spec)}")
        return known[spec], options
    found: Any = _module(module)
    for step in path.split("."):
        if isinstance(found, type):
            found, options = _instance(found, options), {}
        if not step or not hasattr(found, step):
            raise ValueError(f"{one_line(spec, 200)}: there is no {quote(step)} in {quote(_called(found))}")
        found = getattr(found, step)
    if isinstance(found, type):
        found, options = _instance(found, options), {}
    if not callable(found):
        raise ValueError(f"{one_line(spec, 200)}: expected a callable, got {quote(type(found).__name__)}")
    return found, options


def _module(name: str) -> Any:
    if "" not in sys.path:
        sys.path.insert(0, "")  # as with python -m: modules of the folder one stands in
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        raise ValueError(f"no module {quote(problem.name or name)} is installed or in this folder") from problem
    except (Exception, SystemExit) as problem:  # importing runs the module, which may do anything
        raise ValueError(f"importing {quote(name)} failed: {type(problem).__name__}: {problem}") from problem


def _instance(kind: type, options: dict[str, Any]) -> Any:
    try:
        return kind(**options)
    except (Exception, SystemExit) as problem:  # a stranger's class
        raise ValueError(f"{kind.__name__} could not be made: {type(problem).__name__}: {problem}") from problem


def _called(thing: Any) -> str:
    return str(getattr(thing, "__name__", type(thing).__name__))


def read_options(given: Sequence[str]) -> dict[str, Any]:
    """name=value pairs; a value is a Python literal, or else text."""
    options: dict[str, Any] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"-k: expected name=value, got {quote(pair)}")
        try:
            options[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            options[name] = text
    return options
