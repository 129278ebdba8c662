"""The same agent, recorded natively, through OpenTelemetry, and both at once: one run, one tree, whoever shows it."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from support.asking import Asker, Row
from support.processes import collector, wait_for
from support.receiver import Receiver, receiver
from tracehold import (
    Agent,
    AgentTool,
    CollectorExporter,
    MemoryExporter,
    OTelExporter,
    Scope,
    ToolPermissions,
    TraceExporter,
    Tracer,
    current_trace_carrier,
    governed_chat,
    new_run_id,
    tool,
)
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.harness import Harness
from tracehold.testing import ScriptedLLM, tool_call_reply, tool_calls_reply

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("agent_tree")]

UPSTREAM = {"traceparent": "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"}
USAGE = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
Shape = tuple[str, tuple[Any, ...]]

SHAPE: Shape = (
    "run planner",
    (
        ("llm m-1", ()),
        ("llm m-1", ()),
        ("tool fly", (("agent fly", (("gate book_all", ()), ("llm m-1", ()), ("llm m-1", ()), ("llm m-1", ()),
                                     ("tool look_up", (("llm m-1", ()),)))),)),
        ("tool sleep", (("agent sleep", (("gate book_all", ()), ("llm m-1", ()), ("llm m-1", ()), ("llm m-1", ()),
                                         ("tool look_up", (("llm m-1", ()),)))),)),
    ),
)  # fmt: skip
"""What stands below what in a run of `planner`, names in order."""


def model(*replies: Any) -> ScriptedLLM:
    return ScriptedLLM(replies, model="m-1", provider="acme", usage=USAGE)


def planner(tracer: Tracer) -> Agent:
    """Two sub-agents in one turn; each uses a tool that asks a model itself, and tries one that is denied."""

    @tool
    async def look_up(city: str) -> str:
        """Ask a model about a city."""
        reply = await governed_chat(model(f"much about {city}"), [], tracer=tracer, origin="memory")
        return reply.content

    @tool
    def book_all(city: str) -> str:
        """Never permitted."""
        return city

    def helper(name: str) -> Agent:
        asks = [tool_call_reply(called, {"city": "Oslo"}, usage=USAGE) for called in ("look_up", "book_all")]
        return Agent(
            name,
            model(*asks, f"{name}: done"),
            tools=[look_up, book_all],
            permissions=ToolPermissions(deny=["book_all"]),
            tracer=tracer,
        )

    both = tool_calls_reply(("fly", {"task": "to Oslo"}), ("sleep", {"task": "in Oslo"}), usage=USAGE)
    return Agent(
        "planner",
        model(both, "a plan"),
        tools=[AgentTool(helper("fly")), AgentTool(helper("sleep"))],
        tracer=tracer,
    )


@dataclass
class World:
    """A collector that forwards what it stores, and the receiver it forwards to."""

    ask: Asker
    jaeger: Receiver
    folder: Path

    @property
    def url(self) -> str:
        return self.ask.url

    def native(self) -> CollectorExporter:
        return CollectorExporter(self.url, schedule_delay_s=0.01, spool_dir=self.folder)

    @contextlib.contextmanager
    def otel(self, url: str, **options: Any) -> Iterator[tuple[OTelExporter, TracerProvider]]:
        """An exporter through the official SDK, flushed at the end."""
        provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
        try:
            yield OTelExporter(tracer_provider=provider, **options), provider
        finally:
            provider.shutdown()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("tree")
    with receiver() as jaeger, collector(folder / "data", "--forward", f"{jaeger.url}/forwarded") as process:
        ask = Asker(process.url)
        yield World(ask, jaeger, folder / "spool")
        ask.close()


def record(exporters: Iterable[TraceExporter], run_id: str, **options: Any) -> list[Any]:
    """Run the planner once; return the events as they left the Tracer, once all are handed over."""
    memory = MemoryExporter()
    tracer = Tracer(exporters=[memory, *exporters], service="shop")
    assert planner(tracer).run("a trip to Oslo", run_id=run_id, scope=Scope(user="u1"), **options) == "a plan"
    assert tracer.force_flush(30)
    return memory.events


def shape(root: str, spans: Mapping[str, tuple[str, str | None]]) -> Shape:
    """The tree below a span, of spans by id with their label and parent."""
    below = (shape(span_id, spans) for span_id, (_, parent) in spans.items() if parent == root)
    return spans[root][0], tuple(sorted(below))


def shape_of_waterfall(rows: list[Row], run_id: str) -> Shape:
    """As an engineer sees it."""
    assert [row["span_id"] for row in rows if row["depth"] is None or row["parent_missing"]] == []
    spans = {row["span_id"]: (f"{row['kind']} {row['model'] or row['name']}", row["parent_span_id"]) for row in rows}
    return shape(run_root_span_id(run_id), spans)


def attributes_of(span: Span) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


def label(attributes: Mapping[str, Any]) -> str:
    """Kind and name, under our own keys or those of the conventions."""
    keys = ("model", "gen_ai.request.model", "tool", "gen_ai.tool.name", "tracehold.tool", "name", "gen_ai.agent.name")
    return f"{attributes['tracehold.kind']} {next(attributes[key] for key in keys if key in attributes)}"


def shape_of_events(spans: list[Span], run_id: str) -> Shape:
    """As the spans' own attributes tell it, whatever ids the SDK chose."""
    said = [attributes_of(span) for span in spans]
    told = {
        str(attributes["span_id"]): (label(attributes), attributes.get("parent_span_id"))
        for attributes in said
        if attributes["type"] != "run_start"
    }
    return shape(run_root_span_id(run_id), told)


WAYS: dict[str, Callable[[Any], Any]] = {
    "native": lambda world: contextlib.nullcontext([world.native()]),
    "otel": lambda world: _one(world.otel(world.url)),
    "otel, genai": lambda world: _one(world.otel(world.url, conventions="genai")),
    "both": lambda world: _one(world.otel(world.url), world.native()),
    "both, genai": lambda world: _one(world.otel(world.url, conventions="genai"), world.native()),
    "native first": lambda world: _one(world.otel(world.url), world.native(), native_first=True),
}


@contextlib.contextmanager
def _one(otel: Any, *others: TraceExporter, native_first: bool = False) -> Iterator[list[TraceExporter]]:
    with otel as (exporter, _):
        yield [*others, exporter] if native_first else [exporter, *others]


@pytest.mark.parametrize("upstream", [None, UPSTREAM], ids=["a root", "upstream"])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_stores_the_same_tree_once(way: str, upstream: Any, world: World) -> None:
    # DEC-17, EXEC-10, EXEC-12
    run_id = new_run_id()
    with WAYS[way](world) as exporters:
        events = record(exporters, run_id, trace_carrier=upstream)
    stored = world.ask.rows("run_events", run_id=run_id)
    assert Counter(row["event_id"].replace("-", "") for row in stored) == Counter(event["event_id"] for event in events)
    assert sorted(row["seq"] for row in stored) == list(range(1, len(events) + 1))
    rows = world.ask.rows("waterfall", run_id=run_id)
    if upstream is not None:
        (root,) = [row for row in rows if row["parent_missing"]]
        assert root["span_id"] == run_root_span_id(run_id)
        root["parent_missing"] = False
    assert shape_of_waterfall(rows, run_id) == SHAPE
    run = world.ask.row("run", run_id=run_id)
    assert (run["status"], run["llm_calls"], run["tool_calls"], run["denials"]) == ("ok", 10, 4, 2)
    assert (run["input_tokens"], run["output_tokens"]) == (100, 20)
    assert (run["agent"], run["service"]) == ("planner", "shop")


@pytest.mark.parametrize("conventions", [None, "genai"])
def test_an_otlp_backend_gets_one_trace_without_strangers(conventions: Any, world: World) -> None:  # DEC-17
    run_id = new_run_id()
    with receiver() as backend:
        with world.otel(backend.url, conventions=conventions) as (exporter, _):
            events = record([exporter], run_id)
        spans = backend.wait_for_spans(len(events))
    assert {span.trace_id.hex() for span in spans} == {run_trace_id(run_id)}
    assert {span.parent_span_id.hex() for span in spans} == {run_root_span_id(run_id)}
    assert len({span.span_id for span in spans}) == len(spans) == len(events)
    assert shape_of_events(spans, run_id) == SHAPE


def test_an_otlp_backend_finds_the_run_in_the_upstream_trace(world: World) -> None:  # EXP-12, EXEC-12
    run_id = new_run_id()
    with receiver() as backend:
        with world.otel(backend.url, carrier_provider=current_trace_carrier) as (exporter, _):
            events = record([exporter], run_id, trace_carrier=UPSTREAM)
        spans = backend.wait_for_spans(len(events))
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for span in spans} == {("ab" * 16, "cd" * 8)}
    assert shape_of_events(spans, run_id) == SHAPE


def test_inside_a_request_of_an_instrumented_program_the_run_is_part_of_its_trace(world: World) -> None:
    # EXP-12: both exporters at once, in whatever trace the program has
    run_id = new_run_id()
    with receiver() as backend:
        with world.otel(backend.url) as (exporter, provider):
            with provider.get_tracer("web").start_as_current_span("POST /chat") as request:
                events = record([exporter, world.native()], run_id)
            context = request.get_span_context()
        spans = [span for span in backend.wait_for_spans(len(events) + 1) if span.name != "POST /chat"]
    assert {int.from_bytes(span.trace_id) for span in spans} == {context.trace_id}
    assert {int.from_bytes(span.parent_span_id) for span in spans} == {context.span_id}
    assert shape_of_waterfall(world.ask.rows("waterfall", run_id=run_id), run_id) == SHAPE


@pytest.mark.parametrize("way", ["native", "native first"])
def test_what_the_collector_forwards_nests_by_its_ids(way: str, world: World) -> None:  # DEC-17, design: flows
    run_id = new_run_id()
    with WAYS[way](world) as exporters:
        events = record(exporters, run_id)
    own = {event["event_id"] for event in events if event["type"] != "run_start"}
    path = "/forwarded/v1/traces"

    def forwarded() -> list[Span]:
        return [span for span in world.jaeger.spans(path) if attributes_of(span).get("tracehold.run_id") == run_id]

    wait_for(lambda: len(forwarded()) >= len(own), what="the forwarded run")
    found = forwarded()
    assert Counter(attributes_of(span)["tracehold.event_id"] for span in found) == Counter(own)
    assert {span.trace_id.hex() for span in found} == {run_trace_id(run_id)}
    by_id = {span.span_id.hex(): (label(attributes_of(span)), span.parent_span_id.hex() or None) for span in found}
    assert by_id[run_root_span_id(run_id)][1] is None
    assert len(by_id) == len(found)
    assert shape(run_root_span_id(run_id), by_id) == SHAPE


@pytest.mark.parametrize("way", ["native", "otel", "otel, genai"])
def test_a_stream_left_early_is_a_model_call_and_no_denial(way: str, world: World) -> None:
    # DEC-01, DEC-03, FR-61: its consumer closed it; no gate stopped it, and it is paid for
    run_id = new_run_id()

    @tool
    async def peek() -> str:
        """Read the first piece only."""
        pieces = Harness(model("a long text in many pieces"), tracer=tracer).astream_llm([])
        first = await anext(pieces)
        await pieces.aclose()
        return str(first)

    with WAYS[way](world) as exporters:
        tracer = Tracer(exporters=exporters)
        asks = tool_call_reply("peek", usage=USAGE)
        assert Agent("reader", model(asks, "done"), tools=[peek], tracer=tracer).run("go", run_id=run_id) == "done"
        assert tracer.force_flush(30)
    (left,) = [row for row in world.ask.rows("waterfall", run_id=run_id) if row["status"] == "cancelled"]
    assert (left["kind"], left["decision"], left["duration_ns"] is None) == ("llm", None, False)
    run = world.ask.row("run", run_id=run_id)
    assert (run["status"], run["llm_calls"], run["tool_calls"], run["denials"]) == ("ok", 3, 1, 0)
