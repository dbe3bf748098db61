"""The demo: one skewed stream through Spark twice, by Spark's hash and by a plan of keysplit.

`stream` has the rows, `job` the work of a worker (no Spark in it), `run` measures both runs on Spark,
`terminal` and `report` show them.
"""
