"""Ways to count the rows of each key: by `groupBy`, or in a sample."""
