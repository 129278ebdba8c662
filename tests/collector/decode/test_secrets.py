"""Nothing leaves the decoder unmasked, wherever a sender put it (FR-35), and ids pass untouched (FR-43)."""

from __future__ import annotations

import base64
import json
import random
import string
from dataclasses import replace
from typing import Any

import orjson
import pytest
from tracehold_collector.core.record import Record
from tracehold_collector.decode.events import decode_events
from tracehold_collector.decode.otlp import decode_otlp_traces
from tracehold_collector.normalise.context import NormaliseContext

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
_random = random.Random(5)
KEY = "sk-" + "proj-" + "".join(_random.choices(string.ascii_letters + string.digits, k=48))
CARD = 4111_1111_1111_1111
TEXT = f"use {KEY} now"


def text(value: str) -> dict[str, Any]:
    return {"stringValue": value}


def pair(key: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"key": key, "value": value}


PLACES: dict[str, dict[str, Any]] = {
    "string": {"attributes": [pair("a", text(TEXT))]},
    "array element": {"attributes": [pair("a", {"arrayValue": {"values": [text(TEXT)]}})]},
    "map value": {"attributes": [pair("a", {"kvlistValue": {"values": [pair("k", text(TEXT))]}})]},
    "map key": {"attributes": [pair("a", {"kvlistValue": {"values": [pair(KEY, text("v"))]}})]},
    "attribute key": {"attributes": [pair(KEY, text("v"))]},
    "nested map in array": {
        "attributes": [pair("a", {"arrayValue": {"values": [{"kvlistValue": {"values": [pair("k", text(TEXT))]}}]}})]
    },
    "bytes": {"attributes": [pair("a", {"bytesValue": base64.b64encode(TEXT.encode()).decode()})]},
    "binary bytes": {"attributes": [pair("a", {"bytesValue": base64.b64encode(b"\xff " + TEXT.encode()).decode()})]},
    "JSON text": {"attributes": [pair("a", text(json.dumps({"inner": TEXT})))]},
    "event attribute": {"events": [{"name": "e", "attributes": [pair("a", text(TEXT))]}]},
    "event name": {"events": [{"name": TEXT}]},
    "link attribute": {"links": [{"traceId": TRACE, "spanId": SPAN, "attributes": [pair("a", text(TEXT))]}]},
    "status message": {"status": {"code": 2, "message": TEXT}},
    "span name": {"name": TEXT},
    "trace state": {"traceState": f"vendor={KEY}"},
    "tool name": {
        "attributes": [pair("gen_ai.tool.name", text(KEY)), pair("gen_ai.operation.name", text("execute_tool"))]
    },
    "model name": {"attributes": [pair("gen_ai.request.model", text(KEY))]},
    "tool call id": {"attributes": [pair("gen_ai.tool.call.id", text(KEY))]},
    "type": {"attributes": [pair("gen_ai.operation.name", text(KEY))]},
    "rule": {"attributes": [pair("tracehold.rule", text(KEY))]},
    "session id": {"attributes": [pair("session.id", text(KEY))]},
}


def decode(context: NormaliseContext, span: dict[str, Any], resource: Any = None, scope: Any = None) -> Record:
    whole = {"traceId": TRACE, "spanId": SPAN, "name": "work"} | span
    body = {"resourceSpans": [{"resource": resource or {}, "scopeSpans": [{"scope": scope or {}, "spans": [whole]}]}]}
    (record,) = decode_otlp_traces(json.dumps(body).encode(), encoding="json", context=context).records
    return record


def everything(record: Record) -> str:
    fields = {name: getattr(record, name) for name in Record.__dataclass_fields__ if name != "event_id"}
    return orjson.dumps(fields).decode()


@pytest.mark.parametrize("place", sorted(PLACES))
def test_a_key_is_masked_wherever_it_stands(place: str, context: NormaliseContext) -> None:
    stored = everything(decode(context, PLACES[place]))
    assert KEY not in stored
    assert base64.b64encode(TEXT.encode()).decode() not in stored


def test_a_key_in_a_resource_or_scope_is_masked(context: NormaliseContext) -> None:
    attributes = {"attributes": [pair("a", text(TEXT)), pair("service.name", text(KEY))]}
    stored = everything(decode(context, {}, resource=attributes, scope={"name": TEXT, "version": KEY, **attributes}))
    assert KEY not in stored


def test_a_card_number_that_is_an_integer_is_masked(context: NormaliseContext) -> None:
    record = decode(context, {"attributes": [pair("n", {"intValue": str(CARD)})]})
    assert str(CARD) not in everything(record)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "tool_call", "tool": "t", "params": {"a": [TEXT]}, "reason": TEXT},
        {"type": "span", "name": TEXT, "attributes": {KEY: 1}},
        {"type": KEY, "agent": KEY, "model": KEY, "service": KEY, "decided_by": KEY, "origin": KEY, "call_id": KEY},
        {"type": "run_error", "error": TEXT, "error_type": KEY, "user": KEY, "session": KEY},
        {"id": "1", "type": "aaa.tool.requested", "run_id": "r", "data": {"name": KEY, "arguments": {"x": TEXT}}},
        {"specversion": "1.0", "id": "1", "type": "other", "source": "s", "subject": TEXT, "ext": KEY},
    ],
)
def test_a_key_in_a_native_event_is_masked(event: dict[str, Any], context: NormaliseContext) -> None:
    (record,) = decode_events(orjson.dumps(event), encoding="json", context=context).records
    assert KEY not in everything(record)


def test_what_cannot_be_masked_is_not_stored(context: NormaliseContext) -> None:
    # DEC-19
    class Broken:
        def clean(self, value: Any, *, max_len: int | None = None) -> Any:
            raise RecursionError(TEXT)

    resource = {"attributes": [pair("a", text(TEXT))]}
    record = decode(replace(context, cleaner=Broken()), PLACES["string"], resource=resource)
    assert record.content == {"uncleanable": "RecursionError"}
    assert (record.trace_id, record.span_id) == (TRACE, SPAN)
    assert KEY not in everything(record)


IDS = (
    "d670460b4b4aece5915caf5c68d12f560a9fe3e4",
    "d670460",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    TRACE,
    SPAN,
    "123e4567-e89b-12d3-a456-426614174000",
    "01M509MWT9VCW2HWP8WCXNQH3R",
    f"00-{TRACE}-{SPAN}-01",
    "chatcmpl-C4GmWI2Sl7HnrQsKorSAZkJy94dpT",
)


@pytest.mark.parametrize("value", IDS)
def test_an_id_is_stored_as_it_came(value: str, context: NormaliseContext) -> None:
    # FR-43
    attributes = [pair("vcs.revision", text(value)), pair("tracehold.run_id", text(value)), pair("k", text(TEXT))]
    record = decode(context, {"attributes": attributes, "links": [{"traceId": TRACE, "spanId": SPAN}]})
    content = record.content or {}
    assert value == content["attributes"]["vcs.revision"] == record.run_id
    assert content["links"] == [{"trace_id": TRACE, "span_id": SPAN}]
    assert KEY not in everything(record)
