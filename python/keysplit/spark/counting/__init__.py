"""Two ways to count the rows of each key: exactly by `groupBy`, and by a sketch in each task."""
