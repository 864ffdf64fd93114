"""The paper's experiments: train traces, score every checkpoint, draw every figure and table."""
