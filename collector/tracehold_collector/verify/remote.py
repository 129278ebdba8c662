"""A log that a collector hands out over HTTP. What it says is checked, not believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from tracehold_collector.core.errors import AuditError
from tracehold_collector.store.log_rows import Contents, window_of
from tracehold_collector.verify.window import LogState, Window
from tracehold_collector.verify.wire import MEDIA_TYPE, read_state, read_window

_AHEAD: Final = 1
"""Windows asked for before their turn: more would only share one interpreter at the collector."""


class Answer(Protocol):
    """An HTTP answer."""

    @property
    def content(self) -> bytes:
        """Its body."""
        ...

    def json(self) -> Any:
        """Return its body, parsed."""
        ...


class Asking(Protocol):
    """Asks a collector; `tracehold_collector.client.Client` does."""

    def get(self, path: str, parameters: Mapping[str, Any] | None = None, *, accept: str = ...) -> Answer:
        """GET, with errors that say what to do."""
        ...


class RemoteLog:
    """Reads the logs of a collector, some windows ahead of who checks them.

    Args:
        client: asks.
        contents: what to do about contents.
    """

    def __init__(self, client: Asking, *, contents: Contents = "check") -> None:
        self._client = client
        self._contents = contents

    def state(self, tenant: str) -> LogState:
        """Return what there is of a tenant's log.

        Raises:
            CollectorError: the collector refused, or makes no sense.
        """
        return read_state(self._client.get("/api/v1/log/state", {"tenant": tenant}).json())

    def frontier(self, tenant: str, size: int) -> list[bytes]:
        """Return the roots of the full subtrees of the first `size` leaves.

        Raises:
            CollectorError: the collector refused, or makes no sense.
        """
        said = self._client.get("/api/v1/log/frontier", {"tenant": tenant, "size": size}).json()
        try:
            return [bytes.fromhex(node) for node in said["nodes"]]
        except (KeyError, TypeError, ValueError) as error:
            raise AuditError("the collector's answer about its log cannot be read") from error

    def windows(self, tenant: str, first: int, end: int) -> Iterator[Window]:
        """Yield the stretches of [first, end); the next ones are fetched meanwhile.

        Raises:
            CollectorError: the collector refused, or makes no sense.
        """
        width = window_of(self._contents)
        starts = [first, *range((first // width + 1) * width, end, width)]
        stretches = list(zip(starts, [*starts[1:], end], strict=True)) if first < end else []
        with ThreadPoolExecutor(_AHEAD, thread_name_prefix="tracehold-verify") as pool:
            asked = [pool.submit(self._window, tenant, *stretch) for stretch in stretches[:_AHEAD]]
            for place, (start, upto) in enumerate(stretches):
                window = asked.pop(0).result()
                if place + _AHEAD < len(stretches):
                    asked.append(pool.submit(self._window, tenant, *stretches[place + _AHEAD]))
                yield window
                if window.first != start or len(window.hashes) < (upto - start) * 32:
                    break
            for rest in asked:
                rest.cancel()

    def _window(self, tenant: str, first: int, end: int) -> Window:
        given = {"tenant": tenant, "first": first, "end": end, "contents": self._contents}
        return read_window(self._client.get("/api/v1/log/window", given, accept=MEDIA_TYPE).content)
