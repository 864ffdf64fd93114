"""Properties, rules, cells, tables and losses: formulas and checked arrays."""
