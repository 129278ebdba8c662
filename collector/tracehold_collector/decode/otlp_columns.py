"""Spans in OTLP/protobuf, column by column: what `otlp_protobuf` reads, at half the cost.

To touch each attribute from Python costs about a microsecond, and a span has twenty. ptars (Rust) parses the wire
format into Arrow columns; Python then slices flat lists. Parts that few spans have (events, links, status, arrays,
maps) stay bytes in the schema below, and are parsed by protobuf when they are there.

Only requests that are as they should be are read here. Whatever is odd about one (invalid ids, broken Unicode, a value
with two types, another signal, a large body) is left to `otlp_protobuf`, which knows how to tell the sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor_pb2 import FileDescriptorProto  # type: ignore[import-untyped]  # ships no types
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]  # as said
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # as said
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue, InstrumentationScope, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status
from ptars import HandlerPool

from tracehold_collector.decode.otlp_protobuf_parts import read_array, read_map, read_resource, read_scope
from tracehold_collector.decode.otlp_shared import share
from tracehold_collector.decode.otlp_span_parts import read_events, read_link
from tracehold_collector.decode.otlp_values import read_bytes, read_double
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.span_item import Shared, SpanItem

_MAX_BYTES: Final = 4 * 1024 * 1024
"""Columns of the emptiest spans take 36 times their 2 bytes on the wire; a larger body is read span by span."""

_TRACE_ID_BYTES: Final = 16
_SPAN_ID_BYTES: Final = 8

_DOUBLE, _INT64, _UINT64, _INT32, _FIXED64, _FIXED32, _BOOL, _STRING, _MESSAGE, _BYTES, _UINT32 = (
    1, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13,
)  # fmt: skip
_ONE, _MANY = 1, 3

_MESSAGES: Final[dict[str, tuple[tuple[str, int, int | str, int], ...]]] = {
    "AnyValue": (
        ("string", 1, _STRING, _ONE),
        ("bool", 2, _BOOL, _ONE),
        ("int", 3, _INT64, _ONE),
        ("double", 4, _DOUBLE, _ONE),
        ("array", 5, _BYTES, _ONE),
        ("map", 6, _BYTES, _ONE),
        ("bytes", 7, _BYTES, _ONE),
    ),
    "KeyValue": (("key", 1, _STRING, _ONE), ("value", 2, "AnyValue", _ONE)),
    "Span": (
        ("trace_id", 1, _BYTES, _ONE),
        ("span_id", 2, _BYTES, _ONE),
        ("trace_state", 3, _STRING, _ONE),
        ("parent_span_id", 4, _BYTES, _ONE),
        ("name", 5, _STRING, _ONE),
        ("kind", 6, _INT32, _ONE),
        ("start", 7, _FIXED64, _ONE),
        ("end", 8, _FIXED64, _ONE),
        ("attributes", 9, "KeyValue", _MANY),
        ("dropped_attributes_count", 10, _UINT32, _ONE),
        ("events", 11, _BYTES, _MANY),
        ("dropped_events_count", 12, _UINT32, _ONE),
        ("links", 13, _BYTES, _MANY),
        ("dropped_links_count", 14, _UINT32, _ONE),
        ("status", 15, _BYTES, _ONE),
        ("flags", 16, _FIXED32, _ONE),
    ),
    "ScopeSpans": (("scope", 1, _BYTES, _ONE), ("spans", 2, "Span", _MANY), ("schema_url", 3, _STRING, _ONE)),
    "ResourceSpans": (
        ("resource", 1, _BYTES, _ONE),
        ("scope_spans", 2, "ScopeSpans", _MANY),
        ("schema_url", 3, _STRING, _ONE),
    ),
    "Request": (("resource_spans", 1, "ResourceSpans", _MANY),),
}
"""The fields of opentelemetry-proto 1.x by name, number, type and how many; a message is bytes where it may stay so."""

_RARE: Final = ("dropped_attributes_count", "dropped_events_count", "dropped_links_count", "flags", "trace_state")


class _OddError(Exception):
    """The request is to be read span by span."""


def read_columns(body: bytes, context: NormaliseContext) -> list[SpanItem] | None:
    """Return the spans of an ExportTraceServiceRequest, or `None` when it is to be read span by span.

    Args:
        body: decompressed.
        context: for limits, and the cleaner.
    """
    if len(body) > _MAX_BYTES:
        return None
    try:
        batch = _handler().list_to_record_batch([body])
        return _Reader(batch, context).items()
    except (_OddError, DecodeError, ValueError, pa.ArrowException):
        return None


@lru_cache(maxsize=1)
def _handler() -> Any:
    file = FileDescriptorProto(name="tracehold_columns.proto", package="tracehold", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        # Only a member of a oneof tells "not there" from an empty text.
        one_of = name == "AnyValue"
        if one_of:
            message.oneof_decl.add(name="value")
        for field_name, number, kind, label in fields:
            field = message.field.add(name=field_name, number=number, label=label)
            if one_of:
                field.oneof_index = 0
            if isinstance(kind, str):
                field.type, field.type_name = _MESSAGE, f".tracehold.{kind}"
            else:
                field.type = kind
    pool = DescriptorPool()
    pool.Add(file)
    request = pool.FindMessageTypeByName("tracehold.Request")
    return HandlerPool([request.file]).get_for_message(request)


class _Reader:
    """The columns of one request as flat lists, and the spans made from them."""

    def __init__(self, batch: pa.RecordBatch, context: NormaliseContext) -> None:
        self._context = context
        self._resources = batch.column(0).flatten()
        self._scopes = self._resources.field("scope_spans").flatten()
        scope_spans = self._scopes.field("spans")
        self._spans = scope_spans.flatten()
        self._count = len(self._spans)
        if not self._count:
            raise _OddError
        self._scope_ends = scope_spans.offsets.to_pylist()[1:]
        self._resource_ends = self._resources.field("scope_spans").offsets.to_pylist()[1:]

    def items(self) -> list[SpanItem]:
        spans = self._spans
        listed = {name: spans.field(name).to_pylist() for name in ("name", "kind", "start", "end", "status")}
        trace_ids, span_ids = (
            _ids(spans.field("trace_id"), _TRACE_ID_BYTES),
            _ids(spans.field("span_id"), _SPAN_ID_BYTES),
        )
        parents = _parents(spans.field("parent_span_id"))
        attributes, sizes = self._attributes(spans.field("attributes"))
        extras, exceptions = self._extras(listed["kind"])
        statuses = [self._status(raw, extra) if raw else 0 for raw, extra in zip(listed["status"], extras, strict=True)]
        columns = (
            trace_ids, span_ids, parents, listed["name"], listed["start"], listed["end"], attributes, statuses,
            exceptions, extras, self._shared(), sizes,
        )  # fmt: skip
        return [SpanItem(*fields) for fields in zip(*columns, strict=True)]

    def _attributes(self, column: pa.ListArray) -> tuple[list[dict[str, Any]], list[int]]:
        """Return each span's attributes, and about how many bytes they and its name are."""
        offsets = column.offsets
        pairs = column.flatten()
        key_column = pairs.field("key").dictionary_encode()
        names = key_column.dictionary.to_pylist()
        keys = [names[index] for index in key_column.indices.to_pylist()]
        values, lengths = self._values(pairs.field("value"))
        places = offsets.to_pylist()
        found = [dict(zip(keys[first:last], values[first:last], strict=True)) for first, last in pairwise(places)]
        text_bytes = np.concatenate(([0], np.cumsum(lengths)))[np.asarray(offsets)]
        return found, np.diff(text_bytes).tolist()

    def _values(self, column: pa.StructArray) -> tuple[list[Any], Any]:
        texts = column.field("string").dictionary_encode()
        known: list[Any] = [*texts.dictionary.to_pylist(), None]
        # Equal texts are one object: whoever looks them up later hashes each once.
        values = [known[index] for index in texts.indices.fill_null(-1).to_pylist()]
        lengths = np.asarray(pc.binary_length(column.field("string")).fill_null(16))
        set_fields = len(column) - texts.null_count
        for name in ("int", "bool", "double", "bytes", "array", "map"):
            typed = column.field(name)
            if typed.null_count == len(typed):
                continue
            places = np.flatnonzero(np.asarray(typed.is_valid())).tolist()
            set_fields += len(places)
            raw = typed.drop_null().to_pylist()
            for place, value in zip(places, raw if name in {"int", "bool"} else self._read(name, raw), strict=True):
                values[place] = value
            if name in {"bytes", "array", "map"}:
                lengths = lengths.copy()
                lengths[places] += [len(each) for each in raw]
        if set_fields > len(column):
            raise _OddError  # a value with two types: protobuf takes the one that came last
        return values, lengths

    def _read(self, name: str, raw: Sequence[Any]) -> list[Any]:
        context = self._context
        if name == "double":
            return [read_double(value) for value in raw]
        if name == "bytes":
            return [read_bytes(value, context.cleaner) for value in raw]
        if name == "array":
            return [read_array(ArrayValue.FromString(value), context) for value in raw]
        return [read_map(KeyValueList.FromString(value), context) for value in raw]

    def _extras(self, kinds: list[int]) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return what else each span says, and the type of its first exception."""
        extras: list[dict[str, Any]] = [{} for _ in range(self._count)]
        exceptions: list[Any] = [None] * self._count
        for place, raw in _lists(self._spans.field("events")):
            events = [Span.Event.FromString(each) for each in raw]
            exceptions[place] = read_events(events, extras[place], self._context)
        for place, raw in _lists(self._spans.field("links")):
            extras[place]["links"] = [read_link(Span.Link.FromString(each), self._context) for each in raw]
        for extra, kind in zip(extras, kinds, strict=True):
            if kind:
                extra["span_kind"] = kind
        for name in _RARE:
            column = self._spans.field(name)
            for place, value in enumerate(column.to_pylist()):
                if value:
                    extras[place][name] = value
        return extras, exceptions

    @staticmethod
    def _status(raw: bytes, extra: dict[str, Any]) -> int:
        status = Status.FromString(raw)
        if status.message:
            extra["status_message"] = status.message
        return int(status.code)

    def _shared(self) -> list[Shared]:
        """Return the shared part of each span, one object for all spans of a resource and scope."""
        resources = [
            read_resource(ResourceSpans(resource=Resource.FromString(raw), schema_url=url), self._context)
            for raw, url in _pairs(self._resources, "resource")
        ]
        found: list[Shared] = []
        resource = 0
        for place, (raw, url) in enumerate(_pairs(self._scopes, "scope")):
            while place >= self._resource_ends[resource]:
                resource += 1
            scope = ScopeSpans(scope=InstrumentationScope.FromString(raw), schema_url=url)
            spans = self._scope_ends[place] - len(found)
            if spans:
                found += [share(resources[resource], read_scope(scope, self._context), self._context)] * spans
        return found


def _pairs(column: pa.StructArray, name: str) -> zip[tuple[bytes, str]]:
    return zip(column.field(name).to_pylist(), column.field("schema_url").to_pylist(), strict=True)


def _ids(column: pa.BinaryArray, size: int) -> list[str]:
    raw = column.to_pylist()
    if any(len(each) != size or not any(each) for each in raw):
        raise _OddError
    return [each.hex() for each in raw]


def _parents(column: pa.BinaryArray) -> list[str | None]:
    found: list[str | None] = []
    for raw in column.to_pylist():
        if not any(raw):
            found.append(None)
        elif len(raw) == _SPAN_ID_BYTES:
            found.append(raw.hex())
        else:
            raise _OddError
    return found


def _lists(column: pa.ListArray) -> list[tuple[int, list[bytes]]]:
    """Return the place and the entries of each list that is not empty."""
    if not len(column.flatten()):
        return []
    return [(place, raw) for place, raw in enumerate(column.to_pylist()) if raw]
