"""Measures people know by name, with definition, source and whether each can be gamed."""

from .baseline import Baseline
from .by_name import BASELINES, ERRORS
from .of_bins import ece

__all__ = ["BASELINES", "ERRORS", "Baseline", "ece"]
