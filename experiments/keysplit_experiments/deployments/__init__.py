"""The papers' cluster deployments, on Spark: a deployment is a file, and `engine` is what they run on.

Listing and judging need no Spark; only measuring imports it.
"""
