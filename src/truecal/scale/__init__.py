"""The table built from streams and clusters: predictions past what memory holds."""
