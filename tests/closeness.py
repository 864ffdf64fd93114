"""How tests compare floating-point results of two computations: to 12 digits, never bit for bit.

The last bit of a sum depends on the CPU and on the memory layout: vector instructions add in another order, and the
elements that do not fill a vector are computed in another way. `==` is for the same operations in the same order on the
same layout, and for numbers that are copied, counted or exact in binary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np


def assert_close(found: Any, wanted: Any, scale: float = 0.0, tolerance: float = 1e-12, where: str = "") -> None:
    """Floats agree to 1e-12 of their scale, all else is equal; through dicts, sequences, dataclasses and arrays.

    The scale of a number is its size, that of an array its largest element, and at least `scale`: the size of the terms
    where a number is a difference of larger ones, such as 1 for a difference of probabilities. A network is trained to
    a larger `tolerance`, because rounding grows from step to step.
    """

    def inside(one: Any, other: Any, place: str) -> None:
        assert_close(one, other, scale, tolerance, where + place)

    if is_dataclass(wanted) and not isinstance(wanted, type):
        assert type(found) is type(wanted), f"{where}: {type(found)} is not {type(wanted)}"
        for name in (field.name for field in fields(wanted) if field.compare):
            inside(getattr(found, name), getattr(wanted, name), f".{name}")
    elif isinstance(wanted, Mapping):
        assert isinstance(found, Mapping) and list(found) == list(wanted), f"{where}: {list(found)} != {list(wanted)}"
        for key in wanted:
            inside(found[key], wanted[key], f"[{key!r}]")
    elif isinstance(wanted, (list, tuple)):
        assert type(found) is type(wanted) and len(found) == len(wanted), f"{where}: {found} != {wanted}"
        for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
            inside(one, other, f"[{i}]")
    elif isinstance(wanted, (float, np.floating, Fraction)) or (
        isinstance(wanted, np.ndarray) and wanted.dtype.kind == "f"
    ):
        wanted = np.asarray(wanted, dtype=float)
        largest = float(np.max(np.abs(wanted), initial=scale, where=np.isfinite(wanted)))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * largest, err_msg=where)
    elif isinstance(wanted, np.ndarray):
        np.testing.assert_array_equal(found, wanted, err_msg=where)
    else:
        assert found == wanted, f"{where}: {found!r} != {wanted!r}"
