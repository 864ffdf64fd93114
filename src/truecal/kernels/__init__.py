"""The numerical kernels behind `tabulate`: bare formulas, no validation."""
