"""A row's worker as Column expressions and SQL."""
