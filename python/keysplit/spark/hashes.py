"""The two hashes of a row that a plan starts from: that of its key, and that of its identity."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from keysplit.spark import keys, query
from keysplit.spark.options import Request, fold, quoted
from keysplit.spark.rows import identifying

# Makes the hash of a row's identity another function than that of its key.
_ROW = 0x9E3779B97F4A7C15


def plan_hash(request: Request) -> Column:
    """Return the hash of a row's key, from which a plan starts."""
    return keys.key_hash(request.keys, request.key_types, request.params.seed)


def row_hash(request: Request) -> Column:
    """Return the hash of a row's identity, or raise where it would not come again the same."""
    names = request.row_id
    if names is not None:
        query.refuse_unsteady_id(request.df.select(*names))
    else:
        query.refuse_unsteady(request.df)
        steady = not request.df.isStreaming and not query.shuffles(request.df)
        names = [quoted(name) for name in identifying(request.df, steady=steady, fold=fold(request.df))]
        if not names:
            raise ValueError(
                "row_id must be given: no column of df tells rows apart steadily (maps never do; floats and "
                f"arrays not above a shuffle); it has {request.df.columns}"
            )
    return keys.seeded_hash(request.params.seed ^ _ROW, [F.col(name) for name in names])
