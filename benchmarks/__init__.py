"""Side by side with peers and floors, in one run, as ratios; nothing here is a test."""
