"""`apply`: Python functions over the rows of each key, with hot keys in parts."""
