"""`apply`: Python functions over the rows of each key, with each hot key split into parts."""
