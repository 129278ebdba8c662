"""What an answer of the collector means for the events that were sent.

=====================  ===================================================================================
200 with our JSON      taken; rejected events are counted, never sent again
408, 429, 5xx          try again, no sooner than `Retry-After` asks
400, 413, 422          refused as it stands: halve it, so that one bad event does not take its neighbours down
415                    a middle box or an older collector does not read gzip: send it plain
everything else        a fault of the set-up (key, URL, another server): keep, say so once, try slowly
=====================  ===================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

import orjson

from tracehold.observability.exporters.collector.backoff import parse_retry_after
from tracehold.observability.exporters.collector.transport import Answer

_OK = 200
_RETRY = frozenset({408, 425, 429})
_HALVE = frozenset({400, 413, 422})
_PLAIN = 415
_SERVER_ERROR = 500
_REASON_CHARS = 200


class Action(Enum):
    """What to do with the events of a request."""

    TAKEN = "taken"
    RETRY = "retry"
    HALVE = "halve"
    PLAIN = "plain"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer, judged.

    Attributes:
        action: what to do now.
        status: "HTTP 429", or "not a Tracehold collector"; for logs and `stats()`.
        rejected: events of a taken batch that the collector refused for good.
        duplicates: events of a taken batch that it already had.
        asked_s: seconds it asks us to stay away, or `None`.
        reason: why it refused the first event it refused, in its own words; `None` when it does not say.
    """

    action: Action
    status: str
    rejected: int = 0
    duplicates: int = 0
    asked_s: float | None = None
    reason: str | None = None


def judge(answer: Answer, now: datetime) -> Verdict:
    """Return what `answer` means; the table is at the top of this module."""
    status = f"HTTP {answer.status}"
    if answer.status == _OK:
        return _judge_taken(answer)
    if answer.status in _RETRY or answer.status >= _SERVER_ERROR:
        asked_s = parse_retry_after(answer.retry_after, date=answer.date, now=now)
        return Verdict(Action.RETRY, status, asked_s=asked_s)
    if answer.status in _HALVE:
        return Verdict(Action.HALVE, status, reason=_reason(_said(answer), "error"))
    if answer.status == _PLAIN:
        return Verdict(Action.PLAIN, status)
    return Verdict(Action.KEEP, status)


def _judge_taken(answer: Answer) -> Verdict:
    """Read a 200. A login page, or another program on the port, says 200 as well and would swallow events."""
    try:
        said = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        if answer.body[:1] in {b"", b"{"}:  # ours, and the connection broke on the way
            return Verdict(Action.RETRY, "HTTP 200, cut short")
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("accepted"), int):
        return Verdict(Action.KEEP, "not a Tracehold collector")
    # The list of rejections may be cut by the collector; its count never is.
    rejected, duplicates = said.get("rejected_count"), said.get("duplicates")
    if not isinstance(rejected, int):
        rejected = len(said["rejected"]) if isinstance(said.get("rejected"), list) else 0
    return Verdict(
        Action.TAKEN,
        "HTTP 200",
        rejected=max(0, rejected),
        duplicates=duplicates if isinstance(duplicates, int) else 0,
        reason=_first_reason(said.get("rejected")),
    )


def _said(answer: Answer) -> object:
    try:
        return orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return None


def _first_reason(rejected: object) -> str | None:
    first = rejected[0] if isinstance(rejected, list) and rejected else None
    reason, where = _reason(first, "reason"), _reason(first, "where")
    return f"{where}: {reason}" if reason and where else reason


def _reason(said: object, key: str) -> str | None:
    """Return a text of the collector's as a log may have it: on one line, and not long."""
    text = said.get(key) if isinstance(said, dict) else None
    if not isinstance(text, str):
        return None
    text = "".join(letter if letter.isprintable() else " " for letter in text).strip()
    return text if len(text) <= _REASON_CHARS else text[: _REASON_CHARS - 3] + "..."
