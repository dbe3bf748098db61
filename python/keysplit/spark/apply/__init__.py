"""`apply`: Python functions over the rows of each key, hot keys in parts."""
