"""The page on loopback that shows a query's metrics. Off unless a port is set.

Anyone on the machine may connect, so each connection has a time limit and their number a bound: the oldest, which has
had the most time to ask, is closed for a new one.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tailrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Connections at the same time; a scraper has one.
CONNECTIONS_MAX = 16
#: How long a connection may take to ask, and to take its answer.
SILENT_S = 5.0
_LOOPBACK = "127.0.0.1"


class _Server(ThreadingHTTPServer):
    """Serves a bounded number of connections, each in a thread."""

    daemon_threads = True
    block_on_close = False
    #: Who finds no room here tries again after a second, a scraper among a crowd included.
    request_queue_size = 4 * CONNECTIONS_MAX

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: OrderedDict[int, socket.socket] = OrderedDict()
        self._lock = threading.Lock()
        super().__init__((_LOOPBACK, port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Make room, then serve in a thread."""
        with self._lock:
            while len(self._open) >= CONNECTIONS_MAX:
                _, oldest = self._open.popitem(last=False)
                with contextlib.suppress(OSError):  # its thread sees the end and closes it
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[id(request)] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that is over."""
        with self._lock:
            self._open.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what strangers do out of the driver's output."""


class MetricsPage:
    """Serves ``/metrics`` on the loopback address until closed."""

    def __init__(self, port: int, text: Callable[[], str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = SILENT_S

            def do_GET(self) -> None:
                found = self.path.partition("?")[0] == "/metrics"
                body = text().encode() if found else b"metrics are at /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Keep requests out of the driver's output."""

        try:
            self._server = _Server(port, Handler)
        except OSError as error:
            raise _taken(port, error) from error
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="tailrace-metrics", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def check_port(port: int) -> None:
    """Raise where metrics are to be shown on a port that someone else has; 0 is none."""
    if port:
        try:
            socket.create_server((_LOOPBACK, port)).close()
        except OSError as error:
            raise _taken(port, error) from error


def _taken(port: int, error: OSError) -> ConfigError:
    return ConfigError(
        f"The setting prometheus_port asks for port {port} on loopback; it cannot be had: {error.strerror}.",
        "Choose a free port, or 0 to show no metrics.",
    )
