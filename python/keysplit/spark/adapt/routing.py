"""Rows of a stream routed by a plan that changes."""

import os

from pyspark.sql import DataFrame

from keysplit.spark.adapt import current
from keysplit.spark.adapt.adapting import Adapting
from keysplit.spark.options import Request
from keysplit.spark.planner import stand_in
from keysplit.spark.session import Ask


def routed(request: Request) -> tuple[DataFrame, Ask]:
    """Add the worker of each row by the plan of its micro-batch, and learn from what passes.

    Args:
        request: a checked request with `adapt`. Its plan is the first one; without one, all rows of a key
            begin on the worker of its hash.

    Returns:
        The rows with their workers, and what makes queries of questions.
    """
    assert request.adapt is not None
    adapting = Adapting(
        request.df,
        request.plan or stand_in(request),
        request.adapt,
        request.key_types,
        request.weight is not None,
        _name_of(request),
    )
    ask = adapting.session.asks_driver(request.df, adapting.answer)
    return current.routed(request, adapting.tally, adapting.bounds, ask), ask


def place_of_log(request: Request) -> str:
    """Return where the plan log of a request is: its full path or URL, or its name in a checkpoint.

    Args:
        request: a checked request with `adapt`.
    """
    assert request.adapt is not None
    log = request.adapt.log
    return _name_of(request) if log is None else os.fspath(log).rstrip("/")


def _name_of(request: Request) -> str:
    """Return what names the folder of the plan log in a checkpoint."""
    return "-".join([request.worker_column, *request.keys])
