"""Session windows, which no worker can close alone."""

from pyspark.sql.types import StructField

from keysplit.spark.session.times import is_session


def refuse_session(window: StructField, where: str = "") -> None:
    """Raise ValueError if a column is a session window.

    Args:
        window: the column.
        where: what is asked for, such as " with split_state=True".
    """
    if is_session(window):
        raise ValueError(
            f"window must be F.window(...) or the column of the time{where}, got a session window: the rows "
            "of one worker do not tell where a session ends"
        )
