"""`join`: a join that spreads hot keys over several workers."""
