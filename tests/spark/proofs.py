"""What the rule says of a query, checked to say no more than the former proof."""

from oracle.relations import Proof as ProofOnConnect
from oracle.sources import Sources
from oracle.steadiness import Proof
from oracle.written import whole

from keysplit.spark import identity
from keysplit.spark.jvm import is_connect, setting_of


def deterministic(df, *trust):
    """Return the columns of a frame that count; None if there may be other rows."""
    names = identity.trusted_names(trust)
    found = identity.Query(df, frozenset(identity.Query(df, names, checked=names).kept_trust))
    check(df, found._trusted_functions)
    if found.determinism.rows is not None:
        return None
    return [name for name, why in zip(df.columns, found.reasons(), strict=True) if why is None]


def check(df, trusted=frozenset()):
    """Compare what the rule says of a query, and of its repetition, with what was proved of it."""
    for anew in (None, "a stream") if df.isStreaming else (None,):
        found = identity.determinism(df, trusted, anew, setting_of(df.sparkSession))
        wanted = of_old(df, trusted, anew)
        assert found.rows or not wanted.rows, (found, wanted)
        assert found.order or not wanted.order, (found, wanted)
        for at, why in enumerate(found.columns or ()):
            assert why or not wanted.columns[at], (df.columns[at], wanted)
        if not (found.rows or found.again or anew):
            again = of_old(df, trusted, None, twice=True)
            assert (again.rows, again.again) == (None, None), found
            for at, why in enumerate(found.columns or ()):
                assert why or not again.columns[at], (df.columns[at], again)


def of_old(df, trusted=frozenset(), anew=None, twice=False):
    """Return what the former proof finds."""
    if is_connect(df):
        plan = df._plan.to_proto(df.sparkSession._client).root
        proof = ProofOnConnect(trusted, anew, setting_of(df.sparkSession), twice)
        return proof.of(plan, dict(enumerate(df.schema.fields)))
    plan = df._jdf.queryExecution().analyzed()
    return Proof(Sources(df.sparkSession, plan), trusted, anew, twice).of(whole(plan))
