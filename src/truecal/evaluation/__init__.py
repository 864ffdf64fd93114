"""evaluate and compare: from arrays to findings and sentences."""
