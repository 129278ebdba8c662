"""The OpenAPI document says what the API takes and answers, and the API does as it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis import Case, checks
from support.profile import SOAK
from support.records import make_record
from tracehold_collector.api.app import make_routes
from tracehold_collector.api.contract.document import build_document
from tracehold_collector.api.contract.operations import OPERATIONS
from tracehold_collector.core.settings import load_settings
from tracehold_collector.serve import CollectorServer
from tracehold_queries import RESERVED, catalogue

DOCUMENT = build_document(make_routes())


def without_tuples(value: Any) -> Any:
    """The document without `prefixItems`, which schemathesis rewrites and then takes for a fault of the schema."""
    if isinstance(value, dict):
        return {key: without_tuples(inner) for key, inner in value.items() if key != "prefixItems"}
    return [without_tuples(inner) for inner in value] if isinstance(value, list) else value


SCHEMA = schemathesis.openapi.from_dict(without_tuples(DOCUMENT))

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda part: st.lists(part) | st.dictionaries(st.text(), part),
)
schemathesis.openapi.media_type("application/x-protobuf", st.binary(max_size=200))
schemathesis.openapi.media_type(
    "application/x-ndjson", st.lists(JSON.map(json.dumps), max_size=3).map(lambda lines: "\n".join(lines).encode())
)


def conforms_whole(_context: Any, response: Any, case: Case) -> None:
    """The check that schemathesis cannot make: each value of a row is of its column's type."""
    operation = DOCUMENT["paths"][case.path].get(case.method.lower(), {"responses": {}})
    content = operation["responses"].get(str(response.status_code), {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    if schema is not None and "application/json" in response.headers["content-type"][0]:
        Draft202012Validator(schema | {"components": DOCUMENT["components"]}).validate(response.json())


CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    conforms_whole,
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorServer]:
    folder = tmp_path_factory.mktemp("openapi") / "data"
    with CollectorServer(load_settings(port=0, grpc=False, grpc_port=0, data_dir=folder)) as server:
        server.writer.submit(
            [
                make_record(0, trace_id="a" * 32, service="shop", content={"said": "hello"}),
                make_record(1, trace_id="a" * 32, service="shop", kind="tool", status="error", error_type="Timeout"),
                make_record(2, trace_id="b" * 32, kind="gate", status="blocked", decision="denied", rule="r"),
                make_record(3, started_at=None, duration_ns=None, cost_usd=None, model=None),
            ]
        ).result(10)
        yield server


# A tail has no end: tests of its own read it. One test an operation, with a name: of tests that share theirs, as
# schemathesis makes them, a run on several processes does one.
OPERATIONS_TO_TRY = {
    found.label: found
    for found in (result.ok() for result in SCHEMA.get_all_operations())
    if found.label not in {"POST /api/v1/sql", "GET /api/v1/tail"}
}


@pytest.mark.parametrize("label", OPERATIONS_TO_TRY)
def test_every_operation_answers_generated_requests_as_documented(label: str, running: CollectorServer) -> None:
    @settings(max_examples=100 if SOAK else 15, suppress_health_check=list(HealthCheck))
    @given(case=OPERATIONS_TO_TRY[label].as_strategy())
    def answers(case: Case) -> None:
        case.call_and_validate(base_url=running.url, checks=CHECKS)

    answers()


# Each statement is a process of its own, a third of a second: fewer of them, and the rest of the API is quick.
@SCHEMA.include(path="/api/v1/sql", method="POST").parametrize()
@settings(max_examples=100 if SOAK else 8, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_so_do_statements(case: Case, running: CollectorServer) -> None:
    case.call_and_validate(base_url=running.url, checks=CHECKS)


def test_every_address_is_described_and_nothing_else() -> None:
    """A new route gets an entry in `api/contract/operations.py`."""
    there = {
        (method.upper(), path)
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
        if not path.startswith("/api/v1/queries/")
    }
    assert there == set(OPERATIONS)


def test_every_operation_has_a_summary_a_role_and_an_id_of_its_own() -> None:
    operations = [one for methods in DOCUMENT["paths"].values() for one in methods.values()]
    assert len({one["operationId"] for one in operations}) == len(operations) > 40
    for one in operations:
        assert len(one["summary"]) > 10
        assert "Needs the role" in one["description"] or one["security"] == []


def test_every_named_query_is_an_operation_with_its_parameters_and_columns() -> None:
    for query in catalogue().values():
        operation = DOCUMENT["paths"][f"/api/v1/queries/{query.name}"]["get"]
        names = {parameter["name"] for parameter in operation["parameters"]}
        assert names == {one.name for one in query.parameters if one.name not in RESERVED} | {"format"}
        rows = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert rows["properties"]["columns"]["const"] == [column.name for column in query.columns]


def test_every_schema_is_one_and_every_reference_leads_somewhere() -> None:
    def schemas(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            if "schema" in value:
                yield value["schema"]
            for inner in value.values():
                yield from schemas(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from schemas(inner)

    for schema in [*schemas(DOCUMENT), *DOCUMENT["components"]["schemas"].values()]:
        Draft202012Validator.check_schema(schema)
    used = set(re.findall(r"#/components/schemas/(\w+)", str(DOCUMENT)))
    assert used == set(DOCUMENT["components"]["schemas"])


def test_it_is_served_where_tools_look_for_it(running: CollectorServer) -> None:
    answer = httpx.get(f"{running.url}/openapi.json", trust_env=False)
    assert (answer.status_code, answer.json()["openapi"]) == (200, "3.1.0")
    assert answer.json() == DOCUMENT
