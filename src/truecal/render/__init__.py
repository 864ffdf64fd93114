"""Text, HTML and pictures of results: they draw and compute nothing."""
