"""Reader options that matter for files read more than once, in classic sessions and on Connect."""

from collections.abc import Callable, Mapping

from keysplit.spark.jvm import Setting

TEXT = ("csv", "json", "xml")
"""Formats in which a row may be malformed."""

# Each skips unreadable files, which may differ between tasks and attempts.
_LEAVING_OUT = ("ignoreCorruptFiles", "ignoreMissingFiles")
_CORRUPT = "columnNameOfCorruptRecord"


def left_out(options: Mapping[str, str], setting: Setting) -> str | None:
    """Return why a reader may skip files in one attempt and read them in another.

    Args:
        options: the reader's options, with names in lower case.
        setting: reads settings.
    """
    for name in _LEAVING_OUT:
        value = options.get(name.lower()) or setting(f"spark.sql.files.{name}") or "false"
        if value.lower() != "false":
            return f"files read with {name}, which leaves out what a task cannot read"
    return None


def lost(options: Mapping[str, str]) -> str | None:
    """Return why a reader may skip deleted Kafka records; arguments as in `left_out`."""
    if options.get("failondataloss", "true").lower() == "false":
        return "a topic read with failOnDataLoss=false, which leaves out what is gone when a task is retried"
    return None


def malformed(
    options: Mapping[str, str], setting: Setting, has_column: Callable[[str], bool | None]
) -> str | None:
    """Return why a query that reads other columns of a text file may see other rows.

    Args:
        options: as in `left_out`.
        setting: as in `left_out`.
        has_column: returns whether there is a column with a name, given in lower case; None if unknown.
    """
    if options.get("mode", "").upper() == "DROPMALFORMED":
        return "the mode DROPMALFORMED, in which the columns that are read decide what is malformed"
    name = options.get(_CORRUPT.lower()) or setting(f"spark.sql.{_CORRUPT}") or "_corrupt_record"
    has = has_column(name.lower())
    if has is None:
        return "text whose schema only the server knows, which may have a column of corrupt records"
    return f"the column {name}, for which the columns that are read decide what is malformed" if has else None
