"""What keysplit proves of a query, compared with what it proves of its whole plan."""

from dataclasses import replace

from keysplit.spark import query
from keysplit.spark.session import session_of
from keysplit.spark.session.sources import Sources
from keysplit.spark.session.steadiness import Proof
from keysplit.spark.session.written import whole


def steady(df, *trust):
    """Return the columns of a frame that are proved steady; None if there may be other rows."""
    found = query.Query(df, query.trusted_names(trust))
    check_some_columns(df, found._trusted_functions)
    if found.steadiness.rows is not None:
        return None
    return [name for name, why in zip(df.columns, found.reasons(), strict=True) if why is None]


def proved(df, places=(), trusted=frozenset(), anew=None):
    return session_of(df).steadiness(df, places, trusted, anew)


def of_whole_plan(df, trusted=frozenset(), anew=None):
    plan = df._jdf.queryExecution().analyzed()
    return Proof(Sources(df.sparkSession, plan), trusted, anew).of(whole(plan))


def check_some_columns(df, trusted=frozenset(), anew=None):
    """Compare what is proved of some columns with what is where Spark writes down the whole plan."""
    wanted = of_whole_plan(df, trusted, anew)
    for places in ([], range(0, len(df.columns), 2), range(1, len(df.columns), 2)):
        found = proved(df, places, trusted, anew)
        columns = wanted.columns and {at: wanted.columns[at] for at in found.columns}
        assert found == replace(wanted, columns=columns)
        assert found.columns is None or set(places) <= found.columns.keys()
