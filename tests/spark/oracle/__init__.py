"""The former proof of deterministic columns, kept to check that the new rule never says more."""
