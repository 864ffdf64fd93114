"""Ways to sum a cell: numpy (plain), numba (fast), and torch with Triton, which is above `core`."""
