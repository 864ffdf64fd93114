"""The types that every package uses."""

from .arrays import Array as Array

Groups = tuple[Array, int]
"""Clusters of rows: the number 0..G−1 of each row's cluster, and G."""
