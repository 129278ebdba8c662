"""Why a span, log record or event becomes the record it becomes.

Nothing is decided here a second time. The item is normalised as the collector does it, then again without an attribute
and with another value of it (since others may say the same), and what differs is what that attribute did. The tables
are asked only whose rule it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import orjson
from tracehold.observability.event_types import DENIALS

from tracehold_collector.core.record import Record
from tracehold_collector.normalise.classify import classify, fields_of, sources_of
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.dialects import DIALECTS, FIELD_KEYS, KIND_KEYS
from tracehold_collector.normalise.log_item import LogItem
from tracehold_collector.normalise.logs import log_record, overlaid, recognised
from tracehold_collector.normalise.mapping import MAPPING_VERSION
from tracehold_collector.normalise.span_item import SpanItem
from tracehold_collector.normalise.spans import carries_own_event, span_record
from tracehold_collector.normalise.verdict_rules import VERDICT_RULES

_OWN_EVENT: Final = "Tracehold's event format"
_BY_NAME: Final = "read by its name"
_FIELD_OF: Final = {key: name for name, keys in FIELD_KEYS.items() for key in keys}
_DECIDING: Final = frozenset(
    {"decision", "policy_decision", "policy_rule", "word", "agentcore_decision"}
    | {rule.field for rule in VERDICT_RULES if rule.field != "finish_reason"}
)
_COLUMNS: Final = tuple(item.name for item in fields(Record) if item.name not in {"content", "attributes"})
_LONGEST_WORD: Final = 40


@dataclass(frozen=True, slots=True)
class Reading:
    """One attribute that a rule read.

    Attributes:
        attribute: its name.
        dialect: whose name that is.
        rule: the row of the table that names it, such as "input_tokens" or "kind".
        columns: what it filled or changed in the record, with the record's values.
    """

    attribute: str
    dialect: str
    rule: str
    columns: dict[str, Any]


@dataclass(slots=True)
class Explanation:
    """How one item was read.

    Attributes:
        where: its span id or place.
        what: "span", "log record" or "event".
        record: what it becomes.
        readings: the attributes that did something, and what.
        idle: attributes of the tables that did nothing, with the reason.
        unread: attributes that no rule read; they are kept as content.
        given: the other columns that are known: they come from the item itself, not from an attribute.
        kind: why it is of its kind.
        decision: why it carries a decision, or none.
        mapping: the version of the mapping table by which it was read.
    """

    where: str
    what: str
    record: Record
    readings: list[Reading] = field(default_factory=list)
    idle: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    given: dict[str, Any] = field(default_factory=dict)
    kind: str = ""
    decision: str = ""
    mapping: str = MAPPING_VERSION


def explain_span(span: SpanItem, context: NormaliseContext) -> Explanation:
    """Return how an OTLP span is read; it is not changed."""

    def normalise(attributes: dict[str, Any]) -> Record:
        # The real function adds to what it is given.
        return span_record(replace(span, attributes=attributes, extra=dict(span.extra)), context)

    attributes = span.attributes
    found = Explanation(span.span_id, "span", normalise(dict(attributes)))
    if carries_own_event(attributes, fields_of(attributes)):
        _explain_rest(found, attributes, normalise, dialect=_OWN_EVENT)
        found.kind = f"an event of Tracehold's own exporter, of type {found.record.type}"
    else:
        classified = classify(attributes)
        groups = _groups(attributes, _FIELD_OF)
        _explain_fields(found, attributes, groups, sources_of(attributes), normalise)
        _explain_kind_keys(found, attributes, classified.key, normalise)
        _explain_rest(found, attributes, normalise, dialect="")
        found.kind = _kind_of_span(found, classified.key, classified.kind, attributes)
    return _finished(found, attributes, normalise)


def explain_log(item: LogItem, context: NormaliseContext, *, place: int = 0) -> Explanation:
    """Return how an OTLP log record is read; it is not changed.

    Args:
        item: the log record.
        context: by what rules it is read.
        place: how many equal ones stand before it in its request.
    """
    digest = item.digest()

    def normalise(attributes: dict[str, Any]) -> Record:
        return log_record(
            replace(item, attributes=attributes, extra=dict(item.extra)), context, digest=digest, place=place
        )

    attributes = item.attributes
    name, dialect, event = recognised(item)
    whose = dialect.prefix.rstrip(".") or "any"
    found = Explanation(item.span_id or f"log record {place}", "log record", normalise(dict(attributes)))
    own = {key for keys in dialect.fields.values() for key in keys}
    sources = {**sources_of(attributes), **overlaid(attributes, dialect)}
    groups = _groups(attributes, _FIELD_OF)
    for field_, keys in dialect.fields.items():
        groups.setdefault(field_, []).extend(
            key for key in keys if key in attributes and key not in groups.get(field_, ())
        )
    _explain_fields(found, attributes, groups, sources, normalise, whose=whose, own=own)
    if attributes.get("event.name") == name:
        found.readings.append(Reading("event.name", whose, "event", {"type": found.record.type}))
    _explain_rest(found, attributes, normalise, dialect="")
    found.kind = f"log event {name!r} of {whose}: {event.kind}"
    if event.only_if is not None:
        found.kind += f", only with {event.only_if[0]} = {event.only_if[1]}"
    if event.detail:
        found.kind += ", or context when it has a span, which then counts"
    if found.record.kind != event.kind:
        found.kind += f"; here {found.record.kind}"
    return _finished(found, attributes, normalise)


def explain_event(where: str, event: Mapping[str, Any], normalise: Callable[[dict[str, Any]], Record]) -> Explanation:
    """Return how a native event is read.

    Args:
        where: its place.
        event: as sent.
        normalise: makes a record of it, or raises `ItemError`.
    """
    found = Explanation(where, "event", normalise(dict(event)))
    _explain_rest(found, event, normalise, dialect=_OWN_EVENT)
    found.kind = f"type {found.record.type}"
    return _finished(found, event, normalise)


def columns(record: Record) -> dict[str, Any]:
    """Return a record's envelope by column, the allow-listed attributes each as `attributes.NAME`."""
    found = {name: getattr(record, name) for name in _COLUMNS}
    return found | {f"attributes.{name}": value for name, value in (record.attributes or {}).items()}


def dialect_of(attribute: str) -> str:
    """Return whose name an attribute is, for people."""
    best = max((start for start in DIALECTS if attribute.startswith(start)), key=len, default="")
    return DIALECTS.get(best, "")


def changed_value(value: Any) -> Any:
    """Return another value of the same form, to see whether anybody reads it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, dict):
        return {key: changed_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [changed_value(item) for item in value] or ["x"]
    if not isinstance(value, str):
        return "x"
    try:
        return orjson.dumps(changed_value(orjson.loads(value))).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return value + "x"


def _groups(attributes: Mapping[str, Any], field_of: Mapping[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key in attributes:
        if key in field_of:
            groups.setdefault(field_of[key], []).append(key)
    return groups


def _explain_fields(
    found: Explanation,
    attributes: Mapping[str, Any],
    groups: Mapping[str, list[str]],
    sources: Mapping[str, str],
    normalise: Callable[[dict[str, Any]], Record],
    *,
    whose: str = "",
    own: Collection[str] = (),
) -> None:
    for rule, keys in groups.items():
        winner = sources.get(rule)
        # Without all that could fill the field: without the winner alone, the next would take its place.
        changed = _changed(found.record, _without(attributes, keys, normalise))
        if winner is not None:
            # Another field may fill the same columns with the same values: what is read shows when it says otherwise.
            other = {**attributes, winner: changed_value(attributes[winner])}
            changed |= _changed(found.record, _without(other, (), normalise))
        for key in keys:
            if key == winner and changed:
                dialect = whose if key in own else dialect_of(key)
                found.readings.append(Reading(key, dialect, rule, changed))
            elif key == winner:
                found.idle.setdefault(key, f"{rule} is not taken from a {found.what} of kind {found.record.kind}")
            else:
                found.idle.setdefault(key, f"{winner} is trusted more" if winner else "it says nothing")
    for reading in found.readings:
        found.idle.pop(reading.attribute, None)


def _explain_kind_keys(
    found: Explanation,
    attributes: Mapping[str, Any],
    winner: str,
    normalise: Callable[[dict[str, Any]], Record],
) -> None:
    for key in attributes.keys() & KIND_KEYS.keys():
        changed = _changed(found.record, _without(attributes, [key], normalise))
        if key == winner and not any("kind" in reading.columns for reading in found.readings):
            # The next one may say the same; this one came first.
            changed["kind"] = found.record.kind
        if changed:
            found.readings.append(Reading(key, dialect_of(key), "kind", changed))
        elif key == winner:
            found.idle[key] = "an attribute of our own says the kind"
        else:
            found.idle[key] = f"{winner} says the kind first" if winner else "its value is not listed"


def _explain_rest(
    found: Explanation, attributes: Mapping[str, Any], normalise: Callable[[dict[str, Any]], Record], *, dialect: str
) -> None:
    known = {reading.attribute for reading in found.readings} | found.idle.keys()
    for key in attributes:
        if key in known:
            continue
        changed = _changed(found.record, _without(attributes, [key], normalise))
        if changed:
            found.readings.append(Reading(key, dialect or dialect_of(key), _BY_NAME, changed))
        else:
            found.unread.append(key)


def _without(
    attributes: Mapping[str, Any], keys: Iterable[str], normalise: Callable[[dict[str, Any]], Record]
) -> Record | None:
    left_out = set(keys)
    try:
        return normalise({key: value for key, value in attributes.items() if key not in left_out})
    except ItemError:
        return None  # without it, it would be no item at all


def _changed(record: Record, other: Record | None) -> dict[str, Any]:
    if other is None:
        return {"type": record.type}
    before, after = columns(record), columns(other)
    return {name: before.get(name) for name in before | after if before.get(name) != after.get(name)}


def _kind_of_span(found: Explanation, key: str, listed: str, attributes: Mapping[str, Any]) -> str:
    kind = found.record.kind
    own = next((reading for reading in found.readings if reading.rule == "kind" and reading.attribute != key), None)
    if own is not None and "kind" in own.columns:
        said = f"{own.attribute} = {attributes[own.attribute]}"
    elif key:
        said = f"{key} = {attributes[key]}: {listed}"
    else:
        said = "no attribute names a kind in a listed word: other"
    if listed == "wrapper":
        said += ", a task whose usage its own model call repeats"
    if kind == "gate" and found.record.decision in DENIALS:
        said += f"; a {found.record.decision} call is a gate, it never ran"
    return said


def _finished(
    found: Explanation, attributes: Mapping[str, Any], normalise: Callable[[dict[str, Any]], Record]
) -> Explanation:
    _explain_together(found, attributes, normalise)
    filled = {column for reading in found.readings for column in reading.columns}
    found.given = {
        name: value for name, value in columns(found.record).items() if value is not None and name not in filled
    }
    found.decision = _decision(found, attributes)
    return found


def _explain_together(
    found: Explanation, attributes: Mapping[str, Any], normalise: Callable[[dict[str, Any]], Record]
) -> None:
    """Name those of which any one would do, such as two attributes that each say that something failed."""
    named = {reading.attribute for reading in found.readings}
    for key in [*found.idle, *found.unread]:
        missing = _changed(found.record, _only(attributes, named, normalise))
        if not missing:
            return
        still = _changed(found.record, _only(attributes, named | {key}, normalise))
        done = {name: value for name, value in missing.items() if name not in still}
        if done:
            named.add(key)
            found.readings.append(Reading(key, dialect_of(key), _FIELD_OF.get(key, _BY_NAME), done))
            found.idle.pop(key, None)
            if key in found.unread:
                found.unread.remove(key)


def _only(
    attributes: Mapping[str, Any], keys: Collection[str], normalise: Callable[[dict[str, Any]], Record]
) -> Record | None:
    return _without(attributes, [key for key in attributes if key not in keys], normalise)


def _decision(found: Explanation, attributes: Mapping[str, Any]) -> str:
    record = found.record
    if record.decision is not None:
        sayers = dict.fromkeys(reading.attribute for reading in found.readings if "decision" in reading.columns)
        said = f"{record.decision}, said by {' and '.join(sayers) or 'its type'}"
        return said + (": counted as a denial" if record.status == "blocked" else ": not counted as a denial")
    words = [
        f"{key} = {value}" if isinstance(value := attributes[key], str) and len(value) <= _LONGEST_WORD else key
        for key in attributes
        if _FIELD_OF.get(key) in _DECIDING or (found.what == "log record" and key in {"decision", "source"})
    ]
    if words:
        return f"none: {', '.join(words)} is no decision (its words are listed, and a policy's word needs its rule)"
    if record.kind in {"guardrail", "approval", "gate"}:
        return f"none stated; a {found.what} is no denial for being of kind {record.kind}"
    if record.status == "error":
        return "none stated; a failure is no denial"
    return "none stated"
