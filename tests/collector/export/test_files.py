"""An export has every event it was asked for, once, with a bounded part of them in memory."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from google.protobuf.json_format import Parse
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.records import START, make_record
from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.record import Record
from tracehold_collector.export import events as export_events
from tracehold_collector.export.events import EventExport
from tracehold_collector.export.files import FORMS
from tracehold_collector.export.selection import FIELDS, Selection, parse_selection
from tracehold_collector.forward import to_otlp
from tracehold_collector.forward.otlp_json import OtlpJson
from tracehold_collector.store.columns import Cost
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access
from tracehold_collector.store.writer import Writer

ALL = Access(None)
Export = Callable[..., bytes]


@pytest.fixture
def writer(database: Database) -> Iterator[Writer]:
    opened = Writer(database)
    yield opened
    opened.close()


@pytest.fixture
def export(database: Database, writer: Writer) -> Export:
    def export(form: str, selection: Selection | None = None, access: Access = ALL, **more: Any) -> bytes:
        opened = EventExport(database, selection or Selection(), access, **more)
        try:
            return b"".join(FORMS[form][0](opened))
        finally:
            opened.close()

    return export


def rows_of(text: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.decode("utf-8"), newline="")))


def test_csv_has_a_row_an_event_with_readable_times(writer: Writer, export: Export) -> None:
    writer.submit([make_record(0, cost_usd=None), make_record(1, started_at=None, duration_ns=None)]).result(10)
    text = export("csv")
    assert text.count(b"\r\n") == 3
    known, unknown = rows_of(text)
    assert known["started_at_utc"] == "2026-05-28T20:26:40.000000000Z"
    assert (known["started_at"], known["input_tokens"], known["cost_usd"]) == (str(START), "10", "")
    assert (unknown["started_at_utc"], unknown["started_at"], unknown["duration_ns"]) == ("", "", "")
    assert not {"content", "content_chunk", "content_pos"} & set(known)


def test_csv_keeps_any_text_and_gives_a_spreadsheet_no_formula(writer: Writer, export: Export) -> None:
    odd = ['a,"b"\r\nc', "=cmd|' /C calc'!A0", "+1", "-1", "@x", "\tx", "grüße \U0001f600", "'x", ""]
    writer.submit([make_record(n, name=text, content={"t": text}) for n, text in enumerate(odd)]).result(10)
    text = export("csv", with_content=True)
    names = [row["name"] for row in rows_of(text)]
    assert names == [f"'{name}" if name[:1] in "=+-@\t" and name else name for name in odd]
    assert [json.loads(row["content"])["t"] for row in rows_of(text)] == odd


def test_parquet_has_types_and_every_row(writer: Writer, export: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_events, "_ROWS", 7)
    monkeypatch.setattr("tracehold_collector.export.files._GROUP_ROWS", 10)
    writer.submit([make_record(n) for n in range(33)]).result(10)
    file = pq.ParquetFile(io.BytesIO(export("parquet")))
    assert file.metadata.num_row_groups > 1
    table = file.read()
    assert (table.num_rows, str(table.schema.field("started_at_utc").type)) == (33, "timestamp[ns]")
    assert table.column("started_at").to_pylist() == [START + n * 1_000_000 for n in range(33)]


@pytest.mark.parametrize("form", FORMS)
def test_an_export_of_nothing_is_a_file_all_the_same(export: Export, form: str) -> None:
    text = export(form, with_content=True)
    if form == "parquet":
        assert pq.read_table(io.BytesIO(text)).num_rows == 0
    elif form == "csv":
        assert text.startswith(b"started_at_utc,")
        assert text.endswith(b",content\r\n")
    else:
        assert text == b""


def test_contents_are_told_by_event_even_where_two_tenants_chose_one_id(writer: Writer, export: Export) -> None:
    writer.submit(
        [
            make_record(5, tenant="a", run="r", content={"said": "by a"}),
            make_record(5, tenant="b", run="r", content={"said": "by b"}),
            make_record(6, tenant="b", run="r", content=None),
        ]
    ).result(10)
    rows = rows_of(export("csv", with_content=True))
    assert [(row["tenant"], row["content"]) for row in rows] == [
        ("a", '{"said":"by a"}'), ("b", '{"said":"by b"}'), ("b", ""),
    ]  # fmt: skip
    assert [row["tenant"] for row in rows_of(export("csv", access=Access(("b",)), with_content=True))] == ["b", "b"]


def test_contents_that_are_too_much_at_once_are_read_in_smaller_parts(
    writer: Writer, export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(40):  # each its own chunk
        writer.submit([make_record(n, run=f"run-{n}", content={"said": f"{n} " * 200})]).result(10)
    monkeypatch.setattr(export_events, "MAX_PACKED_BYTES", 300)
    rows = rows_of(export("csv", with_content=True))
    assert [json.loads(row["content"])["said"].split()[0] for row in rows] == [str(n) for n in range(40)]


def test_who_may_not_see_contents_cannot_open_an_export_of_them(database: Database) -> None:
    with pytest.raises(ValueError, match="who may see"):
        EventExport(database, Selection(), Access(None, content=False), with_content=True)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"run_id": "run-2"}, [2]),
        ({"since": "2026-05-28T20:26:40.002"}, [2, 3, 4]),
        ({"until": "2026-05-28T20:26:40.002Z"}, [0, 1]),
        ({"since": "2026-05-28T20:26:40.001", "until": "2026-05-28T20:26:40.003"}, [1, 2]),
        ({"tenant": "acme"}, [3]),
        ({"tenant": "nobody"}, []),
        ({"kind": "gate", "decision": "denied"}, [4]),
        ({"agent": "' OR 1=1 --"}, []),
        ({}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_an_export_is_of_what_was_asked_for(writer: Writer, export: Export, given: Any, found: list[int]) -> None:
    writer.submit(
        [
            *(make_record(n, run=f"run-{n}") for n in range(3)),
            make_record(3, tenant="acme"),
            make_record(4, kind="gate", status="blocked", decision="denied"),
            make_record(5, started_at=None),
        ]
    ).result(10)
    rows = rows_of(export("csv", parse_selection(given)))
    assert sorted(int(row["event_id"].replace("-", ""), 16) for row in rows) == found


@pytest.mark.parametrize("given", [{"colour": "x"}, {"since": "soon"}, {"run_id": ""}, {"agent": "x" * 600}])
def test_a_selection_that_means_nothing_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(QueryError):
        parse_selection(given)


def test_every_field_an_export_is_narrowed_by_is_a_column(database: Database) -> None:
    opened = EventExport(database, parse_selection(dict.fromkeys(FIELDS, "x")), ALL)
    assert (opened.events, set(FIELDS) <= set(opened.schema.names)) == (0, True)
    opened.close()


def test_an_export_is_of_one_moment(database: Database, writer: Writer) -> None:
    writer.submit([make_record(n) for n in range(10)]).result(10)
    opened = EventExport(database, Selection(), ALL)
    writer.submit([make_record(n) for n in range(10, 20)]).result(10)
    assert (opened.events, len(rows_of(b"".join(FORMS["csv"][0](opened))))) == (10, 10)
    opened.close()


def test_a_cost_that_became_known_later_is_in_the_table_and_not_in_the_span(
    database: Database, writer: Writer, export: Export
) -> None:
    record = make_record(0, cost_usd=None)
    writer.submit([record]).result(10)
    writer.submit_costs([Cost(record.event_id, "default", "run-1", 1.5, "a list")]).result(10)
    assert rows_of(export("csv", table="priced_events"))[0]["cost_usd"] == "1.5"
    assert b"1.5" not in export("otlp")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=5,
)


@given(content=st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=4), scoped=st.booleans())
def test_otlp_json_says_what_the_protobuf_says(content: dict[str, Any], scoped: bool) -> None:
    """Read by protobuf's own JSON reader, once the ids are base64 as it wants them."""
    more = {"scope": {"name": "s"}, "attributes": content} if scoped else content
    record: Record = make_record(1, trace_id="a" * 32, content=more)
    request = to_otlp([record])
    document = json.loads(OtlpJson().request(request))
    for group in document["resourceSpans"]:
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    assert Parse(json.dumps(document), ExportTraceServiceRequest()) == request
