"""The types that every room speaks of."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
Groups = tuple[Array, int]
"""Clusters of rows: the number 0..G−1 of each row's cluster, and G."""
