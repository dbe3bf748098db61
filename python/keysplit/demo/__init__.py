"""The demo: one skewed stream through Spark twice, by Spark's hash grouping and by keysplit.

`stream` reads the rows, `job` is the work of a worker (no Spark in it), `run` measures both runs on Spark,
`groups` the one over small groups without emulation, `drift` a stream whose keys change. `terminal` and
`report` show them.
"""
