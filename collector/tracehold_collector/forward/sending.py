"""Brings spans to a receiver, however long it takes, and tells apart what will never be taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tracehold_collector.forward.backoff import Backoff
from tracehold_collector.forward.endpoint import Answer, Endpoint
from tracehold_collector.forward.otlp import OutgoingSpan, request_of

UNSAYABLE: Final = "cannot be said in OTLP"

_TRIES_WHEN_WELCOME: Final = 3

_PROBE: Final = request_of([OutgoingSpan(Span(), {"attributes": {"service.name": "tracehold"}}, {})])
del _PROBE.resource_spans[0].scope_spans[:]
_PROBE_BODY: Final = bytes(_PROBE.SerializeToString())
"""A request with a resource and no span: whoever refuses it refuses us, not what we send."""

_UNSAYABLE: Final = Answer("too_large", UNSAYABLE)


class Patience(Protocol):
    """Says how long a sender may go on."""

    def is_over(self) -> bool:
        """Whether to stop now."""

    def pause(self, answer: Answer, seconds: float) -> bool:
        """Wait after trouble; false when there is no time for another attempt."""


class Sender:
    """Sends batches one after the other. For one thread.

    A receiver that cannot be reached, or asks to come back later, is asked again for as long as it takes. A body that
    it calls bad (400, 415, 422) is not sent again; one that is too large for it (413) goes in halves.

    Any other refusal, such as 401, 404 or 500, may be about the address, the credentials or its own state. So the
    batch waits while the receiver refuses an empty request too: a credential that expires then costs nothing. When it
    takes the empty one, the batch is tried again a few times and then counts as refused: what is wrong is in it.

    Args:
        endpoint: the receiver.
        backoff: how long to wait between attempts.
        patience: how long to go on.
    """

    def __init__(self, endpoint: Endpoint, backoff: Backoff, patience: Patience) -> None:
        self._endpoint = endpoint
        self._backoff = backoff
        self._patience = patience
        self._tries = self._suspects = 0

    def deliver(self, spans: Sequence[OutgoingSpan], settle: Callable[[int, Answer], None]) -> bool:
        """Send `spans`, in order; false when the rest is to be read and sent again, after a wait that is over by then.

        To be read again, because a content may be erased while the receiver is away.

        Args:
            spans: what to send.
            settle: called with each number of next spans that came to an end, and the answer that ended it.
        """
        # What was refused is not sent again with more beside it, which would share its fate.
        alone = self._suspects or len(spans)
        pieces = [piece for piece in (spans[alone:], spans[:alone]) if piece]
        while pieces:
            piece = pieces.pop()
            answer = self._last_answer(piece)
            if answer is None:
                return False
            if answer.verdict == "too_large" and len(piece) > 1:
                middle = len(piece) // 2
                pieces += [piece[middle:], piece[:middle]]
            else:
                settle(len(piece), answer)
        return True

    def _last_answer(self, piece: Sequence[OutgoingSpan]) -> Answer | None:
        """The answer that ends it; `None` when there is none yet."""
        try:
            body = bytes(request_of(piece).SerializeToString())
        except Exception:  # noqa: BLE001 - by halves until the one that nobody foresaw stands alone
            return _UNSAYABLE
        if self._patience.is_over():
            return None
        answer = self._endpoint.send(body)
        if answer.verdict == "unwelcome" and self._tries < _TRIES_WHEN_WELCOME - 1:
            self._tries, self._suspects = self._tries + 1, len(piece)
            self._wait_until_welcome(answer)
            return None
        self._tries = self._suspects = 0
        if answer.verdict in {"later", "unreachable"}:
            self._pause(answer)
            return None
        self._backoff.reset()
        return answer

    def _wait_until_welcome(self, answer: Answer) -> None:
        while self._pause(answer):
            answer = self._endpoint.send(_PROBE_BODY)
            # One that calls an empty request bad has read it.
            if answer.verdict in {"taken", "refused"}:
                return

    def _pause(self, answer: Answer) -> bool:
        return self._patience.pause(answer, self._backoff.wait_s(answer.retry_after_s))
