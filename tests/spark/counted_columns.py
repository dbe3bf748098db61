"""What the rule says of the columns of a query."""

from keysplit.spark import identity


def deterministic(df, *trust):
    """Return the columns of a frame that count; None if there may be other rows."""
    names = identity.trusted_names(trust)
    found = identity.Query(df, frozenset(identity.Query(df, names, checked=names).kept_trust))
    if found.determinism.rows is not None:
        return None
    return [name for name, why in zip(df.columns, found.reasons(), strict=True) if why is None]
