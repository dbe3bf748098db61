"""Looks at a query for what would make it inexact when Spark runs a task again, and runs nothing.

Online mode decides by the order of rows, and the blocks of a shuffle arrive in any order. A plan decides by
the values of rows, and a random number drawn above a shuffle falls to another row each time. Rows would be
lost or doubled without an error. This file looks into plans, cached plans and the lineage of RDDs.
"""

from pyspark.sql import DataFrame

from keysplit.spark.session import session_of

CHECKSUMS = [
    f"spark.sql.shuffle.orderIndependentChecksum.{name}" for name in ("enabled", "enableFullRetryOnMismatch")
]
"""With both settings Spark notices that a task which ran again gave other rows; on from Spark 4.2 on."""


def refuse_shuffle(df: DataFrame) -> None:
    """Raise ValueError if rows may reach a router in another order when its task runs again.

    A broadcast is no shuffle: it is fetched once and kept. A checkpoint cuts what is below it off. A sort by
    all columns gives the rows their order back, as far as it can be told.

    Args:
        df: a DataFrame that `route` made, before anything was put on top of it.

    Raises:
        ValueError: if there is a shuffle; the message names it and the remedy.
    """
    shuffle = session_of(df).hazards(df).shuffle
    if shuffle is not None:
        raise ValueError(
            f"mode 'online' is exact only without a shuffle below, got {shuffle}: take mode 'planned', "
            "or sort within partitions by all columns, or call df.checkpoint() before, or write df and read "
            "it back, or pass allow_inexact=True"
        )


def rolls_back(df: DataFrame) -> bool:
    """Say whether Spark sees that a task which ran again gave other rows, and runs all that read them again.

    From Spark 4.2 on a shuffle keeps checksums that do not depend on the order of rows. Where they differ,
    Spark runs the stages above again from their start, or stops the job if it has handed out results. What
    ends in a shuffle of its own, as an aggregate by key does, is exact then, or stopped.
    """
    session = session_of(df)
    return all(session.setting(name) == "true" for name in CHECKSUMS)


def refuse_unsteady(df: DataFrame) -> None:
    """Raise ValueError if values of rows may be others when a task runs again.

    Args:
        df: the rows whose identity is to be all of their columns.

    Raises:
        ValueError: if above a shuffle there is something random, or an aggregate or window function whose
            answer depends on the order of rows.
    """
    look = session_of(df).hazards(df)
    found = look.random or look.opaque
    if found is not None:
        raise ValueError(
            f"row_id must be given: df has a value that may be another one when a task runs again, {found}; "
            "name columns that tell rows apart without it, or call df.checkpoint() before"
        )


def refuse_unsteady_id(df: DataFrame) -> None:
    """Raise ValueError if a value in the columns that `row_id` names may be another one the second time.

    Args:
        df: these columns alone.

    Raises:
        ValueError: as `refuse_unsteady`; functions of the user are trusted here.
    """
    found = session_of(df).hazards(df).random
    if found is not None:
        raise ValueError(
            f"row_id must name values that come again when a task runs again, got {found}: "
            "name other columns, or call df.checkpoint() before"
        )


def refuse_unrepeatable(df: DataFrame, why: str) -> None:
    """Raise ValueError if a DataFrame that is read twice may have other rows or values the second time."""
    look = session_of(df).hazards(df)
    found = look.random or look.opaque or look.chosen
    if found is not None:
        raise ValueError(
            f"df must have the same rows each time that it is read, {why}, got {found}: "
            "call df.checkpoint() before"
        )


def shuffles(df: DataFrame) -> bool:
    """Say whether the rows come out of a shuffle, or of a stream, which may have one below."""
    return session_of(df).hazards(df).shuffle is not None
