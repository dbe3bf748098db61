"""The worker of a row as Column expressions and SQL."""
