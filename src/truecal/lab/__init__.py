"""The paper's experiment, end to end: train traces, score every checkpoint, draw every figure and table."""
