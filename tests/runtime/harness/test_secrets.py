"""Whatever is planted in a call, no exporter sees it: the harness gives the Tracer everything, the Tracer masks it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import sqlite3
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness_parts import ContentExporter, Model, Probe, Refusing, ThreadProbe, in_run, registry, reply, run
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel
from tracehold import JsonlExporter, MemoryExporter, Message, OTelExporter, SqliteExporter, Tracer
from tracehold.context import CallableSource, ContextBuilder, ContextConfig
from tracehold.core.errors import LLMResponseError
from tracehold.governance.hitl import ApprovalRequired
from tracehold.harness import Harness
from tracehold.retrieval.types import RetrievalResult
from tracehold.tools.base import ToolResponse

# Made up, and put together here so that no scanner takes this file for a leak.
_RUN = "a1B7xK9qLm2Zt4Vw8Yc3Nd6Rf5Gh0Js"
SECRETS = {
    "openai": "sk-" + "proj-" + _RUN + "Qe",
    "github": "gh" + "p_" + _RUN + "Uo5i",
    "aws": "AK" + "IA" + "QWERTYUIOP234567",
    "stripe": "sk" + "_live_" + _RUN[:24],
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9" + ".ey" + "JzdWIiOiIxMjM0In0." + _RUN + "abcdefghijk",
    "card": "4111" + "1111" + "1111" + "1111",
}
PASSWORD = "hunter2" + "Xy9"
"""Nothing in its looks gives it away: only the key or the words beside it do."""


class Opaque:
    def __init__(self, secret: str) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        return f"<Opaque {self.secret}>"


class Login(BaseModel):
    user: str
    password: str
    note: str


@dataclasses.dataclass
class Card:
    number: str
    pin: dict[str, str]


Pair = namedtuple("Pair", ["password", "token"])  # noqa: PYI024 - the untyped kind is the one to test


def shapes(secret: str) -> dict[str, Any]:
    """The same secret in every place and type a tool call may hold it."""
    return {
        "text": f"use {secret} for it",
        "value": secret,
        "nested": {"a": [{"b": ({"c": f"key is {secret}"},)}]},
        "key": {secret: 1},
        "deep key": {"a": [{f"{secret}": {"b": 2}}]},
        "bytes": secret.encode(),
        "bytearray": bytearray(secret.encode()),
        "set": {secret, "other"},
        "frozenset": frozenset([secret]),
        "tuple": (1, secret),
        "named tuple": Pair(PASSWORD, secret),
        "dataclass": Card(secret, {"password": PASSWORD}),
        "pydantic": Login(user="maria", password=PASSWORD, note=secret),
        "object": Opaque(secret),
        "json text": json.dumps({"inner": {"password": PASSWORD, "note": secret}}),
        "json in json": json.dumps({"inner": json.dumps({"password": PASSWORD, "note": secret})}),
        "header": f"Authorization: Bearer {secret}",
        "url": f"https://user:{PASSWORD}@host.example/path?token={secret}",
        "exception": LookupError(f"no such key {secret}"),
        "under a key": {"password": PASSWORD, "api_key": secret, "clientSecret": {"inner": PASSWORD}},
    }


Recorded = Callable[[], str]


@pytest.fixture
def everywhere(tmp_path: Path) -> Any:
    """A Tracer with every kind of exporter, and a function that gives back all they hold as one text."""
    spans, full, memory = InMemorySpanExporter(), ContentExporter(), MemoryExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    exporters = [
        memory,
        full,
        JsonlExporter(str(tmp_path / "trace.jsonl")),
        SqliteExporter(str(tmp_path / "trace.db")),
        OTelExporter(tracer_provider=provider),
        OTelExporter(tracer_provider=provider, conventions="genai"),
    ]
    tracer = Tracer(exporters=exporters, content=True)

    def held() -> str:
        tracer.force_flush()
        tracer.close()
        with sqlite3.connect(tmp_path / "trace.db") as database:
            rows = database.execute("SELECT * FROM traces").fetchall()
        database.close()
        lines = (tmp_path / "trace.jsonl").read_text()
        exported = [
            (span.name, dict(span.attributes or {}), span.events, span.status) for span in spans.get_finished_spans()
        ]
        events = len(memory.events)
        assert events > 0
        assert len(full.events) == lines.count("\n") == len(rows) == events
        assert len(exported) == 2 * events
        assert tracer.summary()["dropped_uncleanable"] == 0
        raw = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir())).decode("utf-8", "replace")
        return "\n".join([repr(memory.events), repr(full.events), lines, repr(rows), repr(exported), raw])

    return tracer, held


def assert_clean(text: str, *more: str) -> None:
    for name, secret in [*SECRETS.items(), ("password", PASSWORD), *((more_, more_) for more_ in more)]:
        assert secret not in text, f"{name} got out"
    for name, secret in SECRETS.items():
        assert json.dumps(secret)[1:-1] not in text, f"{name} got out as JSON"
        assert repr(secret.encode())[2:-1] not in text, f"{name} got out as bytes"


SHAPES = list(shapes(""))


@pytest.mark.parametrize("shape", SHAPES)
def test_in_the_arguments_of_a_tool_that_runs(shape: str, everywhere: Any) -> None:  # HAR-56, TRC-01, FR-35
    tracer, held = everywhere
    harness = Harness(Model(), tool_registry=registry(Probe()), tracer=tracer)

    async def calls() -> None:
        with in_run():
            for secret in SECRETS.values():
                await harness.aexec_tool("probe", {"extra": shapes(secret)[shape]})

    run(calls())
    assert_clean(held())


@pytest.mark.parametrize("shape", SHAPES)
def test_in_the_arguments_of_calls_that_are_stopped(shape: str, everywhere: Any) -> None:  # HAR-44, DEC-01, FR-61
    tracer, held = everywhere
    tools = registry(Probe(), Probe("strict", required=True), Probe("risky", confirm=True))
    denied = Harness(Model(), tool_registry=tools, tracer=tracer, permissions=Refusing(f"because {SECRETS['github']}"))
    harness = Harness(Model(), tool_registry=tools, tracer=tracer)

    async def calls() -> None:
        for secret in SECRETS.values():
            arguments = {"extra": shapes(secret)[shape]}
            await denied.aexec_tool("probe", arguments)
            await harness.aexec_tool("strict", arguments)
            await harness.aexec_tool("ghost", arguments)
            await harness.aexec_tool("risky", arguments)
            await harness.aexec_tool("risky", arguments, call_id="c1", decisions={"c1": False})
            with contextlib.suppress(ApprovalRequired):
                await harness.aexec_tool("risky", arguments, call_id="c1", decisions={})
            harness.trace_tool_gate("probe", arguments, "invalid_args", f"could not parse {secret}")

    run(calls())
    assert_clean(held())


def test_a_value_that_a_schema_refuses_is_not_repeated_in_the_reason(everywhere: Any) -> None:  # REG-10, HAR-41
    tracer, held = everywhere
    harness = Harness(Model(), tool_registry=registry(Probe(required=True)), tracer=tracer)

    async def calls() -> None:
        for secret in SECRETS.values():
            await harness.aexec_tool("probe", {"city": ["key", secret]})
            await harness.aexec_tool("probe", {"city": {secret: 1}})
            await harness.aexec_tool("probe", {"city": {"password": PASSWORD, "more": secret}})
            await harness.aexec_tool("probe", {"password": PASSWORD})

    run(calls())
    assert_clean(held())


@pytest.mark.parametrize("kind", [Probe, ThreadProbe])
def test_in_results_and_errors_of_tools(kind: Any, everywhere: Any) -> None:  # HAR-55, HAR-56
    tracer, held = everywhere
    secrets = list(SECRETS.values())

    def outcome(parameters: Any) -> Any:
        if parameters["how"] == "raise":
            raise LookupError(f"no account for {parameters['n']}: password={PASSWORD}", secrets)
        return json.dumps({"keys": secrets, "password": PASSWORD})

    harness = Harness(Model(), tool_registry=registry(kind(does=outcome)), tracer=tracer)
    run(harness.aexec_tool("probe", {"how": "return", "n": 1}))
    run(harness.aexec_tool("probe", {"how": "raise", "n": 2}))
    assert_clean(held())


def test_in_the_data_beside_a_result(everywhere: Any) -> None:  # REG-04
    tracer, held = everywhere
    answer = ToolResponse.ok("fine", data={"password": PASSWORD, "keys": list(SECRETS.values())})
    run(Harness(Model(), tool_registry=registry(Probe(does=answer)), tracer=tracer).aexec_tool("probe", {}))
    assert_clean(held())


def test_in_what_is_said_to_and_by_a_model(everywhere: Any) -> None:  # DEC-15, HAR-15, HAR-26
    tracer, held = everywhere

    async def talk(secret: str) -> None:
        arguments = json.dumps({"password": PASSWORD, "key": secret})
        call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": arguments}}
        model = Model(
            reply(f"your key is {secret}", tool_calls=[call], reasoning_content=secret),
            pieces=[f"it is {secret[:9]}", f"{secret[9:]}, and password: {PASSWORD}"],
        )
        harness = Harness(model, tracer=tracer)
        messages = [
            {"role": "system", "content": f"password={PASSWORD}"},
            {"role": "user", "content": [{"type": "text", "text": f"mine is {secret}"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": f"Authorization: Bearer {secret}"},
        ]
        await harness.acall_llm(messages)
        [_ async for _ in harness.astream_llm(messages)]

    async def all_of_it() -> None:
        with in_run():
            for secret in SECRETS.values():
                await talk(secret)

    run(all_of_it())
    assert_clean(held())


def test_in_what_a_model_client_raises(everywhere: Any) -> None:  # HAR-19, HAR-31
    tracer, held = everywhere

    async def fail(secret: str) -> None:
        broken = ConnectionError(f"POST https://u:{PASSWORD}@api.example/v1?key={secret} failed")
        harness = Harness(Model(broken, pieces=("a", broken)), tracer=tracer)
        with pytest.raises(ConnectionError):
            await harness.acall_llm([])
        with pytest.raises(ConnectionError):
            [_ async for _ in harness.astream_llm([])]

    async def all_of_it() -> None:
        for secret in SECRETS.values():
            await fail(secret)

    run(all_of_it())
    assert_clean(held())


def test_in_replies_that_do_not_validate(everywhere: Any, caplog: pytest.LogCaptureFixture) -> None:  # HAR-35, HAR-36
    tracer, held = everywhere
    wrong = json.dumps({"user": 7, "password": PASSWORD, "note": list(SECRETS.values())})
    with caplog.at_level(logging.DEBUG), pytest.raises(LLMResponseError) as raised:
        run(Harness(Model(wrong, wrong), tracer=tracer).astructured([], Login))
    assert_clean(held() + str(raised.value) + caplog.text)


def test_in_what_a_gate_says(everywhere: Any, caplog: pytest.LogCaptureFixture) -> None:  # FR-61
    tracer, held = everywhere

    async def gates(secret: str) -> None:
        tools = registry(Probe(confirm=True))

        def broken(tool: Any, parameters: Any) -> bool:
            raise ConnectionError(f"console wants {secret}, password={PASSWORD}")

        for options in (
            {"permissions": Refusing(f"{secret} is not allowed, password={PASSWORD}")},
            {"permissions": Refusing(LookupError(f"policy server wants {secret}"))},
            {"confirm": broken},
        ):
            answer = await Harness(Model(), tool_registry=tools, tracer=tracer, **options).aexec_tool("probe", {})
            assert answer.status == "error"

    async def all_of_it() -> None:
        with in_run():
            for secret in SECRETS.values():
                await gates(secret)

    with caplog.at_level(logging.DEBUG):
        run(all_of_it())
    assert_clean(held() + caplog.text)


def test_in_what_is_retrieved_and_asked_for(everywhere: Any) -> None:  # HAR-73
    tracer, held = everywhere
    results = [RetrievalResult(content=secret, score=1.0, source="s", id=secret) for secret in SECRETS.values()]
    builder = ContextBuilder(ContextConfig(max_tokens=500, source_ratios={"notes": 1.0}, min_chunk_tokens=1))
    harness = Harness(
        Model(), context_builder=builder, sources=[CallableSource("notes", lambda query: results)], tracer=tracer
    )
    for secret in SECRETS.values():
        run(harness.aassemble([Message(secret, "user")], f"what does {secret} open, password={PASSWORD}?"))
    assert_clean(held())


def test_in_a_summary_that_fails(everywhere: Any) -> None:  # HAR-65
    tracer, held = everywhere

    class Compactor:
        async def acompact(self, history: Any, *, asummarize: Any = None) -> Any:
            await asummarize(f"keep password={PASSWORD}", " ".join(SECRETS.values()))
            return list(history)

    broken = LookupError(f"password={PASSWORD}", *SECRETS.values())
    run(Harness(Model(broken), compactor=Compactor(), tracer=tracer).aassemble([Message("hi", "user")]))
    assert_clean(held())


@pytest.mark.parametrize("name", list(SECRETS))
def test_in_a_tool_name_that_is_no_name(name: str, everywhere: Any) -> None:  # DEC-10: only a name is structural
    tracer, held = everywhere
    secret = SECRETS[name]
    harness = Harness(Model(), tool_registry=registry(Probe()), tracer=tracer)
    run(harness.aexec_tool(f"please use {secret} with password={PASSWORD}", {}))
    assert_clean(held())


def test_a_secret_of_ones_own_shape_is_masked_in_every_place(tmp_path: Path) -> None:  # TRC-07
    full = ContentExporter()
    tracer = Tracer(exporters=[full], content=True, extra_secret_patterns=[r"emp-\d{6}"], extra_secret_keys=["badge"])
    badge = "emp-" + "123456"
    tool = Probe(does=lambda _: LookupError(f"no {badge}"))
    harness = Harness(Model(f"hello {badge}"), tool_registry=registry(tool), tracer=tracer)

    async def both() -> None:
        await harness.acall_llm([{"role": "user", "content": f"I am {badge}"}])
        await harness.aexec_tool("probe", {"city": badge, "badge_color": "blue-ish"})

    run(both())
    assert len(full.events) == 2
    assert badge not in repr(full.events)
    assert "blue-ish" not in repr(full.events)


def test_calls_at_the_same_time_are_masked_too(everywhere: Any) -> None:  # TRC-01
    tracer, held = everywhere
    harness = Harness(Model(), tool_registry=registry(ThreadProbe(does=lambda p: p["extra"])), tracer=tracer)

    async def together() -> None:
        await asyncio.gather(*(harness.aexec_tool("probe", {"extra": secret}) for secret in SECRETS.values()))

    run(together())
    assert_clean(held())
