"""The only calls to what Spark keeps private."""
