"""The settings of a session that decide how functions over groups see and return rows."""

from typing import Any

from keysplit.spark.session.interface import Session

SETTINGS = {
    "timezone": ("spark.sql.session.timeZone", "UTC"),
    "safe": ("spark.sql.execution.pandas.convertToArrowArraySafely", "false"),
    "by_name": ("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName", "true"),
    "large_types": ("spark.sql.execution.arrow.useLargeVarTypes", "false"),
    "whole_to_decimal": ("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled", "false"),
    "nullable_whole": ("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype", "false"),
}
"""Their names, and what they are in versions of Spark that do not have them."""


def settings_of(session: Session) -> dict[str, Any]:
    """Return these settings of a session: its time zone, and flags."""
    found = dict(zip(SETTINGS, session.settings(SETTINGS.values()), strict=True))
    return {
        name: value if name == "timezone" else str(value).lower() == "true" for name, value in found.items()
    }
