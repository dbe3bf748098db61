"""Spread skewed keys over Spark's tasks: plan each row's worker, place the rows, and keep results the same.

The guide is docs/spark.md.
"""

from keysplit.extras import missing

for _module in ("pyspark", "pyarrow", "pandas"):
    try:
        __import__(_module)
    except ImportError as error:
        raise ImportError(missing("keysplit.spark", _module, "spark")) from error
del _module, missing

from keysplit.plan import CutToFit, Plan  # noqa: E402
from keysplit.spark import online, streaming  # noqa: E402
from keysplit.spark.apply.apply import apply  # noqa: E402
from keysplit.spark.diagnose import diagnose  # noqa: E402
from keysplit.spark.drift import drift  # noqa: E402
from keysplit.spark.join.join import join  # noqa: E402
from keysplit.spark.ordered.asof import asof_join  # noqa: E402
from keysplit.spark.ordered.window import window  # noqa: E402
from keysplit.spark.plan import plan  # noqa: E402
from keysplit.spark.profile import profile  # noqa: E402
from keysplit.spark.register import register  # noqa: E402
from keysplit.spark.repartition import repartition  # noqa: E402
from keysplit.spark.route import route  # noqa: E402
from keysplit.spark.strategy import explain  # noqa: E402
from keysplit.spark.weights import row_bytes  # noqa: E402
from keysplit.spark.write import write  # noqa: E402

__all__ = [
    "CutToFit",
    "Plan",
    "apply",
    "asof_join",
    "diagnose",
    "drift",
    "explain",
    "join",
    "online",
    "plan",
    "profile",
    "register",
    "repartition",
    "route",
    "row_bytes",
    "streaming",
    "window",
    "write",
]


def __dir__() -> list[str]:
    return sorted(__all__)
