"""Cell sums with torch, where the tensors lie: samples are validated, ordered and summed there, and numbers return.

The same tables as numpy's, made of tensors: `core.table` reads both.
"""

from __future__ import annotations

from .bins import cell_totals as cell_totals
from .bins import counted as counted
from .bins import point_sums as point_sums
from .bins import run_sums as run_sums
from .device_tables import as_numbers as as_numbers
from .device_tables import on_host as on_host
from .device_tables import tables as tables
from .quick import raw_error_sums as raw_error_sums
from .quick import raw_moments as raw_moments
from .reading import read as read
from .reading import read_arrays as read_arrays
from .tensors import like as like
from .tensors import on_cpu as on_cpu
from .tensors import outcome as outcome
from .tensors import residuals as residuals
from .tensors import tensor as tensor
from .tensors import times as times
