"""evaluate and compare, from arrays to words."""
