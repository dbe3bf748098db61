"""What skew costs in Spark, and what keysplit brings, next to plain Spark and salting by hand.

`__main__` is the program, `streams` has the rows, `operations` the ways to compute each result, `figures`
what a run costs.
"""
