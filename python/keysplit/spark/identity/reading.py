"""What the options of a reader say of files that are read more than once, on Classic and Connect alike."""

from collections.abc import Callable, Mapping

from keysplit.spark.jvm import Setting

TEXT = ("csv", "json", "xml")
"""Formats of which a row may be malformed."""

# Each leaves files out that cannot be read: those of one task or attempt, not of another.
_LEAVING_OUT = ("ignoreCorruptFiles", "ignoreMissingFiles")
_CORRUPT = "columnNameOfCorruptRecord"


def left_out(options: Mapping[str, str], setting: Setting) -> str | None:
    """Return why files that a task cannot read once, and then can, are left out of the rows.

    Args:
        options: those of the reader, their names in lower case.
        setting: reads settings.
    """
    for name in _LEAVING_OUT:
        value = options.get(name.lower()) or setting(f"spark.sql.files.{name}") or "false"
        if value.lower() != "false":
            return f"files read with {name}, which leaves out what a task cannot read"
    return None


def lost(options: Mapping[str, str]) -> str | None:
    """Return why records of Kafka that are gone are left out of the rows; arguments as `left_out`."""
    if options.get("failondataloss", "true").lower() == "false":
        return "a topic read with failOnDataLoss=false, which leaves out what is gone when a task is retried"
    return None


def malformed(
    options: Mapping[str, str], setting: Setting, has_column: Callable[[str], bool | None]
) -> str | None:
    """Return why a query that reads other columns of text may see other rows.

    Args:
        options: as `left_out`.
        setting: as `left_out`.
        has_column: says whether there is a column of a name, given in lower case; None if nobody knows.
    """
    if options.get("mode", "").upper() == "DROPMALFORMED":
        return "the mode DROPMALFORMED, in which the columns that are read decide what is malformed"
    name = options.get(_CORRUPT.lower()) or setting(f"spark.sql.{_CORRUPT}") or "_corrupt_record"
    has = has_column(name.lower())
    if has is None:
        return "text whose schema only the server knows, which may have a column of corrupt records"
    return f"the column {name}, for which the columns that are read decide what is malformed" if has else None
