"""Redaction: wherever a secret stands and whoever sent it, it does not reach the disk."""

from __future__ import annotations

import base64
import json
import random
import string
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.world import TRACE, World, attributes, span
from tracehold_collector.serve import CollectorServer

_random = random.Random(11)
KEY = "sk-" + "proj-" + "".join(_random.choices(string.ascii_letters + string.digits, k=48))
GOOGLE = "AI" + "za" + "".join(_random.choices(string.ascii_letters + string.digits, k=35))
CARD = 4111_1111_1111_1111
TEXT = f"use {KEY} now"


def pairs(**of: Any) -> list[dict[str, Any]]:
    return attributes(of)


PLACES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # fields of the span; resource and scope
    "string": ({"attributes": pairs(a=TEXT)}, {}),
    "array element": ({"attributes": pairs(a=["x", TEXT])}, {}),
    "map value": ({"attributes": pairs(a={"kvlistValue": {"values": pairs(k=TEXT)}})}, {}),
    "map key": ({"attributes": pairs(a={"kvlistValue": {"values": pairs(**{KEY: "v"})}})}, {}),
    "nested map in array": (
        {"attributes": pairs(a={"arrayValue": {"values": [{"kvlistValue": {"values": pairs(k=TEXT)}}]}})}, {},
    ),
    "bytes": ({"attributes": pairs(a={"bytesValue": base64.b64encode(TEXT.encode()).decode()})}, {}),
    "JSON text in a string": ({"attributes": pairs(a=json.dumps({"inner": [TEXT]}))}, {}),
    "integer card number": ({"attributes": pairs(a=CARD)}, {}),
    "event attribute": ({"events": [{"name": "e", "attributes": pairs(a=TEXT)}]}, {}),
    "link attribute": ({"links": [{"traceId": TRACE, "spanId": "b" * 16, "attributes": pairs(a=TEXT)}]}, {}),
    "resource attribute": ({}, {"resource": {"attributes": pairs(a=TEXT)}}),
    "scope attribute": ({}, {"scope": {"name": "s", "attributes": pairs(a=TEXT)}}),
    "status message": ({"status": {"code": 2, "message": TEXT}}, {}),
    "span name": ({"name": TEXT}, {}),
    "trace state": ({"traceState": f"vendor={KEY}"}, {}),
}  # fmt: skip


def disk(folder: Path) -> bytes:
    """Everything the collector wrote, its unpacked contents included."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_fr_35_there_are_fifteen_places() -> None:  # FR-35
    assert len(PLACES) == 15


@pytest.mark.parametrize("place", PLACES)
def test_fr_35_a_key_is_masked_before_it_reaches_the_disk(
    place: str, serve: Callable[..., CollectorServer], tmp_path: Path
) -> None:  # FR-35
    fields, around = PLACES[place]
    server = serve()
    world = World(server)
    world.send(span(0, **fields), **around)
    (event,) = world.ask.rows("run_events", run_id=TRACE)
    shown = json.dumps([*world.shown_everywhere(0), world.ask.content(event["event_id"]), event])
    world.close()
    server.close()
    written = disk(tmp_path / "data")
    assert len(written) > 10_000
    for secret in (KEY, str(CARD), base64.b64encode(TEXT.encode()).decode()):
        assert secret not in shown
        assert secret.encode() not in written
    assert "REDACTED" in shown


FOREIGN = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.prompt",
    "input.value",
    "llm.input_messages.0.message.content",
    "llm.input_messages.0.message.tool_calls.0.tool_call.function.arguments",
    "ai.prompt.messages",
    "http.request.header.authorization",
)


def test_fr_37_spans_of_other_instrumentations_are_masked_like_our_own(world: World) -> None:  # FR-37
    said = {name: f"Bearer {KEY}" if name.endswith("authorization") else json.dumps([{"c": TEXT}]) for name in FOREIGN}
    header = {"http.request.header.authorization": ["Bearer not-a-known-form-of-key-but-secret"]}
    world.send(span(0, None, said), span(1, None, header))
    content = world.content(0)["attributes"]
    assert set(content) == set(FOREIGN)
    assert KEY not in json.dumps(world.shown_everywhere(0))
    assert all("REDACTED" in json.dumps(each) for each in content.values())
    assert "not-a-known-form" not in json.dumps(world.content(1))


SECRET = "".join(_random.choices(string.ascii_letters + string.digits, k=32))
URL = f"https://user:p%40ss{SECRET}@host.example/x?key={GOOGLE}&sig={SECRET}&page=2#access_token={SECRET}"
TWICE = urllib.parse.quote(urllib.parse.quote(f"key={GOOGLE}", safe=""), safe="")
URLS = {
    "http.url": URL,
    "url.full": URL,
    "http.request.header.referer": URL,
    "http.response.header.location": URL,
    "database": f"postgresql://admin:{SECRET}@db.example:5432/orders",
    "in text": f"see {URL} for more",
    "encoded twice": f"https://host.example/x?next={TWICE}",
}


@pytest.mark.parametrize("place", URLS)
def test_fr_39_user_info_and_secret_values_of_an_address_are_masked_and_the_rest_is_kept(
    place: str, world: World
) -> None:  # FR-39
    world.send(span(0, None, {place: URLS[place]}))
    stored = world.content(0)["attributes"][place]
    shown = json.dumps(world.shown_everywhere(0))
    for secret in (SECRET, GOOGLE, "p%40ss", f"admin:{SECRET}"):
        assert secret not in shown
    assert "example" in stored
    if place != "database":
        assert "/x?" in stored
    if "page=2" in URLS[place]:
        assert "page=2" in stored
