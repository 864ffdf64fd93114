"""Where numbers come from: memory, streams and sampled answers give the same tables."""
