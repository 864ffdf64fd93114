"""One thin file for each framework: its objects in, public names called, its conventions kept."""
