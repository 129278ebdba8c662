"""One HTTP connection to the collector, kept open between requests."""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401 - needed by the first connection: a child forked amid its import could not connect
import http.client
import os
import socket
import ssl
from dataclasses import dataclass

from tracehold.core.version import __version__
from tracehold.observability.exporters.collector.endpoint import EVENTS_PATH, Endpoint, Proxy

_MAX_ANSWER_BYTES = 4 * 1024 * 1024

# What a connection looks like that the server closed while it stood idle: the next request gets no answer.
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


class SendError(Exception):
    """A request got no answer.

    Attributes:
        reason: the class name of what went wrong; never a text that could hold an address or a key.
    """

    def __init__(self, reason: str) -> None:
        """Keep the class name."""
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Answer:
    """What the collector said. `body` is cut at 4 MiB."""

    status: int
    retry_after: str | None
    date: str | None
    body: bytes


class Transport:
    """Posts bodies of NDJSON. Used by one thread; only `abort` may be called from another."""

    def __init__(self, endpoint: Endpoint, proxy: Proxy | None = None) -> None:
        """Connect to nothing yet."""
        self._endpoint = endpoint
        self._proxy = proxy
        self._connection: http.client.HTTPConnection | None = None
        self._aborted = False
        forwarded = self._proxy is not None and endpoint.scheme == "http"
        # A forward proxy is asked for the whole URL (RFC 9112 section 3.2.2); a tunnel carries the usual one.
        self._target = endpoint.url + EVENTS_PATH if forwarded else endpoint.path
        self._forward_credential = self._proxy.authorization if self._proxy and forwarded else None

    def post(self, body: bytes, *, gzipped: bool, timeout_s: float) -> Answer:
        """Send one request and return its answer, whatever its status.

        A connection the server closed while idle is replaced and the request repeated once; event ids make
        that safe.

        Raises:
            SendError: no answer within `timeout_s` seconds of silence, or no connection.
        """
        reused = self._connection is not None and self._connection.sock is not None
        try:
            try:
                return self._exchange(body, gzipped, timeout_s)
            except _STALE:
                self.close()
                if not reused or self._aborted:
                    raise
                return self._exchange(body, gzipped, timeout_s)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise SendError(type(error).__name__) from None

    def _exchange(self, body: bytes, gzipped: bool, timeout_s: float) -> Answer:
        connection = self._connection or self._connect()
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        connection.request("POST", self._target, body=body, headers=self._headers(gzipped))
        response = connection.getresponse()
        answer = Answer(
            status=response.status,
            retry_after=response.getheader("Retry-After"),
            date=response.getheader("Date"),
            body=response.read(_MAX_ANSWER_BYTES),
        )
        if not response.isclosed():
            self.close()
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        endpoint, proxy = self._endpoint, self._proxy
        host, port = (proxy.host, proxy.port) if proxy else (endpoint.host, endpoint.port)
        if endpoint.scheme == "http":
            self._connection = http.client.HTTPConnection(host, port)
            return self._connection
        connection = http.client.HTTPSConnection(host, port, context=ssl.create_default_context())
        if proxy:
            credential = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
            connection.set_tunnel(endpoint.host, endpoint.port, headers=credential)
        self._connection = connection
        return connection

    def _headers(self, gzipped: bool) -> dict[str, str]:
        headers = {"Content-Type": "application/x-ndjson", "User-Agent": f"tracehold/{__version__}"}
        if gzipped:
            headers["Content-Encoding"] = "gzip"
        if self._endpoint.api_key:
            headers["Authorization"] = f"Bearer {self._endpoint.api_key}"
        if self._forward_credential:
            headers["Proxy-Authorization"] = self._forward_credential
        return headers

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()

    def forget(self) -> None:
        """In a forked child: close our copy of the parent's socket, and nothing else.

        The parent's thread may have been inside a read when it was copied; the reader's lock is then held for
        ever, and closing the connection in the usual way would wait for it.
        """
        connection, self._connection = self._connection, None
        sock = connection.sock if connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                os.close(sock.detach())

    def abort(self) -> None:
        """Wake the thread that waits for an answer; it then gets a `SendError`."""
        self._aborted = True
        connection = self._connection
        sock = connection.sock if connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
