"""The demo: one skewed stream through Spark twice, by Spark's hash and by a plan of keysplit.

`stream` has the rows, `job` has a worker's work (without Spark), `run` measures both runs on Spark,
`terminal` and `report` show the results.
"""
