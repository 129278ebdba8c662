"""One OTLP/HTTP receiver: its address, and one request to it at a time."""

from __future__ import annotations

import gzip
import http.client
import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final, Literal
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships without types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from tracehold.core.clock import NS_PER_S, now_ns
from tracehold.core.errors import ConfigurationError
from tracehold.core.version import __version__

from tracehold_collector.core.settings import is_loopback

TRACES_PATH: Final = "/v1/traces"
_RETRYABLE: Final = frozenset({408, 429, 502, 503, 504})
"""OTLP specification, section "Retryable Response Codes"; and 408, which asks for the same (RFC 9110, 15.5.9)."""
_BAD_DATA: Final = frozenset({400, 415, 422})
"""These judge the body. Any other status may as well be about the address or the credentials."""
_TOO_LARGE: Final = 413
_UNSUPPORTED: Final = 415
_MIN_COMPRESSED: Final = 1024
_COMPRESSION_LEVEL: Final = 1
_MAX_ANSWER_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one request.

    Attributes:
        verdict: "taken"; "later": the receiver asks for the same request again; "refused": it will never take
            it; "too_large": it may take it in smaller pieces; "unwelcome": refused, and not clear whether for what was
            sent or for where and by whom; "unreachable": no answer at all.
        reason: for a log: an HTTP status or the name of an exception, never content.
        retry_after_s: seconds the receiver asked to wait, when it did.
        rejected: spans the receiver took note of and threw away (`partial_success`).
        status: of HTTP; 0 when there was no answer.
    """

    verdict: Literal["taken", "later", "refused", "too_large", "unwelcome", "unreachable"]
    reason: str = ""
    retry_after_s: float | None = None
    rejected: int = 0
    status: int = 0


class Endpoint:
    """An OTLP/HTTP receiver. Keeps one connection; for one thread.

    Args:
        url: base address or full traces address of the receiver; `/v1/traces` is appended when missing.
        headers: sent with each request, such as `{"Authorization": "Bearer ..."}`; never logged.
        timeout_s: for connecting, and for each wait for bytes, in seconds.
        compress: whether bodies go in gzip, which every receiver has to take (OTLP, "Protocol Details"); `None`: yes,
            but on this machine, where it only costs time. One that answers 415 gets them plain from then on.

    Raises:
        ConfigurationError: the address or a header cannot be used; the text never repeats a header's value.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float = 10.0,
        compress: bool | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigurationError("the forward address is not one: give http://host:4318 or https://host/path")
        if parts.username is not None:
            raise ConfigurationError("the forward address holds a user name or password: give them as a header")
        try:
            self._port = parts.port
        except ValueError as error:
            raise ConfigurationError("the forward address has no valid port") from error
        path = parts.path.rstrip("/")
        self._path = path if path.endswith(TRACES_PATH) else path + TRACES_PATH
        self.shown = f"{parts.scheme}://{parts.netloc}{self._path}"
        self.origin = f"{parts.scheme}://{parts.netloc}"
        # Without the query, which may be a credential: a new one is no new receiver.
        port = self._port or (443 if parts.scheme == "https" else 80)
        self.identity = f"{parts.scheme}://{parts.hostname}:{port}{self._path}"
        self._target = self._path + (f"?{parts.query}" if parts.query else "")
        self._secure, self._host, self._timeout_s = parts.scheme == "https", parts.hostname, timeout_s
        self._compress = not is_loopback(parts.hostname) if compress is None else compress
        self._headers = {
            **_checked(headers or {}),
            "Content-Type": "application/x-protobuf",
            "User-Agent": f"tracehold/{__version__}",
        }
        self._connection: http.client.HTTPConnection | None = None

    def send(self, body: bytes) -> Answer:
        """Send one serialised `ExportTraceServiceRequest` and say what became of it; raises nothing."""
        reused = self._connection is not None
        packed = self._compress and len(body) >= _MIN_COMPRESSED
        sent = gzip.compress(body, _COMPRESSION_LEVEL, mtime=0) if packed else body
        answer = self._exchange(sent, packed=packed)
        if answer.verdict == "unreachable" and reused:
            # The receiver may have closed an idle connection meanwhile: that is no failure of its.
            answer = self._exchange(sent, packed=packed)
        if packed and answer.status == _UNSUPPORTED:
            self._compress = False
            answer = self._exchange(body, packed=False)
        return answer

    def close(self) -> None:
        """Close the connection; `send` would open a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, body: bytes, *, packed: bool) -> Answer:
        headers = {**self._headers, "Content-Encoding": "gzip"} if packed else self._headers
        try:
            if self._connection is None:
                make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
                self._connection = make(self._host, self._port, timeout=self._timeout_s)
            self._connection.request("POST", self._target, body, headers)
            response = self._connection.getresponse()
            answered = response.read(_MAX_ANSWER_BYTES)
            if not response.isclosed():
                self.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            return Answer("unreachable", type(error).__name__)
        return _judge(response.status, response.getheader("Retry-After"), answered)


def _judge(status: int, retry_after: str | None, body: bytes) -> Answer:
    reason = f"HTTP {status}"
    if 200 <= status < 300:  # noqa: PLR2004 - the class of success
        return Answer("taken", rejected=_rejected_spans(body), status=status)
    if status in _RETRYABLE:
        return Answer("later", reason, retry_after_s=read_retry_after(retry_after), status=status)
    if status == _TOO_LARGE:
        return Answer("too_large", reason, status=status)
    return Answer("refused" if status in _BAD_DATA else "unwelcome", reason, status=status)


def read_retry_after(value: str | None) -> float | None:
    """Return the seconds a `Retry-After` header asks for: a number, or until an HTTP date (RFC 9110)."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now_ns() / NS_PER_S
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _rejected_spans(body: bytes) -> int:
    try:
        return max(0, int(ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans))
    except DecodeError:  # some receivers answer with JSON or a line of text
        return 0


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise ConfigurationError("a forward header has a name that HTTP does not allow")
        if not value.isascii() or not value.isprintable():
            raise ConfigurationError(f"the forward header {name} has a value that HTTP does not allow")
    return dict(headers)
