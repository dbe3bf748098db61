"""Counts calls to the JVM, and jobs."""

import threading
from contextlib import contextmanager


class Calls:
    """Counts the calls to the JVM that this thread makes, and not those of listeners of other tests."""

    def __init__(self, spark, patch):
        client = type(spark.sparkContext._gateway._gateway_client)
        self.made, send, caller = 0, client.send_command, threading.current_thread()

        def counted(client, command, *rest, **options):
            freed = command.startswith("m\n")  # by the garbage collector
            self.made += not freed and threading.current_thread() is caller
            return send(client, command, *rest, **options)

        patch.setattr(client, "send_command", counted)


@contextmanager
def jobs_of(spark, found):
    """Add the numbers of the jobs that are run within to a list."""
    group = f"jobs of {id(found)}"
    spark.sparkContext.setJobGroup(group, group)
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        found += spark.sparkContext.statusTracker().getJobIdsForGroup(group)


@contextmanager
def no_job(spark, name):
    """Fail if what is done within runs a job; the name is that of its jobs alone."""
    spark.sparkContext.setJobGroup(name, name)
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(name) == []
