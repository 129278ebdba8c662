"""RED-02: an engine and everything behind it see only what its redactor leaves."""

from __future__ import annotations

import asyncio

from privacy_samples import EMAIL
from tracehold.engine.engine import Engine
from tracehold.events.blob_store import InMemoryBlobStore
from tracehold.events.event import Event
from tracehold.privacy.redactors import standard_redactor


def test_an_engine_stores_and_delivers_only_what_the_redactor_leaves():  # RED-02
    delivered: list[Event] = []

    async def run() -> list[Event]:
        async with Engine(redactor=standard_redactor()) as engine:

            async def handle(event: Event) -> None:
                delivered.append(event)

            engine.subscribe("app.*", handle)
            await engine.emit(Event(type="app.note", stream="s-1", data={"to": EMAIL}))
            await engine.bus.drain()
            return await engine.store.read("s-1", 0)

    stored = asyncio.run(run())
    assert [event.data for event in (*stored, *delivered)] == [{"to": "[REDACTED:email]"}] * 2


def test_a_blob_holds_only_what_the_redactor_leaves():  # RED-02
    async def run() -> tuple[bytes, Event]:
        blobs = InMemoryBlobStore()
        async with Engine(redactor=standard_redactor(), blobs=blobs, claim_threshold=64) as engine:
            await engine.emit(Event(type="app.note", stream="s-1", data={"to": EMAIL, "text": "many words " * 20}))
            (stored,) = await engine.store.read("s-1", 0)
            return await blobs.get(stored.blobs[0]), await engine.hydrate(stored)

    content, hydrated = asyncio.run(run())
    assert EMAIL.encode() not in content
    assert hydrated.data == {"to": "[REDACTED:email]", "text": "many words " * 20}
