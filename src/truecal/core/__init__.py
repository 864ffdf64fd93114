"""The measuring core: properties, rules, cells, tables, losses and errors."""
