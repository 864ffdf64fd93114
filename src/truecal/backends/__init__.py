"""Builders of cell sums, one file for each array library."""
