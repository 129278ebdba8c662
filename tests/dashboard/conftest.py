"""A collector as far as the dashboard can see one: the real queries over a real store, spoken to over real HTTP."""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import duckdb
import pyarrow as pa
import pytest
from support.stores import MIGRATION, insert_commit
from tracehold_queries import QueryParameterError, catalogue

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z, in nanoseconds."""


class FakeCollector:
    """Answers the part of the API that the dashboard uses. `key` is asked for when it is set."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.asked: list[str] = []
        self.contents: dict[str, dict[str, Any] | None] = {}
        self.budgets: list[dict[str, Any]] = []
        self.search_limit = 100
        self.withheld: dict[str, str] = {}
        self.connection = duckdb.connect(":memory:")
        self.connection.execute(MIGRATION)
        self._numbers = iter(range(1, 10_000_000))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, *events: dict[str, Any]) -> list[str]:
        """Insert events, `content` aside, and what they say about their runs; give their ids."""
        ids: list[str] = []
        rows: list[dict[str, Any]] = []
        for event in events:
            row: dict[str, Any] = {
                "event_id": str(uuid.UUID(int=next(self._numbers))),
                "tenant": "acme",
                "run_id": "run-1",
                "kind": "tool",
                "type": "tool_call",
                "status": "ok",
                "source": "tracer",
                "started_at": T0,
                "received_at": T0,
            } | event
            self.contents[row["event_id"]] = row.pop("content", None)
            rows.append(row)
            ids.append(row["event_id"])
        insert_commit(self.connection, rows)
        return ids

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.connection.close()

    def answer(self, path: str, params: list[tuple[str, str]], accept: str) -> tuple[int, str, bytes]:
        """Give status, content type and body."""
        if path.startswith("/api/v1/queries/"):
            return self._query(path.removeprefix("/api/v1/queries/"), dict(params), accept)
        if path.startswith("/api/v1/events/"):
            return self._event(unquote(path.removeprefix("/api/v1/events/")))
        if path == "/api/v1/contents":
            ids = [value for name, value in params if name == "event_id"]
            assert len(ids) <= 200
            found = {event_id: None if self.withheld else self.contents.get(event_id) for event_id in ids}
            return _json(200, {"contents": found, **self.withheld})
        if path == "/api/v1/budgets" and self.budgets:  # an older collector has no such path
            return _json(200, {"budgets": self.budgets})
        if path == "/api/v1/search/content":
            return self._search(dict(params))
        return _json(404, {"error": "no such path", "hint": ""})

    def _query(self, name: str, params: dict[str, str], accept: str) -> tuple[int, str, bytes]:
        query = catalogue().get(name)
        if query is None:
            return _json(404, {"error": f"there is no query {name}", "hint": "see /api/v1/queries"})
        try:
            table = query.arrow(self.connection.cursor(), **params)
        except QueryParameterError as error:
            return _json(400, {"error": str(error), "hint": "see /api/v1/queries"})
        if accept == "text/csv":
            return 200, accept, table.to_pandas().to_csv(index=False).encode()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return 200, "application/vnd.apache.arrow.stream", sink.getvalue().to_pybytes()

    def _search(self, params: dict[str, str]) -> tuple[int, str, bytes]:
        """As the collector's, with the number of the last hit for a cursor."""
        if self.withheld:
            return _json(403, {"error": "this needs a key with the role content; this one has read", "hint": ""})
        rows = self.connection.execute(
            "SELECT event_id::VARCHAR, run_id, tenant, kind, name, agent, started_at, "
            "make_timestamp(started_at // 1000) FROM events "
            "WHERE $kind IS NULL OR kind = $kind ORDER BY started_at DESC, event_id DESC",
            {"kind": params.get("kind")},
        ).fetchall()
        names = ("event_id", "run_id", "tenant", "kind", "name", "agent", "at_ns", "at")
        hits = [
            dict(zip(names, row, strict=True)) | {"path": "input", "excerpt": text, "more_places": 0}
            | {"at": f"{row[-1].isoformat()}Z", "match_start": 0, "match_length": 1}
            for row in rows
            if params["text"].casefold() in (text := json.dumps(self.contents[row[0]])).casefold()
        ]  # fmt: skip
        first = int(params.get("cursor", "0"))
        page = hits[first : first + self.search_limit]
        more = first + len(page) < len(hits)
        told = {"events": len(page), "of": len(rows), "unread": 0, "hits": len(page), "reached": None}
        end = {"complete": not more, "stopped_by": "hits" if more else None, "cursor": str(first + len(page))}
        lines = [*({"hit": hit} for hit in page), {"progress": told}, {"done": told | end}]
        return 200, "application/x-ndjson", b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    def _event(self, event_id: str) -> tuple[int, str, bytes]:
        cursor = self.connection.cursor().execute(
            "SELECT * EXCLUDE (commitment) FROM events WHERE event_id::VARCHAR = ?", [event_id]
        )
        names = [column[0] for column in cursor.description]
        row = cursor.fetchone()
        if row is None:
            return _json(404, {"error": "no event has this id", "hint": "it may have been deleted"})
        content = None if self.withheld else self.contents.get(event_id)
        return _json(200, {"event": dict(zip(names, row, strict=True)), "content": content, **self.withheld})


def _json(status: int, value: Any) -> tuple[int, str, bytes]:
    return status, "application/json", json.dumps(value, default=str).encode()


def _handler(collector: FakeCollector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            collector.asked.append(self.path)
            if collector.key is not None and self.headers.get("Authorization") != f"Bearer {collector.key}":
                status, kind, body = _json(401, {"error": "a key is needed", "hint": ""})
            else:
                params = parse_qsl(parts.query, keep_blank_values=True)
                status, kind, body = collector.answer(parts.path, params, self.headers.get("Accept", ""))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    return Handler


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCollector]:
    """An empty collector that the dashboard's settings point to."""
    made = FakeCollector()
    monkeypatch.setenv("TRACEHOLD_URL", made.url)
    monkeypatch.delenv("TRACEHOLD_API_KEY", raising=False)
    yield made
    made.stop()


@pytest.fixture
def environment() -> Callable[[], dict[str, str]]:
    return lambda: dict(os.environ)
