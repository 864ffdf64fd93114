"""Ways to sum the cells of a table: numpy (plain), numba (fast) and torch with Triton (GPU)."""
