"""Tests, intervals, bands, paired differences and monitoring."""
