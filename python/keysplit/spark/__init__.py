"""Spread skewed keys over Spark's tasks: route rows to workers, place them, aggregate them exactly.

The guide is docs/spark.md.
"""

for _module in ("pyspark", "pyarrow", "pandas"):
    try:
        __import__(_module)
    except ImportError as error:
        raise ImportError(f"keysplit.spark needs {_module}: pip install 'keysplit[spark]'") from error
del _module

from keysplit.spark.aggregate import aggregate  # noqa: E402
from keysplit.spark.placement import repartition  # noqa: E402
from keysplit.spark.routing import route  # noqa: E402

__all__ = ["aggregate", "repartition", "route"]
