"""How plans of Spark are read for the identity of rows."""
