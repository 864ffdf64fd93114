"""A sample becomes tables, by numpy, numba or torch, and an error is read off them."""
