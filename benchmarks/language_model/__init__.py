"""A small character-level transformer, trained and run on the CPU, and the logs it writes for docs and tests."""
