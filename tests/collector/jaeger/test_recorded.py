"""Traces of real agents that ship with the project, each in both of Jaeger's forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from support.recorded import shipped
from tracehold_collector.core.settings import load_settings
from tracehold_collector.demo import RECORDED
from tracehold_collector.serve import CollectorServer

Ask = Callable[..., httpx.Response]

FILES = [*RECORDED.rglob("*.otlp.json"), *shipped("llm").parent.rglob("*.otlp.json")]
OTLP = sorted(file for file in FILES if b'"resourceSpans"' in file.read_bytes())
EVENTS = sorted(RECORDED.rglob("*.jsonl"))
ALL_TIME = {"query.start_time_min": "1970-01-01T00:00:00Z", "query.start_time_max": "2100-01-01T00:00:00Z"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorServer]:
    with CollectorServer(load_settings(port=0, grpc=False, data_dir=tmp_path_factory.mktemp("recorded"))) as server:
        for files, path, kind in ((OTLP, "/v1/traces", "json"), (EVENTS, "/v1/events", "x-ndjson")):
            for file in files:
                post(server.url + path, file, f"application/{kind}")
        yield server


def post(url: str, file: Path, content_type: str) -> None:
    answer = httpx.post(
        url, content=file.read_bytes(), headers={"Content-Type": content_type}, trust_env=False, timeout=60
    )
    assert answer.status_code == 200, (file, answer.text)


def test_every_recorded_trace_has_both_forms(
    recorded: CollectorServer, asking: Callable[[CollectorServer], Ask], schemas: dict[str, Any]
) -> None:
    ask = asking(recorded)
    listed = ask("/api/v3/trace-summaries", {**ALL_TIME, "query.search_depth": 1500}).json()
    jsonschema.validate(listed, {**schemas, "$ref": "#/$defs/v3Summaries"})
    assert len(listed["summaries"]) > 50
    first = jsonschema.Draft202012Validator({**schemas, "$ref": "#/$defs/traces"})
    third = jsonschema.Draft202012Validator({**schemas, "$ref": "#/$defs/v3Traces"})
    for summary in listed["summaries"]:
        answer = ask(f"/api/traces/{summary['traceId']}").json()
        first.validate(answer)
        third.validate(ask(f"/api/v3/traces/{summary['traceId']}").json())
        (trace,) = answer["data"]
        said = {
            "spans": len(trace["spans"]),
            "errors": sum(any(tag["key"] == "error" and tag["value"] is True for tag in span["tags"])
                          for span in trace["spans"]),
            "orphans": sum(any("is not in this trace" in text for text in span["warnings"] or ())
                           for span in trace["spans"]),
            "services": sorted({process["serviceName"] for process in trace["processes"].values()}),
        }  # fmt: skip
        assert said == {
            "spans": summary["spanCount"],
            "errors": summary["errorSpanCount"],
            "orphans": summary["orphanSpanCount"],
            "services": [service["name"] for service in summary["services"]],
        }, summary["traceId"]


def test_every_service_and_operation_that_is_listed_finds_a_trace(
    recorded: CollectorServer, asking: Callable[[CollectorServer], Ask]
) -> None:
    ask = asking(recorded)
    for service in ask("/api/services").json()["data"]:
        for operation in ask("/api/operations", service=service).json()["data"][:5]:
            query = {**ALL_TIME, "query.service_name": service, "query.operation_name": operation["name"]}
            assert ask("/api/v3/traces", query).status_code == 200, (service, operation)
