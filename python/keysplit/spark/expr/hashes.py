"""The two row hashes that a plan uses: of the key, and of the row's identity."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from keysplit.spark import keys
from keysplit.spark.names import path_in_sql, quoted
from keysplit.spark.request import Request

# Makes the hash of a row's identity independent of the hash of its key.
_ROW = 0x9E3779B97F4A7C15


def plan_hash(request: Request) -> Column:
    """Return the hash of a row's key in plans."""
    return keys.key_hash(request.keys, request.key_types, request.params.seed)


def plan_hash_in_sql(request: Request) -> str | None:
    """Return `plan_hash` in SQL; None for a collated key."""
    return keys.key_hash_in_sql(request.keys, request.key_types, request.params.seed)


def row_hash(request: Request) -> Column:
    """Return the hash of a row's identity, or raise an error if it is not deterministic."""
    return F.expr(row_hash_in_sql(request))


def row_hash_in_sql(request: Request) -> str:
    """Return `row_hash` in SQL."""
    return identity_in_sql(request.params.seed, identity_of(request))


def identity_of(request: Request) -> list[str]:
    """Return the columns that distinguish rows, or raise an error if they are not deterministic."""
    names, chosen = request.row_id, None if request.plan is None else request.plan.row_id
    if names is not None:
        request.query.refuse_other_values(names)
        return names
    if chosen is not None and request.query.keeps(chosen):
        return list(chosen)
    return [quoted(name) for name in request.query.identity]


def identity_in_sql(seed: int, names: Sequence[str]) -> str:
    """Return the hash of the columns that distinguish rows, in SQL."""
    return keys.seeded_hash_in_sql(seed ^ _ROW, [path_in_sql(name) for name in names])
