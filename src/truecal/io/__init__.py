"""Prediction files in, results out."""

from truecal.io.failures import FileError
from truecal.io.writing import atomic_path, write_atomic

__all__ = ["FileError", "atomic_path", "write_atomic"]
