"""Data, properties, rules, cells, tables, losses and errors."""
