"""What Spark writes down beside a time or a window: the delay of its watermark, whether it is a session."""

from pyspark.sql import Column
from pyspark.sql.types import StructField

_WATERMARK = "spark.watermarkDelayMs"
_SESSION = "spark.sessionWindow"


def watermark_ms(time: StructField) -> int | None:
    """Return the delay of the watermark of a time or window in milliseconds, None if it has none."""
    found = time.metadata.get(_WATERMARK)
    return None if found is None else int(found)


def with_watermark(time: Column, name: str, delay_ms: int) -> Column:
    """Return a time under a name, with a watermark that the query has already."""
    return time.alias(name, metadata={_WATERMARK: delay_ms})


def is_session(window: StructField) -> bool:
    """Say whether a column is a session window."""
    return _SESSION in window.metadata
