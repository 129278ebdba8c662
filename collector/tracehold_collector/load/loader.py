"""Sends files piece by piece, waiting when the collector asks for it, and says what became of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tracehold_collector.api.ingest import ACCEPTED_HEADER, DUPLICATES_HEADER
from tracehold_collector.client import AskError, Client
from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.load.files import read_pieces
from tracehold_collector.load.piece import Piece
from tracehold_collector.load.resume import Progress
from tracehold_collector.sessions import Form

_MAX_WAIT_S: Final = 60.0
_MAX_REASONS: Final = 100


@dataclass(slots=True)
class FileResult:
    """What became of a file.

    Attributes:
        path: the file.
        accepted: events that are new in the store; `None` when nothing was answered.
        duplicates: events that were in the store already.
        rejected: items that could not be stored.
        reasons: why, the first few.
        error: why the file was left, or `None` when it was read to its end.
    """

    path: Path
    accepted: int | None = None
    duplicates: int | None = None
    rejected: int = 0
    reasons: list[str] = field(default_factory=list)
    error: str | None = None


def load_files(
    client: Client,
    files: Sequence[Path],
    *,
    form: Form = Form.AUTO,
    progress: Progress | None = None,
    on_bytes: Callable[[Path, int], None] = lambda _path, _offset: None,
    sleep: Callable[[float], None] = time.sleep,
) -> list[FileResult]:
    """Send `files` in order. A broken file is reported and the next one is sent; an unreachable collector ends it.

    Args:
        client: the collector to send to.
        files: as `find_files` returns them.
        form: what the files are said to be.
        progress: where offsets are kept, to resume; `None` begins each file at its start and keeps nothing.
        on_bytes: told after each acknowledged piece how far into a file the load is, in bytes.
        sleep: waits; replaced in tests.

    Raises:
        AskError: the collector cannot be reached, or refuses this sender.
    """
    return [_load(client, path, form, progress, on_bytes, sleep) for path in files]


def _load(
    client: Client,
    path: Path,
    form: Form,
    progress: Progress | None,
    on_bytes: Callable[[Path, int], None],
    sleep: Callable[[float], None],
) -> FileResult:
    result = FileResult(path)
    try:
        for piece in read_pieces(path, progress.offset(path) if progress else 0, form):
            if piece.body or not piece.rejected:
                _note(result, piece, _send(client, piece, sleep))
            for item in piece.rejected:
                _reject(result, 1, f"{item.where}: {item.reason}")
            if progress:
                progress.keep(path, piece.offset)
            on_bytes(path, piece.offset)
    except BadBodyError as error:
        result.error = str(error)
    else:
        if progress:
            progress.forget(path)
    return result


def _send(client: Client, piece: Piece, sleep: Callable[[float], None]) -> httpx.Response:
    waited = 0.0
    while True:
        response = client.post(piece.path, piece.body, piece.content_type)
        if response.is_success:
            return response
        if response.status_code in {400, 413, 415}:
            raise BadBodyError(_message(response))
        pause = _retry_after(response)
        waited += pause
        if waited > _MAX_WAIT_S:
            raise AskError(
                f"the collector at {client.url} has been busy for {_MAX_WAIT_S:g} s; run the same command again"
            )
        sleep(pause)


def _note(result: FileResult, piece: Piece, response: httpx.Response) -> None:
    if piece.path == "/v1/events":
        answer = response.json()
        _accept(result, answer["accepted"], answer["duplicates"])
        _reject(
            result,
            answer["rejected_count"],
            "; ".join(f"{item['where']}: {item['reason']}" for item in answer["rejected"][:3]),
        )
        return
    headers = response.headers
    _accept(result, int(headers.get(ACCEPTED_HEADER, 0)), int(headers.get(DUPLICATES_HEADER, 0)))
    if piece.content_type == "application/json":
        partial: dict[str, Any] = response.json().get("partialSuccess") or {}
        rejected = next((int(count) for key, count in partial.items() if key.startswith("rejected")), 0)
        _reject(result, rejected, str(partial.get("errorMessage", "")))
    else:
        message = ExportTraceServiceResponse.FromString(response.content).partial_success
        _reject(result, message.rejected_spans, message.error_message)


def _accept(result: FileResult, accepted: int, duplicates: int) -> None:
    result.accepted = (result.accepted or 0) + accepted
    result.duplicates = (result.duplicates or 0) + duplicates


def _reject(result: FileResult, count: int, reason: str) -> None:
    result.rejected += count
    if reason and len(result.reasons) < _MAX_REASONS:
        result.reasons.append(reason)


def _message(response: httpx.Response) -> str:
    try:
        answer = response.json()
    except ValueError:
        return f"the collector answered {response.status_code}"
    return str(answer.get("error") or answer.get("message"))


def _retry_after(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(float(text), 10.0) if text.isdigit() else 1.0
