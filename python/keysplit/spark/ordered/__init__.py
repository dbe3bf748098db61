"""Windows over hot keys, split by ranges of the order."""
