"""The audit: calibration metrics of other libraries and our own, each audited in the same way."""
