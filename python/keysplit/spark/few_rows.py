"""Write few rows into few files, using a plan for fewer tasks."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from keysplit.plan import PLANS, Plan, bucket_bits, bucket_of
from keysplit.spark import jvm
from keysplit.spark.request import Request

ROWS_PER_FILE = 100_000
"""The number of rows that make a task worth its file."""

# A file costs as much as writing some 13,000 rows of three columns (docs/measured.md, Writes).
_ROWS_OF_A_FILE = 10_000

# The rest of a bucket without its frequent keys, as a part of all weight, that is only rounding.
_ROUNDED = 1e-12

# A task gets at most about this many bytes by Spark's estimate, as much as it reads of a file: an older plan,
# or the last run with one, may be for far fewer rows.
_BYTES_PER_TASK = 128 << 20


def fitted(request: Request, rows_per_file: int | None) -> tuple[Request, str]:
    """Return the request, with a plan for as many tasks as its rows need, and why; "" if unchanged.

    The smaller plan is made from the same counts, so it has all guarantees of its grouping, and no job reads
    the rows. Merging workers would void those guarantees: with "cut_to_fit", the remainder of a cut key may
    be on any worker, so the key could end up in one task more than guaranteed. The smaller plan also balances
    files: otherwise the task that writes most of the rare partitions would finish last.

    Args:
        request: a checked request for a write, with a plan.
        rows_per_file: the rows that make a task worth its file; None for the default.
    """
    plan = request.plan
    # the user has set the speeds of these workers
    if plan is None or request.way is not None or plan.capacities is not None:
        return request, ""
    if type(plan.grouping) not in PLANS.values():  # plans of streams may have any grouping
        return request, ""
    slots, rows = jvm.slots(request.df), rows_of(plan)
    if rows is None or (rows_per_file is None and slots is None):
        return request, ""
    least = ROWS_PER_FILE if rows_per_file is None else rows_per_file
    tasks = tasks_for(rows, least, slots)
    if tasks < plan.workers:
        tasks = max(tasks, _tasks_for_bytes(request))
    if tasks >= plan.workers:
        return request, ""
    fewer = _for_tasks(plan, rows, tasks)
    why = f", not over {plan.workers}, because {rows:,.0f} rows fill no more files of {least:,}"
    return replace(request, plan=fewer, params=fewer.grouping), why


@lru_cache(maxsize=4)
def _for_tasks(plan: Plan, rows: float, tasks: int) -> Plan:
    """Return a plan for this many tasks that write this many rows; cached for the next write."""
    return with_files(plan, rows).with_workers(tasks)


def with_files(plan: Plan, rows: float) -> Plan:
    """Return a plan in which the weight of each key includes the cost of a file.

    All files together weigh at most as much as all rows. Each bucket counts as one rare key, because most
    partitions have a bucket of their own.

    Args:
        plan: the plan.
        rows: the number of rows to write.
    """
    summary = plan.summary
    own, size = bucket_of(summary.hashes, bucket_bits(plan.workers)), len(plan.buckets)
    rare = plan.buckets - np.bincount(own, summary.counts, minlength=size) > _ROUNDED * plan.total
    files = rare + np.bincount(own, minlength=size)
    cost = min(_ROWS_OF_A_FILE * plan.total / max(rows, 1.0), plan.total / max(files.sum(), 1))
    buckets = plan.buckets + cost * files
    head = tuple(replace(each, count=each.count + cost) for each in plan.head)
    return replace(plan, total=float(buckets.sum()), head=head, buckets=buckets)


def tasks_for(rows: float, rows_per_file: int, slots: int | None) -> int:
    """Return how many tasks should write these rows, at least `rows_per_file` each if there are enough.

    There are never fewer tasks than slots. Larger numbers are rounded down to full waves, because a single
    task in a wave leaves the other slots idle.

    Args:
        rows: the number of rows.
        rows_per_file: at least 1.
        slots: how many tasks run at once; None if unknown.
    """
    at_once = 1 if slots is None else slots
    return max(1, int(rows / rows_per_file / at_once)) * at_once


def rows_of(plan: Plan) -> float | None:
    """Return about how many rows a plan was made from; None if it stores only their weight."""
    if plan.sample is not None:
        return plan.sample.rows / plan.sample.fraction if plan.sample.fraction else None
    return None if plan.weighted or plan.group_weight else plan.total


def _tasks_for_bytes(request: Request) -> int:
    size = jvm.size(request.df)
    return 1 if size is None else math.ceil(size / _BYTES_PER_TASK)
