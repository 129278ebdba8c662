"""Logs of Inspect (inspect_ai), `.json` and `.eval`: each sample of an evaluation is a run.

Source: "Log Files" and the reference of `inspect_ai.event` and `inspect_ai.log` in Inspect's documentation.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from typing import IO, Any, Final

from tracehold.core.clock import NS_PER_S

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.core.limits import DEFAULT_LIMITS
from tracehold_collector.core.record import Rejection
from tracehold_collector.decode.json_text import parse_json
from tracehold_collector.sessions import inspect_events
from tracehold_collector.sessions.reading import (
    Event,
    Reader,
    Session,
    guarded,
    items,
    mapping,
    others,
    run_id,
    text,
    time_ns,
    too_deep,
    width_ns,
)

_FORM: Final = "inspect"
_MAX_ARCHIVE_BYTES: Final = 512 * 1024 * 1024
_ENDED: Final = {"success": "ok", "cancelled": "cancelled", "error": "error"}
_REPEATED: Final = ("messages", "events", "attachments", "output", "id", "epoch", "model_usage", "timelines")
"""Parts of a sample that its events say."""

_EVAL: Final = ("task", "task_version", "model", "created", "config", "revision", "packages", "tags", "metadata")


def looks(value: Any) -> bool:
    """Whether a parsed document is surely an Inspect log."""
    about = value.get("eval") if isinstance(value, dict) else None
    return isinstance(about, dict) and "task" in about and "status" in value


def read(log: Any) -> Iterator[Event | Rejection]:
    """Yield the events of a log, sample by sample."""
    samples = items(log.get("samples"))
    for place, sample in enumerate(samples):
        where = f"samples[{place}]"
        if not isinstance(sample, dict):
            yield Rejection(where, "a sample must be an object")
            continue
        yield from guarded(where, _sample(log, sample, where, alone=len(samples) == 1))


def archive(file: IO[bytes] | gzip.GzipFile) -> dict[str, Any]:
    """Return the document that the parts of an `.eval` file make.

    Raises:
        BadBodyError: it is no such file, is damaged or too large, or is packed in a way that Python cannot undo.
    """
    try:
        with zipfile.ZipFile(file) as packed:
            if sum(info.file_size for info in packed.infolist()) > _MAX_ARCHIVE_BYTES:
                raise BadBodyError(f"the archive unpacks to more than {_MAX_ARCHIVE_BYTES} bytes")
            names = packed.namelist()
            head = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
            if head is None:
                raise BadBodyError("the archive has no header.json: it is no log of Inspect")
            log = mapping(_part(packed, head))
            samples = sorted(name for name in names if name.startswith("samples/") and name.endswith(".json"))
            return {"status": "started", **log, "samples": [_part(packed, name) for name in samples]}
    except (zipfile.BadZipFile, EOFError) as error:
        raise BadBodyError(f"the archive is damaged: {error}") from error
    except NotImplementedError as error:
        raise BadBodyError(
            "the archive is packed in a way that is not read here; make it JSON with `inspect log convert --to json`"
        ) from error


def _part(packed: zipfile.ZipFile, name: str) -> Any:
    return parse_json(packed.read(name), DEFAULT_LIMITS.max_depth).value


def _sample(log: dict[str, Any], sample: dict[str, Any], where: str, *, alone: bool) -> Iterator[Event | Rejection]:
    about = log["eval"]
    log_id = text(about.get("eval_id")) or f"{about.get('run_id')}:{about.get('task_id')}"
    name = f"{log_id}:{sample.get('id')}:{sample.get('epoch')}"
    session = Session(_FORM, name, run_id(_FORM, name), _FORM)
    task = text(about.get("task"))
    found = items(sample.get("events"))
    attachments = mapping(sample.get("attachments"))
    usage = None
    if not any(isinstance(event, dict) and event.get("event") == "model" for event in found):
        # No call tells what it took: the sum is said by the run, where it adds to no call's.
        usage = mapping(sample.get("model_usage")) or (
            mapping(mapping(log.get("stats")).get("model_usage")) if alone else {}
        )
    start, end = _times(sample, found)
    problem = too_deep(others(sample, "events", "messages"), where)
    if problem is not None:
        yield problem
    error = mapping(sample.get("error"))
    yield session.run(
        name=task,
        agent=task,
        status="error" if error or sample.get("limit") else _ENDED.get(str(log.get("status")), "unset"),
        error_type="limit" if sample.get("limit") and not error else None,
        started_at_ns=start,
        duration_ns=width_ns(start, end),
        model=text(about.get("model")) if usage else None,
        usage=inspect_events.summed(usage) if usage else None,
        eval={key: about[key] for key in _EVAL if about.get(key) not in (None, {}, [])},
        sample=None if problem else inspect_events.attached(others(sample, *_REPEATED), attachments),
    )
    yield from inspect_events.read(session, found, attachments, where, agent=task)
    if not found:
        yield from _messages(session, items(sample.get("messages")), where, agent=task)


def _times(sample: dict[str, Any], found: list[Any]) -> tuple[int | None, int | None]:
    times = [time_ns(event.get("timestamp")) for event in found if isinstance(event, dict)]
    known = [at for at in times if at is not None]
    start = time_ns(sample.get("started_at")) or (known[0] if known else None)
    end = time_ns(sample.get("completed_at")) or (max(known) if known else None)
    total = sample.get("total_time")
    if end is None and start is not None and isinstance(total, int | float):
        end = start + int(total * NS_PER_S)
    return start, end


def _messages(session: Session, messages: list[Any], where: str, *, agent: str | None) -> Iterator[Event | Rejection]:
    """Yield what the conversation of a sample shows of its calls, when its events were not written: no times."""
    asked: dict[str, Any] = {}
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            yield Rejection(f"{where}.messages[{place}]", "a message must be an object")
            continue
        problem = too_deep(message, f"{where}.messages[{place}]")
        if problem is not None:
            yield problem
            continue
        local, role = f"message/{place}", message.get("role")
        if role == "assistant" and message.get("source") != "input":
            asked |= {str(call.get("id")): call for call in items(message.get("tool_calls")) if isinstance(call, dict)}
            yield session.event(
                local,
                "llm_call",
                agent=agent,
                step_index=place,
                model=text(message.get("model")),
                output=message.get("content"),
                said=others(message, "role", "model", "content"),
            )
        elif role == "tool":
            call = mapping(asked.get(str(message.get("tool_call_id"))))
            yield session.event(
                local,
                "tool_call",
                agent=agent,
                step_index=place,
                tool=text(message.get("function")),
                call_id=text(message.get("tool_call_id")),
                params=call.get("arguments"),
                result=message.get("content"),
                **inspect_events.outcome(message.get("error"), None),
            )
        else:
            kind = "session" if role == "user" else "context"
            yield session.event(local, "inspect.message", kind=kind, status="unset", step_index=place, message=message)


READER: Final = Reader(_FORM, "an Inspect log", lines=False, looks=looks, read=read)
