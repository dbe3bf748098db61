"""The first run by a plan that is passed as an object: whether its rows have the frequent keys of the plan.

A plan may have been made for other data: results are exact all the same, and nothing is balanced. Without a
job nobody sees the rows, so they are looked at while they pass in the first one.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.plan import FrequentKey, Plan
from keysplit.spark.hashes import plan_hash_in_sql
from keysplit.spark.kept import pending
from keysplit.spark.known import known_rows
from keysplit.spark.options import Request
from keysplit.spark.session import session_of
from keysplit.spark.warn import warning_from_here

MOST_KEYS = 8
"""The most frequent keys of a plan that are looked for."""

# A key is expected if the plan promises so many rows of it, and the plan is for other data if fewer than so
# many of these keys are there.
_EXPECTED_ROWS = 25
_FEW = 0.5


def observed(request: Request, rows: DataFrame) -> DataFrame:
    """Look for the frequent keys of a plan while the rows pass in the first action, and warn if they lack.

    Args:
        request: a request, perhaps with a plan that may be for other data.
        rows: its rows, and columns beside them; an action reads all of them.
    """
    plan, hash_ = request.unseen, plan_hash_in_sql(request)
    if plan is None or hash_ is None:  # the hash of a collated key has no name in SQL
        return rows
    warn, known = warning_from_here(), known_rows(plan)
    known.looks += 1
    keys = plan.head[:MOST_KEYS]
    df, observed = session_of(rows).observed(rows, F.expr(_met(hash_, keys)).alias("met"))

    def done(found: Any) -> None:
        count, bits = map(int, str(found).split())
        expected = [at for at, key in enumerate(keys) if _share(key, plan) * count >= _EXPECTED_ROWS]
        if not expected:
            return
        known.are_met = True
        met = sum(bits >> at & 1 for at in expected)
        if met < _FEW * len(expected):
            warn(_misfit(met, len(expected), count))

    pending.wait_for(observed, done, wanted=lambda: not known.are_met)
    return df


def _met(hash_: str, keys: Sequence[FrequentKey]) -> str:
    """Return the aggregate in SQL: how many rows there are, and a bit for each key that one of them has."""
    # By default Spark computes the hash once for all comparisons.
    bits = " ".join(f"WHEN {key.hash}L THEN {1 << at}L" for at, key in enumerate(keys))
    return f"concat_ws(' ', count(1), coalesce(bit_or(CASE {hash_} {bits} ELSE 0L END), 0L))"


def _share(key: FrequentKey, plan: Plan) -> float:
    return (key.count - key.error) / plan.total


def _misfit(met: int, expected: int, count: int) -> str:
    keys = f"{met or 'none'} of its {expected} most frequent keys {'is' if met < 2 else 'are'}"
    return (
        f"the plan was made for other data: {keys} among the {count:,} rows; the result is exact, but the "
        "load may be unbalanced: kss.plan makes a plan of these rows, kss.drift(plan, df) compares"
    )
