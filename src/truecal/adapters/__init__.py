"""One thin file per framework."""
