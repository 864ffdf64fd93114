"""Public functions under torch.compile: they leave its graph, since what they do with tensors is not to be compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")


def outside_torch_compile(
    function: Callable[Given, Found], before: Callable[..., None] | None = None
) -> Callable[Given, Found]:
    """The same function, which runs outside the graph where torch.compile traces its caller; `before` sees its
    arguments first."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        torch = sys.modules.get("torch")  # never imported here
        if torch is not None and torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **kwargs)  # type: ignore[no-any-return]  # untyped
        if before is not None:
            before(*args, **kwargs)
        return function(*args, **kwargs)

    # torch.compile counts recompilations by code object: each function has its own, under its own name
    plain: Any = call
    plain.__code__ = plain.__code__.replace(co_name=getattr(function, "__name__", "call"))
    return call
