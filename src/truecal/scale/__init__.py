"""Predictions larger than memory: streams, files, clusters and SQL."""
