"""The command's own HTTP client: asks the running collector, never the file behind its back (design: decision 2)."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import httpx

from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.sent_events import SentEvent, read_sent_events

DEFAULT_URL: Final = "http://127.0.0.1:4318"

_READ_TIMEOUT_S = 60.0
_SILENCE_S = 45.0
"""Three times as long as a collector is silent in a stream of events."""


class AskError(CollectorError):
    """The collector could not be reached, or refused."""


class UnreachableError(AskError):
    """Nobody answers there, or the connection broke: it may pass."""


class BusyError(AskError):
    """The collector has too much to do just now, and says when to come back.

    Attributes:
        retry_after_s: seconds.
    """

    def __init__(self, message: str, retry_after_s: int) -> None:
        """Keep both."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Client:
    """Talks to one collector. The key comes from `TRACEHOLD_API_KEY` and is shown to nobody else.

    Args:
        url: the collector's address.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        key = os.environ.get("TRACEHOLD_API_KEY")
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(_READ_TIMEOUT_S, connect=5.0),
            trust_env=False,
            # The system's authorities and those of SSL_CERT_FILE, as every other client has them.
            verify=ssl.create_default_context() if self.url.startswith("https:") else True,
        )

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, _type: object, _error: BaseException | None, _trace: TracebackType | None) -> None:
        """Close its connections."""
        self._http.close()

    def query(self, name: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a named query."""
        answer = self.get(f"/api/v1/queries/{name}", parameters).json()
        return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]

    def get(
        self, path: str, parameters: Mapping[str, Any] | None = None, *, accept: str = "application/json"
    ) -> httpx.Response:
        """GET, with our errors.

        Raises:
            AskError: not reached, or refused; says what to do.
        """
        given = {key: value for key, value in (parameters or {}).items() if value is not None}
        return self._checked("GET", path, params=given, headers={"Accept": accept})

    def post(self, path: str, body: bytes, content_type: str) -> httpx.Response:
        """POST a body; 400, 413, 415 (what is wrong with it), 429, 503 (come back later) are the caller's to read.

        Raises:
            AskError: not reached, or refused; says what to do.
        """
        return self._checked(
            "POST",
            path,
            content=body,
            headers={"Content-Type": content_type},
            passing={400, 413, 415, 429, 503},
        )

    def ask(
        self, path: str, question: Mapping[str, Any], *, accept: str = "application/json", wait_s: float | None = None
    ) -> httpx.Response:
        """POST a question as JSON, with our errors.

        Args:
            path: where to.
            question: the JSON object.
            accept: the form of the answer.
            wait_s: for the answer to begin; `None` waits as long as it takes.

        Raises:
            AskError: not reached, or refused; says what to do.
        """
        headers = {"Content-Type": "application/json", "Accept": accept}
        timeout = httpx.Timeout(wait_s, connect=5.0)
        return self._checked(
            "POST", path, content=json.dumps(dict(question)).encode(), headers=headers, timeout=timeout
        )

    @contextlib.contextmanager
    def stream(self, path: str, parameters: Mapping[str, Any]) -> Iterator[tuple[httpx.Headers, Iterator[bytes]]]:
        """GET a long answer: its headers, and its bytes as they come.

        Raises:
            AskError: not reached, refused, or cut off; says what to do.
        """
        given = {key: value for key, value in parameters.items() if value is not None}
        try:
            with self._http.stream("GET", path, params=given, timeout=httpx.Timeout(None, connect=5.0)) as response:
                if not response.is_success:
                    response.read()
                    raise AskError(_refusal(self.url, response))
                yield response.headers, response.iter_bytes()
        except httpx.RemoteProtocolError as error:
            raise AskError(f"the collector at {self.url} broke off in the middle of the answer; ask again") from error
        except httpx.TransportError as error:
            raise _unreachable(self.url, error) from error

    def lines(self, path: str, body: bytes) -> Iterator[bytes]:
        """POST a JSON body and yield the answer's lines as they come; long work says how far it is.

        Raises:
            AskError: not reached, refused, or cut off; says what to do.
        """
        lines = self._streamed("POST", path, content=body, headers={"Content-Type": "application/json"})
        yield from (line.encode() for line in lines if line)

    def found(self, path: str, parameters: Mapping[str, Any]) -> Iterator[bytes]:
        """GET, and yield the answer's lines as they come. Raises as `lines` does."""
        lines = self._streamed("GET", path, params={k: v for k, v in parameters.items() if v is not None})
        yield from (line.encode() for line in lines if line)

    def sent_events(self, path: str, parameters: Mapping[str, Any], last_id: str) -> Iterator[SentEvent]:
        """GET, and yield Server-Sent Events as they come; ends when the collector ends them.

        Raises:
            UnreachableError: not reached, cut off, or silent for longer than a collector is; ask again by the last id.
            BusyError: there are too many readers.
            AskError: refused; says what to do.
        """
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        given = {k: v for k, v in parameters.items() if v is not None}
        patience = httpx.Timeout(_SILENCE_S, connect=5.0)
        yield from read_sent_events(self._streamed("GET", path, params=given, headers=headers, timeout=patience))

    def _streamed(self, method: str, path: str, **request: Any) -> Iterator[str]:
        try:
            with self._http.stream(method, path, **({"timeout": None} | request)) as response:
                if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
                    response.read()
                    raise BusyError(_refusal(self.url, response), int(response.headers.get("retry-after") or 1))
                if not response.is_success:
                    response.read()
                    raise AskError(_refusal(self.url, response))
                yield from response.iter_lines()
        except httpx.TransportError as error:
            raise _unreachable(self.url, error) from error

    def _checked(self, method: str, path: str, *, passing: set[int] | None = None, **request: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise _unreachable(self.url, error) from error
        if response.is_success or response.status_code in (passing or ()):
            return response
        raise AskError(_refusal(self.url, response))


def _unreachable(url: str, error: Exception) -> UnreachableError:
    return UnreachableError(
        f"no collector answers at {url} ({type(error).__name__}). Start one with 'tracehold up', or name another with "
        "--url or TRACEHOLD_URL"
    )


def _refusal(url: str, response: httpx.Response) -> str:
    try:
        answer = response.json()
        text = ". ".join(str(answer[key]) for key in ("error", "message", "hint") if answer.get(key))
    except ValueError:
        text = ""
    if response.status_code == httpx.codes.UNAUTHORIZED:
        return (
            f"the collector at {url} does not take the key in TRACEHOLD_API_KEY, or none is set there: {text}. Set it "
            "to one that 'tracehold keys create' made, or to the one it was started with"
        )
    return text or f"the collector at {url} answered {response.status_code}"
