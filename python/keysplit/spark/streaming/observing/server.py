"""A small HTTP server on this machine."""

import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

_LOCAL = ("127.0.0.1", "localhost")
# The longest silence of a connection, in seconds.
_PATIENCE_S = 10
# A page may send requests only to this server, and runs only its own scripts.
_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)


class Answer(NamedTuple):
    """An answer: content type and bytes."""

    type: str
    content: bytes


Route = Callable[[str, Mapping[str, str]], Answer | None]
"""Answers a path with its query string; None if there is nothing at the path."""


class Server:
    """Answers GET requests on its own threads.

    On a local address the server answers only requests whose Host header is local, so that no other site can
    read its pages through a DNS name that resolves to this machine.

    Args:
        host: the IPv4 address to listen on.
        port: the port; 0 chooses a free one.
        route: answers requests.

    Attributes:
        host: the address.
        port: the port.

    Raises:
        OSError: if the port is taken, or the address does not belong to this machine.
    """

    def __init__(self, host: str, port: int, route: Route) -> None:
        try:
            self._server = _Http((host, port), _handler(host, route))
        except OSError as error:
            raise OSError(f"port {port} of host {host!r} cannot be served: {error}") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="keysplit observer",
            daemon=True,
        )
        self._thread.start()
        self.host, self.port = host, int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The URL of the server, with a trailing slash."""
        return f"http://{self.host}:{self.port}/"

    def stop(self) -> None:
        """Stop answering, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # the client has disconnected
            super().handle_error(request, client_address)


def _handler(host: str, route: Route) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S

        def do_GET(self) -> None:
            try:
                asked = urlsplit(self.path)
                named = urlsplit(f"//{self.headers.get('Host', '')}").hostname
            except ValueError:
                self.send_error(400)
                return
            if host in _LOCAL and named not in _LOCAL:
                self.send_error(403, "ask for it as localhost")
                return
            try:
                answer = route(
                    asked.path, {name: values[-1] for name, values in parse_qs(asked.query).items()}
                )
            except ValueError as error:
                self.send_error(400, explain=str(error))  # an HTTP line may contain only these characters
                return
            if answer is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", answer.type)
            self.send_header("Content-Length", str(len(answer.content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", _POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
