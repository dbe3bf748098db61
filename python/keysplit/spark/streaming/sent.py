"""What the tasks of micro-batches have sent, until the driver learns from it."""

import threading
from collections.abc import Callable

from keysplit.spark.session import Sent, Tally


class SentByBatch:
    """What tasks have sent, by query and micro-batch: several queries may go by one plan.

    Args:
        tally: what they send it by.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._lock = threading.Lock()
        self._sent: dict[tuple[str, int], list[Sent]] = {}

    def of(self, query: str, number: int) -> list[Sent]:
        """Return what the tasks of a micro-batch that has ended have sent, and forget all until then."""
        with self._lock:
            self._take()
            found = self._sent.pop((query, number), [])
            # where Spark runs a task twice, the slower one may send in a later batch
            self._keep(lambda of, batch: of != query or batch > number)
        return found

    def forget(self, query: str) -> None:
        """Forget what the tasks of a query have sent."""
        with self._lock:
            self._take()
            self._keep(lambda of, _: of != query)

    def _take(self) -> None:
        for each in self._tally.take():
            if each.batch is not None:  # else of a thread of the user that does not say what it belongs to
                self._sent.setdefault((each.query, each.batch), []).append(each)

    def _keep(self, wanted: Callable[[str, int], bool]) -> None:
        self._sent = {place: sent for place, sent in self._sent.items() if wanted(*place)}
