"""Ways to count the rows of each key: `groupBy`, a sketch in each task, a sample; and of each worker."""
