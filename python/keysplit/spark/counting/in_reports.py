"""The rows of each worker of a plan that stays, or of an online router, in what Spark reports of a stream.

Spark computes the counts beside the rows (`DataFrame.observe`), classic and on Spark Connect alike, and puts
them into its report of each micro-batch. What the counts are of stands beside them.
"""

import base64
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.spark.counting import by_worker
from keysplit.spark.options import Request

# How the names of these figures begin; then come the name of what is counted, and an id.
_PREFIX = "keysplit rows of "


class Counts(NamedTuple):
    """What a micro-batch has counted.

    Attributes:
        name: names the plan or router: its worker column and its key.
        workers: how many workers it has.
        rows: the rows of each counter of workers, int64; see `by_worker`.
        speeds: the relative speed of each counter's workers, float64.
        copies: the workers that the plan's frequent keys have beyond one each; None of a router.
    """

    name: str
    workers: int
    rows: np.ndarray
    speeds: np.ndarray
    copies: int | None


def counted(rows: DataFrame, request: Request) -> DataFrame:
    """Return the routed rows of a stream such that Spark's reports of it have the rows of each worker."""
    plan, workers = request.plan, request.workers
    speeds = None if plan is None or plan.capacities is None else by_worker.together(plan.speeds, workers)
    about = {
        "name": "-".join([request.worker_column, *request.keys]),
        "workers": workers,
        "speeds": None if speeds is None else speeds.round(9).tolist(),
        "copies": None if plan is None else sum(len(each.workers) - 1 for each in plan.head),
    }
    return rows.observe(
        f"{_PREFIX}{about['name']} {uuid.uuid4()}",
        F.expr(by_worker.counting(request.worker_column, workers)).alias("rows"),
        F.max(F.lit(json.dumps(about))).alias("about"),
    )


def counts_in(said: Mapping[str, Any]) -> Iterator[Counts]:
    """Yield the counts in a report of Spark, as JSON or as PySpark's `StreamingQueryProgress` has it."""
    for name, figures in (said.get("observedMetrics") or {}).items():
        if not name.startswith(_PREFIX):
            continue
        found = _named(figures)
        if found.get("about") is None:  # a batch without rows; JSON has no nulls
            continue
        about, sketch = json.loads(found["about"]), found["rows"]
        sketch = base64.b64decode(sketch) if isinstance(sketch, str) else bytes(sketch)
        rows = by_worker.counted(sketch, about["workers"])
        speeds = about["speeds"]
        even = by_worker.together(np.ones(about["workers"]), about["workers"])
        yield Counts(
            about["name"],
            about["workers"],
            rows,
            even if speeds is None else np.array(speeds),
            about["copies"],
        )


def _named(figures: Any) -> Mapping[str, Any]:
    """Return figures by their names: Spark Connect has them as values, and names in a schema beside them."""
    found: Mapping[str, Any] = figures if isinstance(figures, Mapping) else figures.asDict()
    if "schema" not in found:
        return found
    names = (field["name"] for field in found["schema"]["fields"])
    return dict(zip(names, found["values"], strict=True))
