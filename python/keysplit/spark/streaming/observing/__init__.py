"""The figures of a running query: who got how many rows, by which plan, and how long a batch took.

`progress` reads what Spark says of a batch, `record` joins it with the figures of the batch's plan, `history`
keeps them, `prometheus`, `page` and `log` show them, `server` serves them, and `observer` ties these
together.
"""
