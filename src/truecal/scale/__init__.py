"""Streams and clusters: other builders of the table."""
