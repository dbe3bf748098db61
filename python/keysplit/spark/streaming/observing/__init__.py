"""The figures of a running query: the rows of each worker, the plan, and the durations of batches.

`progress` reads Spark's report on a batch, `record` joins the report with the figures for the batch's plan,
`history` keeps records, `prometheus`, `page` and `log` show records, `server` serves pages, and `observer`
ties these together.
"""
