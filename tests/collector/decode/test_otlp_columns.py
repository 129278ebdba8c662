"""Reading spans by columns gives what reading them one by one gives, or leaves them to that."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracehold.privacy import Cleaner
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Rejection
from tracehold_collector.decode.otlp_columns import read_columns
from tracehold_collector.decode.otlp_protobuf import read_protobuf
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.span_item import SpanItem


@lru_cache
def make_context() -> NormaliseContext:
    return NormaliseContext("acme", Pseudonyms(b"k" * 32, "acme"), Cleaner())


texts = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.integers(0, 2**32 - 1)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | texts | st.binary(max_size=9)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)
attributes = st.lists(st.tuples(texts, values), max_size=5)
ids = st.binary(min_size=8, max_size=8).filter(any)
spans = st.fixed_dictionaries(
    {
        "trace": ids, "span": ids, "parent": st.sampled_from([b"", b"\x00" * 8, b"parent__"]), "name": texts,
        "kind": st.integers(0, 5), "start": st.integers(0, 2**64 - 1), "end": st.integers(0, 2**64 - 1),
        "attributes": attributes, "events": st.lists(st.tuples(texts, attributes, numbers), max_size=2),
        "links": st.lists(st.tuples(ids, attributes), max_size=2),
        "status": st.none() | st.tuples(st.integers(0, 2), texts), "dropped": numbers, "flags": numbers, "state": texts,
    }
)  # fmt: skip
requests = st.lists(
    st.tuples(
        attributes, st.lists(st.tuples(texts, attributes, st.lists(spans, max_size=3), texts), max_size=2), numbers
    ),
    max_size=2,
)


def put(pairs: Any, given_pairs: list[tuple[str, Any]]) -> None:
    for key, value in given_pairs:
        pair = pairs.add()
        pair.key = key
        if value is not None:
            fill(pair.value, value)


def fill(value: Any, given_value: Any) -> None:
    if isinstance(given_value, list):
        value.array_value.SetInParent()
        for each in given_value:
            inner = value.array_value.values.add()
            if each is not None:
                fill(inner, each)
    elif isinstance(given_value, dict):
        value.kvlist_value.SetInParent()
        put(value.kvlist_value.values, list(given_value.items()))
    else:
        kinds = {bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes"}
        setattr(value, f"{kinds[type(given_value)]}_value", given_value)


def message(resources: list[Any]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    for resource_attributes, scopes, dropped in resources:
        resource = request.resource_spans.add()
        put(resource.resource.attributes, resource_attributes)
        resource.resource.dropped_attributes_count = dropped
        for name, scope_attributes, given_spans, url in scopes:
            scope = resource.scope_spans.add(schema_url=url)
            scope.scope.name = name
            put(scope.scope.attributes, scope_attributes)
            for each in given_spans:
                add_span(scope.spans, each)
    return request


def add_span(to: Any, given_span: dict[str, Any]) -> None:
    span = to.add(
        trace_id=given_span["trace"] * 2,
        span_id=given_span["span"],
        parent_span_id=given_span["parent"],
        name=given_span["name"],
        kind=given_span["kind"],
        start_time_unix_nano=given_span["start"],
        end_time_unix_nano=given_span["end"],
        dropped_attributes_count=given_span["dropped"],
        dropped_links_count=given_span["dropped"] // 2,
        flags=given_span["flags"],
        trace_state=given_span["state"],
    )
    put(span.attributes, given_span["attributes"])
    for name, event_attributes, dropped in given_span["events"]:
        event = span.events.add(name=name, dropped_attributes_count=dropped, time_unix_nano=dropped)
        put(event.attributes, event_attributes)
    for span_id, link_attributes in given_span["links"]:
        put(span.links.add(trace_id=span_id * 2, span_id=span_id).attributes, link_attributes)
    if given_span["status"] is not None:
        span.status.code, span.status.message = given_span["status"]


def walked(body: bytes, context: NormaliseContext) -> list[SpanItem | Rejection]:
    return list(read_protobuf(body, context))


def without_sizes(items: list[Any]) -> list[Any]:
    for item in items:
        item.size_hint = None
    return items


@given(requests)
def test_columns_hold_what_the_walk_finds(resources: list[Any]) -> None:
    context = make_context()
    request = message(resources)
    body = request.SerializeToString()
    by_columns = read_columns(body, context)
    if by_columns is None:
        assert not any(scope.spans for resource in request.resource_spans for scope in resource.scope_spans)
        return
    assert without_sizes(by_columns) == without_sizes(walked(body, context))


@given(requests, st.randoms(use_true_random=False))
def test_what_is_broken_is_left_to_the_walk_or_read_as_it_does(resources: list[Any], draw: random.Random) -> None:
    context = make_context()
    body = bytearray(message(resources).SerializeToString())
    for _ in range(draw.randrange(1, 4)):
        if body:
            body[draw.randrange(len(body))] = draw.randrange(256)
    by_columns = read_columns(bytes(body), context)
    if by_columns is None:
        return
    # Protobuf joins a message that comes twice, columns keep the last: whatever is read, ids and texts are valid.
    for item in by_columns:
        assert len(item.trace_id) == 32
        assert len(item.span_id) == 16
        (item.name + repr(item.attributes)).encode()


@pytest.mark.parametrize("trace_id", [b"", b"short", b"\x00" * 16])
def test_a_request_with_an_invalid_id_is_left_to_the_walk(context: NormaliseContext, trace_id: bytes) -> None:
    request = ExportTraceServiceRequest()
    found = request.resource_spans.add().scope_spans.add().spans
    found.add(trace_id=b"t" * 16, span_id=b"s" * 8)
    found.add(trace_id=trace_id, span_id=b"s" * 8)
    assert read_columns(request.SerializeToString(), context) is None


def test_a_value_of_two_types_is_left_to_the_walk(context: NormaliseContext) -> None:
    def part(number: int, body: bytes) -> bytes:
        return bytes([number << 3 | 2, len(body)]) + body

    value = part(1, b"text") + bytes([3 << 3, 7])
    span = part(1, b"t" * 16) + part(2, b"s" * 8) + part(9, part(1, b"key") + part(2, value))
    body = part(1, part(2, part(2, span)))
    assert read_columns(body, context) is None
    (item,) = walked(body, context)
    assert isinstance(item, SpanItem)
    assert item.attributes == {"key": 7}


def test_the_size_of_a_span_is_about_what_it_was_sent_in(context: NormaliseContext) -> None:
    request = ExportTraceServiceRequest()
    found = request.resource_spans.add().scope_spans.add().spans
    for text in ("x" * 50_000, "", "y" * 70):
        span = found.add(trace_id=b"t" * 16, span_id=b"s" * 8)
        put(span.attributes, [("text", text), ("list", [text, text]), ("raw", text.encode()), ("n", 1)])
    items = read_columns(request.SerializeToString(), context)
    assert items is not None
    for item, span in zip(items, found, strict=True):
        assert item.size_hint is not None
        assert abs(item.size_hint - span.ByteSize()) < 120
