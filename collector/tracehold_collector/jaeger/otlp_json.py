"""Traces as OTLP's JSON, the way Jaeger's third API writes it: ids in hex, 64-bit numbers as text, enums as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tracehold.core.jsontext import dumps

from tracehold_collector.core.packed import PackedText
from tracehold_collector.forward.anyvalue import key_values
from tracehold_collector.forward.otlp_json import OtlpJson, set_fields
from tracehold_collector.forward.parts import count, mapping, text
from tracehold_collector.jaeger.view import SpanView, TraceView, usable_links

WARNINGS: Final = "jaeger.internal.warnings"
"""The attribute Jaeger keeps warnings in where its JSON has no other place for them."""


def traces_data(views: Iterable[TraceView], warnings: Iterable[str] = ()) -> Iterator[bytes]:
    """Yield OTLP's TracesData as JSON.

    Args:
        views: the traces; spans of one resource and scope stand together within a trace, which is why a trace is gone
            through before it is told: compressed meanwhile.
        warnings: about the answer as a whole; they go to its first span.
    """
    pending = list(warnings)
    yield b'{"resourceSpans":['
    comma = b""
    for view in views:
        pending += view.warnings
        for resource in _grouped(view, pending):
            yield comma
            yield from resource.written()
            comma = b","
    yield b"]}"


def _grouped(view: TraceView, pending: list[str]) -> Iterable[_Resource]:
    resources: dict[bytes, _Resource] = {}
    scopes: dict[tuple[bytes, bytes], PackedText] = {}
    for span in view.spans:
        resource_key, scope_key = dumps(span.resource), dumps(span.scope)
        spans = scopes.get((resource_key, scope_key))
        if spans is None:
            resource = resources.get(resource_key)
            if resource is None:
                resource = resources[resource_key] = _Resource(span.resource)
            spans = scopes[resource_key, scope_key] = resource.add_scope(span.scope)
        elif spans.size:
            spans.add(b",")
        spans.add(dumps(_span(span, pending)))
        pending.clear()
    return resources.values()


class _Resource:
    """The spans of one resource of a trace, by their scopes."""

    def __init__(self, resource: Mapping[str, Any]) -> None:
        self._resource = dumps(
            set_fields(
                attributes=_FORM.pairs(key_values(mapping(resource.get("attributes")))),
                droppedAttributesCount=count(resource.get("dropped_attributes_count")),
            )
        )
        self._schema = text(resource.get("schema_url"))
        self._scopes: list[tuple[bytes, PackedText]] = []

    def add_scope(self, scope: Mapping[str, Any]) -> PackedText:
        """Begin the spans of a scope."""
        spans = PackedText()
        self._scopes.append((dumps(_scope(scope)), spans))
        return spans

    def written(self) -> Iterator[bytes]:
        """Yield it as JSON."""
        yield b'{"resource":%b,"scopeSpans":[' % self._resource
        for number, (scope, spans) in enumerate(self._scopes):
            yield b'%b{"scope":%b,"spans":[' % (b"," if number else b"", scope)
            yield from spans.blocks()
            yield b"]}"
        yield b'],"schemaUrl":%b}' % dumps(self._schema) if self._schema else b"]}"


def _scope(scope: Mapping[str, Any]) -> dict[str, Any]:
    return set_fields(
        name=text(scope.get("name")),
        version=text(scope.get("version")),
        attributes=_FORM.pairs(key_values(mapping(scope.get("attributes")))),
        droppedAttributesCount=count(scope.get("dropped_attributes_count")),
    )


def _span(view: SpanView, more_warnings: list[str]) -> dict[str, Any]:
    written = _FORM.span(view.span, usable_links(view.span))
    if warnings := [*view.warnings, *more_warnings]:
        told = {"arrayValue": {"values": [{"stringValue": warning} for warning in warnings]}}
        written["attributes"] = [*written.get("attributes", ()), {"key": WARNINGS, "value": told}]
    return written


class _JaegerJson(OtlpJson):
    """Values with exactly one field, and numbers that are numbers: what Jaeger's UI accepts."""

    def number(self, number: float) -> dict[str, Any]:
        return {"doubleValue": number} if math.isfinite(number) else {"stringValue": str(number)}

    def nothing(self) -> dict[str, Any]:
        return {"stringValue": ""}


_FORM: Final = _JaegerJson()
