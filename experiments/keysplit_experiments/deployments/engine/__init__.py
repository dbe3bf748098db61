"""An emulated cluster on Spark: each worker is a task that sleeps as long as it would work."""
