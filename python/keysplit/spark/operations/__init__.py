"""The operations on batches, a file each."""
