"""What each address takes and answers, beside what the code says itself: one entry an address and method.

An address without an entry is in the document all the same, with its path's parameters and its handler's first line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tracehold_collector.access.reading import ACTIONS, MAX_LINES
from tracehold_collector.api.contract.schemas import MOMENT, TEXT, Schema, ref
from tracehold_collector.api.erasure_reports import FORMS as REPORT_FORMS
from tracehold_collector.api.erasure_reports import PDF
from tracehold_collector.api.evidence import POPULATION_HEADER
from tracehold_collector.api.export import COUNT_HEADER
from tracehold_collector.api.forms import FORMATS
from tracehold_collector.api.log import CONTENTS
from tracehold_collector.api.reads import MAX_CONTENTS
from tracehold_collector.api.review import MAX_DUE_HOURS
from tracehold_collector.api.search import MAX_HITS, MAX_SECONDS
from tracehold_collector.api.sql import CUT_HEADER
from tracehold_collector.api.tiles import TILE_TYPE
from tracehold_collector.erasure.request import MAX_NOTE_CHARS
from tracehold_collector.erasure.words import BASES, HOLD_KINDS, MODES, SCOPES
from tracehold_collector.evidence.bundle import MAX_HEADS, MAX_POPULATION
from tracehold_collector.evidence.question import PARAMETERS, QUESTIONS
from tracehold_collector.export.files import FORMS as EXPORT_FORMS
from tracehold_collector.export.selection import FIELDS, MAX_CHARS
from tracehold_collector.review.desk import DUE_HOURS
from tracehold_collector.search.needle import MAX_TEXT_CHARS
from tracehold_collector.store.filters import FILTERS, MAX_VALUE_CHARS
from tracehold_collector.store.following import PAGE_ROWS
from tracehold_collector.verify.wire import MEDIA_TYPE

BINARY: Final[Schema] = {}
"""OpenAPI 3.1: a body of a binary media type has no schema."""

_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the URL's query."""

    name: str
    schema: Schema
    meaning: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """What one method of an address takes and answers.

    Attributes:
        answers: of status 200, by media type.
        parameters: of the query.
        path: schemas of the path's place-holders.
        body: what it takes, by media type; empty for nothing.
        body_required: whether there has to be one.
        refusals: statuses beside those every address has.
        error: the schema of refusals.
        error_types: their media types.
        headers: of an answer of status 200, with what they say.
    """

    answers: Mapping[str, Schema]
    parameters: tuple[Parameter, ...] = ()
    path: Mapping[str, Schema] = field(default_factory=dict)
    body: Mapping[str, Schema] = field(default_factory=dict)
    body_required: bool = True
    refusals: tuple[int, ...] = ()
    error: Schema = field(default_factory=lambda: ref("Error"))
    error_types: tuple[str, ...] = (_JSON,)
    headers: Mapping[str, str] = field(default_factory=dict)


FORMAT: Final = Parameter("format", {"enum": list(FORMATS)}, "the form of the answer, instead of the header Accept")

_TRACE_ID: Final[Schema] = {"type": "string", "pattern": "^[0-9a-fA-F]{1,32}$"}
_NUMBER_TEXT: Final[Schema] = {"type": "string", "pattern": "^[0-9]{1,19}$"}
_FLAG: Final[Schema] = {"enum": ["true", "false"]}
_LEAF: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**62}
_EVENT_ID: Final[Mapping[str, Schema]] = {"event_id": {"type": "string", "format": "uuid"}}
_DAY: Final[Mapping[str, Schema]] = {"day": {"type": "string", "format": "date"}}
_TENANT_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 128}
_TENANT: Final = Parameter("tenant", _TENANT_NAME, "whose log", required=True)
_ONE_TENANT: Final = Parameter("tenant", _TENANT_NAME, "whose log; may be left out when there is only one")
_TILE: Final[Schema] = {"type": "string", "minLength": 1, "description": "such as 0/x001/x234/067.p/8 or entries/000"}


def _otlp(message: str) -> Operation:
    protobuf = "application/x-protobuf"
    return Operation(
        answers={_JSON: {"type": "object", "description": f"{message}Response"}, protobuf: BINARY},
        body={_JSON: {"type": "object", "description": f"{message}Request"}, protobuf: BINARY},
        refusals=(400, 413, 415, 429, 503),
        error=ref("OtlpError"),
        error_types=(_JSON, protobuf),
    )


def _jaeger(*parameters: Parameter, path: Mapping[str, Schema] | None = None, missing: bool = False) -> Operation:
    return Operation(
        {_JSON: ref("JaegerAnswer")},
        parameters,
        path=path or {},
        refusals=(400, 404, 503) if missing else (400, 503),
        error={"type": "object"},
    )


def _jaeger3(*parameters: Parameter, path: Mapping[str, Schema] | None = None, missing: bool = False) -> Operation:
    return Operation(
        {_JSON: {"type": "object"}},
        parameters,
        path=path or {},
        refusals=(400, 404, 503) if missing else (400, 503),
        error={"type": "object"},
    )


def _act(body: Schema, *, path: str | None = None) -> Operation:
    return Operation(
        {_JSON: {"type": "object"}},
        path={path: TEXT} if path else {},
        body={_JSON: body},
        refusals=(400, 404, 409, 413, 415, 503),
    )


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_NOTHING: Final = _object()
_ERASURE: Final = _object(
    ("scope",),
    tenant=TEXT,
    scope={"enum": list(SCOPES)},
    value={"type": "string", "minLength": 1, "maxLength": 40_000},
    mode={"enum": list(MODES), "default": "scrub"},
    basis={"enum": [basis for basis in BASES if basis != "retention"], "default": "operator"},
    received_at=MOMENT,
    note={"type": "string", "maxLength": MAX_NOTE_CHARS},
)
_HOLD: Final = _object(
    ("scope", "reason"),
    tenant=TEXT,
    scope={"enum": list(HOLD_KINDS)},
    value={"type": "string", "minLength": 1, "maxLength": 1_024},
    reason={"type": "string", "minLength": 1, "maxLength": 1_000},
)

_SEARCH: Final = (
    Parameter("service", TEXT, "whose traces", required=True),
    Parameter("operation", TEXT),
    Parameter("start", _NUMBER_TEXT, "microseconds since the epoch"),
    Parameter("end", _NUMBER_TEXT, "microseconds since the epoch"),
    Parameter("lookback", TEXT, "how far back, such as 1h or 2d"),
    Parameter("minDuration", TEXT, "such as 100ms"),
    Parameter("maxDuration", TEXT, "such as 1.5s"),
    Parameter("limit", {"type": "integer", "minimum": 1, "maximum": 1500}),
    Parameter("tag", {"type": "array", "items": TEXT}, "key:value"),
    Parameter("tags", TEXT, "a JSON object of texts"),
    Parameter("traceID", {"type": "array", "items": _TRACE_ID}, "these traces, instead of a search"),
    Parameter("raw", _FLAG),
)

_SEARCH3: Final = (
    Parameter("query.service_name", TEXT),
    Parameter("query.operation_name", TEXT),
    Parameter("query.start_time_min", {"type": "string", "format": "date-time"}, required=True),
    Parameter("query.start_time_max", {"type": "string", "format": "date-time"}, required=True),
    Parameter("query.duration_min", TEXT, "such as 100ms"),
    Parameter("query.duration_max", TEXT, "such as 1.5s"),
    Parameter("query.search_depth", {"type": "integer", "minimum": 0, "maximum": 1500}),
    Parameter("query.attributes", TEXT, "a JSON object of texts"),
    Parameter("query.raw_traces", _FLAG),
)

_FILTERED: Final = tuple(
    Parameter(name, {"type": "string", "minLength": 1, "maxLength": MAX_VALUE_CHARS}, f"only events of this {name}")
    for name in FILTERS
)

_LOG_PATH: Final[Mapping[str, Schema]] = {"tenant": _TENANT_NAME}

OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("POST", "/v1/events"): Operation(
        answers={_JSON: ref("Taken")},
        body={
            "application/x-ndjson": BINARY,
            _JSON: {"description": "an event, or a list of them", "type": ["array", "object"]},
            "application/cloudevents+json": {"type": "object"},
            "application/cloudevents-batch+json": {"type": "array"},
        },
        refusals=(400, 413, 415, 429, 503),
    ),
    ("POST", "/v1/traces"): _otlp("ExportTraceService"),
    ("POST", "/v1/logs"): _otlp("ExportLogsService"),
    ("POST", "/v1/metrics"): _otlp("ExportMetricsService"),
    ("GET", "/api/v1/queries"): Operation({_JSON: ref("Catalogue")}),
    ("GET", "/api/v1/events/{event_id}"): Operation(
        {_JSON: ref("Event")}, path={"event_id": {"type": "string", "format": "uuid"}}, refusals=(400, 404, 503)
    ),
    ("GET", "/api/v1/contents"): Operation(
        {_JSON: ref("Contents")},
        (
            Parameter(
                "event_id",
                {
                    "type": "array",
                    "items": {"type": "string", "format": "uuid"},
                    "minItems": 1,
                    "maxItems": MAX_CONTENTS,
                },
                "of these events",
                required=True,
            ),
        ),
        refusals=(400, 503),
    ),
    ("GET", "/api/v1/search/content"): Operation(
        {"application/x-ndjson": BINARY},
        (
            Parameter("text", {"type": "string", "minLength": 1, "maxLength": MAX_TEXT_CHARS}, "looked for", True),
            Parameter("since", MOMENT, "only what started from then on"),
            Parameter("until", MOMENT, "only what started before then"),
            Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MAX_HITS}, "hits at most"),
            Parameter("seconds", {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS}, "how long at most"),
            Parameter("cursor", TEXT, "where an earlier search was ended, as its last line says"),
            *_FILTERED,
        ),
        refusals=(400, 429, 503),
    ),
    ("GET", "/api/v1/tail"): Operation(
        {"text/event-stream": BINARY},
        (
            Parameter("denials", _FLAG, "only what gates stopped"),
            Parameter("last", {"type": "integer", "minimum": 0, "maximum": PAGE_ROWS}, "past events to begin with"),
            *_FILTERED,
        ),
        refusals=(400, 429, 503),
    ),
    ("GET", "/api/v1/sql"): Operation({_JSON: ref("SqlTables")}),
    ("POST", "/api/v1/sql"): Operation(
        answers={
            _JSON: ref("SqlAnswer"),
            "text/csv": TEXT,
            FORMATS["parquet"]: BINARY,
            FORMATS["arrow"]: BINARY,
        },
        parameters=(FORMAT,),
        body={_JSON: ref("SqlQuestion")},
        refusals=(400, 413, 415, 429, 503),
        headers={CUT_HEADER: "rows or bytes, when the answer was cut short"},
    ),
    ("GET", "/api/v1/export/events"): Operation(
        answers={media_type.partition(";")[0]: BINARY for _, media_type in EXPORT_FORMS.values()},
        parameters=(
            Parameter("format", {"enum": list(EXPORT_FORMS)}, "the form of the file", required=True),
            Parameter("since", MOMENT, "only what started from then on"),
            Parameter("until", MOMENT, "only what started before then"),
            *(
                Parameter(name, {"type": "string", "minLength": 1, "maxLength": MAX_CHARS}, meaning)
                for name, meaning in FIELDS.items()
            ),
            Parameter("with_content", _FLAG, "also what was said; needs the role content"),
        ),
        refusals=(400, 429, 503),
        headers={COUNT_HEADER: "how many events there are in it"},
    ),
    ("GET", "/api/v1/export/evidence"): Operation(
        answers={"application/zip": BINARY},
        parameters=(
            Parameter("question", {"enum": list(QUESTIONS), "default": "denials"}, "what the bundle answers"),
            _ONE_TENANT,
            Parameter("since", MOMENT, "only what started from then on"),
            Parameter("until", MOMENT, "only what started before then"),
            *(
                Parameter(name, {"type": "string", "minLength": 1, "maxLength": MAX_CHARS}, f"only this {name}")
                for name in PARAMETERS
                if name not in {"since", "until"}
            ),
            Parameter("sample", {"type": "integer", "minimum": 1, "maximum": MAX_POPULATION}, "only so many, drawn"),
            Parameter("seed", TEXT, "decides which are drawn; goes with sample"),
            Parameter("with_content", _FLAG, "also what was said; needs the role content"),
            Parameter("complete", _FLAG, "also every other event of the range, to show that nothing is left out"),
            Parameter(
                "tree_head",
                {"type": "array", "items": _LEAF, "maxItems": MAX_HEADS},
                "sizes of tree heads that you hold: the bundle proves that the log only grew since",
            ),
        ),
        refusals=(400, 429, 503),
        headers={
            COUNT_HEADER: "how many records there are in it",
            POPULATION_HEADER: "how many events answer the question",
        },
    ),
    ("POST", "/api/v1/prices/apply"): Operation(
        answers={"application/x-ndjson": BINARY},
        body={_JSON: ref("Repricing")},
        body_required=False,
        refusals=(400,),
    ),
    ("GET", "/api/v1/budgets"): Operation({_JSON: ref("Budgets")}, refusals=(503,)),
    ("GET", "/api/v1/access-log"): Operation(
        {_JSON: ref("Rows")},
        (
            Parameter("since", MOMENT, "from then on"),
            Parameter("until", MOMENT, "before then"),
            Parameter("key", TEXT, "of this key, by id or name"),
            Parameter("action", {"enum": list(ACTIONS)}),
            Parameter("before", {"type": "integer", "minimum": 1, "maximum": 2**62}, "the next page"),
            Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MAX_LINES, "default": 100}),
        ),
        refusals=(400, 503),
    ),
    ("GET", "/api/v1/log"): Operation({_JSON: ref("Logs")}, refusals=(503,)),
    ("GET", "/api/v1/log/state"): Operation({_JSON: {"type": "object"}}, (_TENANT,), refusals=(400, 503)),
    ("GET", "/api/v1/log/frontier"): Operation(
        {_JSON: {"type": "object"}},
        (_TENANT, Parameter("size", {"type": "integer", "minimum": 1, "maximum": 2**62}, "leaves", required=True)),
        refusals=(400, 503),
    ),
    ("GET", "/api/v1/log/window"): Operation(
        {MEDIA_TYPE: BINARY},
        (
            _TENANT,
            Parameter("first", _LEAF, "the first leaf", required=True),
            Parameter("end", _LEAF, "the leaf after the last one", required=True),
            Parameter("contents", {"enum": list(CONTENTS), "default": "check"}, "what to do about contents"),
        ),
        refusals=(400, 503),
    ),
    ("GET", "/api/v1/log/{tenant}/checkpoint"): Operation({"text/plain": TEXT}, path=_LOG_PATH, refusals=(404, 503)),
    ("GET", "/api/v1/log/{tenant}/tile/{tile}"): Operation(
        {TILE_TYPE: BINARY},
        path={**_LOG_PATH, "tile": _TILE},
        refusals=(404, 503),
    ),
    ("GET", "/api/v1/log/{tenant}/proof"): Operation(
        {_JSON: ref("Inclusion")},
        (
            Parameter("event_id", {"type": "string", "format": "uuid"}, "of this event"),
            Parameter("leaf_index", _LEAF, "or of this leaf"),
        ),
        path=_LOG_PATH,
        refusals=(400, 404, 503),
    ),
    ("GET", "/api/v1/log/{tenant}/consistency"): Operation(
        {_JSON: ref("Consistency")},
        (
            Parameter("from", _LEAF, "the smaller size", required=True),
            Parameter("to", _LEAF, "the larger size; by default that of the newest tree head"),
        ),
        path=_LOG_PATH,
        refusals=(400, 404, 503),
    ),
    ("GET", "/api/v1/erasures"): Operation({_JSON: {"type": "object"}}, refusals=(503,)),
    ("GET", "/api/v1/erasures/{erasure_id}"): Operation(
        {_JSON: {"type": "object"}}, path={"erasure_id": TEXT}, refusals=(404, 503)
    ),
    ("GET", "/api/v1/erasures/{erasure_id}/report"): Operation(
        {_JSON: {"type": "object"}}, path={"erasure_id": TEXT}, refusals=(404, 503)
    ),
    ("GET", "/api/v1/erasures/{erasure_id}/report.pdf"): Operation(
        {PDF: BINARY}, path={"erasure_id": TEXT}, refusals=(404, 503)
    ),
    ("GET", "/api/v1/erasure-register"): Operation({_JSON: {"type": "object"}}, refusals=(503,)),
    ("GET", "/api/v1/records-of-processing"): Operation(
        {_JSON: {"type": "object"}, "text/markdown": {"type": "string"}, PDF: BINARY},
        (Parameter("form", {"enum": list(REPORT_FORMS), "default": "json"}, "how it is written"),),
        refusals=(400,),
    ),
    ("POST", "/api/v1/erasures/preview"): _act(_ERASURE),
    ("POST", "/api/v1/erasures/request"): _act(_ERASURE),
    ("POST", "/api/v1/erasures/{erasure_id}/approve"): _act(_NOTHING, path="erasure_id"),
    ("POST", "/api/v1/erasures/{erasure_id}/refuse"): _act(_NOTHING, path="erasure_id"),
    ("GET", "/api/v1/holds"): Operation({_JSON: {"type": "object"}}, refusals=(503,)),
    ("POST", "/api/v1/holds/place"): _act(_HOLD),
    ("POST", "/api/v1/holds/{hold_id}/release"): _act(_NOTHING, path="hold_id"),
    ("GET", "/api/v1/retention"): Operation({_JSON: {"type": "object"}}),
    ("POST", "/api/v1/retention/preview"): _act(_NOTHING),
    ("POST", "/api/v1/retention/run"): _act(_NOTHING),
    ("GET", "/api/v1/reviews/{event_id}"): Operation(
        {_JSON: ref("ReviewSeen")},
        (Parameter("tenant", TEXT, "whose denial, where several tenants have one of this id"),),
        path=_EVENT_ID,
        refusals=(400, 404, 503),
    ),
    ("POST", "/api/v1/reviews/{event_id}/acts"): Operation(
        {_JSON: ref("ReviewDone")},
        path=_EVENT_ID,
        body={_JSON: ref("ReviewAct")},
        refusals=(400, 404, 409, 413, 415, 429, 503),
    ),
    ("GET", "/api/v1/review-days/{day}"): Operation(
        {_JSON: ref("DaySeen")},
        (
            Parameter("tenant", TEXT, "whose denials, where the key names several tenants"),
            Parameter("due_hours", {"type": "integer", "minimum": 1, "maximum": MAX_DUE_HOURS, "default": DUE_HOURS}),
        ),
        path=_DAY,
        refusals=(400, 404, 503),
    ),
    ("POST", "/api/v1/review-days/{day}/signatures"): Operation(
        {_JSON: ref("DayDone")},
        path=_DAY,
        body={_JSON: ref("DaySignature")},
        refusals=(400, 404, 409, 413, 415, 429, 503),
    ),
    ("POST", "/api/v1/policies"): Operation(
        {_JSON: ref("PolicyRegistered")},
        body={_JSON: ref("PolicyRegistration")},
        refusals=(400, 404, 413, 415, 429, 503),
    ),
    ("GET", "/api/services"): _jaeger(),
    ("GET", "/api/services/{service}/operations"): _jaeger(
        path={"service": {"type": "string", "minLength": 1}}, missing=True
    ),
    ("GET", "/api/operations"): _jaeger(
        Parameter("service", TEXT, "whose operations", required=True), Parameter("spanKind", TEXT)
    ),
    ("GET", "/api/traces"): _jaeger(*_SEARCH),
    ("GET", "/api/traces/{trace_id}"): _jaeger(
        Parameter("raw", _FLAG),
        Parameter("start", _NUMBER_TEXT),
        Parameter("end", _NUMBER_TEXT),
        path={"trace_id": _TRACE_ID},
        missing=True,
    ),
    ("GET", "/api/dependencies"): _jaeger(
        Parameter("endTs", _NUMBER_TEXT, "milliseconds since the epoch"),
        Parameter("lookback", _NUMBER_TEXT, "milliseconds"),
        Parameter("service", TEXT),
    ),
    ("GET", "/api/v3/services"): _jaeger3(),
    ("GET", "/api/v3/operations"): _jaeger3(
        Parameter("service", TEXT, "whose operations", required=True), Parameter("span_kind", TEXT)
    ),
    ("GET", "/api/v3/traces"): _jaeger3(*_SEARCH3, missing=True),
    ("GET", "/api/v3/traces/{trace_id}"): _jaeger3(
        Parameter("raw_traces", _FLAG), path={"trace_id": _TRACE_ID}, missing=True
    ),
    ("GET", "/api/v3/trace-summaries"): _jaeger3(*_SEARCH3),
    ("GET", "/healthz"): Operation({"text/plain": TEXT}),
    ("GET", "/readyz"): Operation({_JSON: ref("Ready")}, refusals=(503,), error=ref("Ready")),
    ("GET", "/metrics"): Operation({"text/plain": TEXT}),
    ("GET", "/openapi.json"): Operation({_JSON: {"type": "object"}}),
}
"""By method and path, place-holders written without their converters."""
