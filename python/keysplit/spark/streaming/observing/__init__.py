"""The figures of a running query: the rows of each worker, the plan, and the durations of batches.

`progress` reads Spark's report on a batch, `record` joins it with the figures of the batch's plan, `history`
keeps them, `prometheus`, `page` and `log` show them, `server` serves them, and `observer` ties these
together.
"""
