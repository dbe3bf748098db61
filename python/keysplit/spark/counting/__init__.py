"""Ways to count the rows of each key: all by `groupBy`, all by a sketch in each task, or a sample."""
