"""Streams, clusters and SQL: other builders of the table."""
