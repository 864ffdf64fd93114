"""Cell sums with torch, where the tensors lie: samples are validated, ordered and summed there, and numbers return.

The same tables as numpy's, made of tensors: `core.table` reads both. This is the door: what the rest of the house asks
of tensors is here by name, and each family has a file of its own.
"""

from __future__ import annotations

from .averages import point_sums
from .bins import cell_totals, counted, run_sums
from .quick import raw_error_sums, raw_moments
from .reading import read, read_arrays
from .rows import outcome, residuals, times
from .tables import as_numbers, has, on_host, tables
from .tensors import like, on_cpu, tensor

__all__ = [
    "as_numbers",
    "cell_totals",
    "counted",
    "has",
    "like",
    "on_cpu",
    "on_host",
    "outcome",
    "point_sums",
    "raw_error_sums",
    "raw_moments",
    "read",
    "read_arrays",
    "residuals",
    "run_sums",
    "tables",
    "tensor",
    "times",
]
