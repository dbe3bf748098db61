"""The server for a driver's observed queries: pages, figures as JSON, and metrics, on one port."""

import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from keysplit.spark.streaming.observing.history import History
from keysplit.spark.streaming.observing.page import draw, draw_list
from keysplit.spark.streaming.observing.prometheus import Exposition, Totals
from keysplit.spark.streaming.observing.server import Answer, Server

# The endpoints of this driver, by their address and port.
_lock = threading.Lock()
_endpoints: dict[tuple[str, int], "Endpoint"] = {}


@dataclass(frozen=True, eq=False)
class Shown:
    """The data of a query to show.

    Args:
        query: the id of the query.
        run: the id of the query's current run.
        title: the name of the query, or its id.
        history: the batches of the query.
        totals: the metrics of the query.
    """

    query: str
    run: str
    title: str
    history: History
    totals: Totals


class Endpoint:
    """A server for the figures of queries; `join` and `leave` start and stop the server.

    Args:
        host: the address to serve on.
        port: the port; 0 chooses a free one.

    Raises:
        ImportError: if prometheus_client is not installed.
        OSError: if the port is taken.
    """

    def __init__(self, host: str, port: int) -> None:
        self.shown: list[Shown] = []
        self._exposition = Exposition(lambda: [each.totals for each in self._by_query().values()])
        self.server = Server(host, port, self._answer)

    def _by_query(self) -> dict[str, Shown]:
        """Return each query's data once, by the query's id, because a query may have several observers."""
        return {each.query: each for each in list(self.shown)}

    def _answer(self, path: str, asked: Mapping[str, str]) -> Answer | None:
        """Answer `/QUERY/NAME`, and `/NAME` for all queries or the only query."""
        queries = self._by_query()
        *of, name = path.removeprefix("/").split("/")
        if name == "metrics" and (not of or of[0] in queries):
            return Answer(self._exposition.content_type, self._exposition.text())
        found = next(iter(queries.values()), None) if not of and len(queries) == 1 else None
        if len(of) == 1:
            found = queries.get(of[0])
        if found is not None and name == "":
            text = draw(found.title, found.query, found.history.records())
            return Answer("text/html; charset=utf-8", text.encode())
        if found is not None and name == "history.json":
            records = [each.to_dict() for each in found.history.records(after=int(asked.get("after", -1)))]
            figures = {"query": found.query, "run": found.run, "records": records}
            return Answer("application/json", json.dumps(figures, allow_nan=False).encode())
        if not of and name == "":
            listed = [(each.query, each.title, each.history.records()) for each in queries.values()]
            return Answer("text/html; charset=utf-8", draw_list(listed).encode())
        return None


def join(host: str, port: int, shown: Shown) -> Endpoint:
    """Show a query on this driver's endpoint at a port; 0 chooses an existing endpoint, if there is one.

    Two queries with the same name get different names in metrics.

    Raises:
        ImportError: if prometheus_client is not installed.
        OSError: if another program has the port.
    """
    with _lock:
        known = [at for at in _endpoints if at[0] == host and port in (0, at[1])]
        if known:
            found = _endpoints[known[0]]
        else:
            found = Endpoint(host, port)
            _endpoints[host, found.server.port] = found
        names = Counter(each.title for each in found.shown if each.query != shown.query)
        if names[shown.title]:
            shown.totals.query = f"{shown.title} {shown.query}"
        found.shown.append(shown)
        return found


def leave(endpoint: Endpoint, shown: Shown) -> None:
    """Stop showing a query; when the last query leaves, the endpoint ends."""
    with _lock:
        endpoint.shown.remove(shown)
        if not endpoint.shown:
            _endpoints.pop((endpoint.server.host, endpoint.server.port))
            endpoint.server.stop()
