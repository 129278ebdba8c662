"""Puts the OpenAPI document together, and serves it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from tracehold.core.jsontext import dumps
from tracehold.core.version import __version__
from tracehold_queries import RESERVED, Query, catalogue

from tracehold_collector.access.roles import MAY
from tracehold_collector.api.contract.operations import BINARY, FORMAT, OPERATIONS, Operation, Parameter
from tracehold_collector.api.contract.schemas import COMPONENTS, TEXT, parameter_schema, rows_schema
from tracehold_collector.api.forms import FORMATS
from tracehold_collector.api.needs import HTTP, OPEN_PATHS

_NAMED_QUERY: Final = "/api/v1/queries/{name}"
_CONVERTER: Final = re.compile(r"{(\w+)(?::\w+)?}")

_MEANINGS: Final = {
    400: "The request is not what it claims to be, or cannot be answered; the text says what is wrong.",
    401: "A key is needed, or this one is not taken.",
    403: "This key does not have the role, or the tenants.",
    404: "There is nothing that the asker may see.",
    409: "Somebody else acted meanwhile, or this is no step from here; nothing was changed.",
    413: "Over a limit.",
    415: "A content type or coding that is not read here.",
    429: "Too much at once; `Retry-After` says when to come back.",
    503: "The store cannot answer now.",
}
_WITH_PAUSE: Final = frozenset({429, 503})

_ABOUT: Final = (
    "What agents send goes to `/v1/...`; what people, dashboards and scripts ask is at `/api/v1/...`; Jaeger's query "
    "API is at `/api/...` and `/api/v3/...`. Times are UTC. Unknown is null, never 0. Roles of a key: "
)


def build_document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these routes.

    Args:
        routes: what the application answers; one that is not described elsewhere is described by itself.
    """
    paths: dict[str, dict[str, Any]] = {}
    for path, need_path, method, handler in _endpoints(routes):
        if path == _NAMED_QUERY:
            for query in catalogue().values():
                paths[f"/api/v1/queries/{query.name}"] = {"get": _named_query(query)}
            continue
        described = OPERATIONS.get((method, path))
        about = _about(handler, method, path, need_path)
        written = _undescribed(path) if described is None else _described(described, path)
        paths.setdefault(path, {})[method.lower()] = about | written
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tracehold collector",
            "version": __version__,
            "description": _ABOUT + "; ".join(f"**{role}**: {may}" for role, may in MAY.items()) + ".",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"bearer": []}, {"apiKey": []}, {}],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "a key of `tracehold keys create`"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def document_endpoint(routes: Sequence[BaseRoute]) -> Callable[[Request], Any]:
    """Return the handler of `/openapi.json`; `routes` may still grow until it is first asked."""
    made: list[bytes] = []

    async def openapi(_request: Request) -> Response:
        """Return this document."""
        if not made:
            made.append(dumps(build_document(routes)))
        return Response(made[0], media_type="application/json")

    return openapi


def _endpoints(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str, str, Any]]:
    """Path as OpenAPI writes it, as the route does, method and handler."""
    for route in routes:
        if not isinstance(route, Route):
            continue
        path = _CONVERTER.sub(r"{\1}", route.path)
        endpoint = route.endpoint
        if inspect.isclass(endpoint) and issubclass(endpoint, HTTPEndpoint):
            for method in ("GET", "POST", "PUT", "DELETE"):
                if hasattr(endpoint, method.lower()):
                    yield path, route.path, method, getattr(endpoint, method.lower())
        else:
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield path, route.path, method, endpoint


def _about(handler: Any, method: str, path: str, need_path: str) -> dict[str, Any]:
    summary, _, rest = (inspect.getdoc(handler) or path).partition("\n")
    need = HTTP.get(need_path)
    role = [] if need is None else [f"Needs the role `{need.role}`."]
    about: dict[str, Any] = {
        "operationId": _operation_id(method, path),
        "summary": summary.strip().rstrip("."),
        "description": "\n\n".join([*([rest.strip()] if rest.strip() else []), *role]),
        "tags": [_tag(path)],
    }
    return about | ({"security": []} if path in OPEN_PATHS else {})


def _operation_id(method: str, path: str) -> str:
    words = [word for word in re.split(r"[^A-Za-z0-9]+", path) if word]
    return "_".join([method.lower(), *words])


def _tag(path: str) -> str:
    if path.startswith("/v1/"):
        return "ingest"
    if path.startswith("/api/v1/"):
        return "ask"
    return "jaeger" if path.startswith("/api/") else "operate"


def _described(operation: Operation, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "The answer.", "content": _content(operation.answers)}
    if operation.headers:
        answer["headers"] = {
            name: {"description": meaning, "schema": TEXT} for name, meaning in operation.headers.items()
        }
    written: dict[str, Any] = {
        "parameters": [*_path_parameters(path, operation), *(_parameter(one) for one in operation.parameters)],
        "responses": {"200": answer, **_refusals(operation, path)},
    }
    if operation.body:
        written["requestBody"] = {"required": operation.body_required, "content": _content(operation.body)}
    return written


def _named_query(query: Query) -> dict[str, Any]:
    parameters = [
        Parameter(one.name, parameter_schema(one), one.meaning, one.required)
        for one in query.parameters
        if one.name not in RESERVED
    ]
    answers = dict.fromkeys(FORMATS.values(), BINARY)
    operation = Operation(
        answers | {FORMATS["json"]: rows_schema(query.columns), FORMATS["csv"]: TEXT},
        (*parameters, FORMAT),
        refusals=(400, 503),
    )
    about = {
        "operationId": f"query_{query.name}",
        "summary": query.question,
        "description": f"Asked by: {', '.join(query.asked_by)}.\n\nNeeds the role `read`.",
        "tags": ["ask"],
    }
    return about | _described(operation, "")


def _undescribed(path: str) -> dict[str, Any]:
    return {
        "parameters": _path_parameters(path, None),
        "responses": {"200": {"description": "The answer."}, "default": {"description": "A refusal."}},
    }


def _path_parameters(path: str, operation: Operation | None) -> list[dict[str, Any]]:
    schemas = operation.path if operation else {}
    return [
        {"name": name, "in": "path", "required": True, "schema": schemas.get(name, TEXT)}
        for name in _CONVERTER.findall(path)
    ]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    written = {"name": parameter.name, "in": "query", "required": parameter.required, "schema": parameter.schema}
    return written | ({"description": parameter.meaning} if parameter.meaning else {})


def _refusals(operation: Operation, path: str) -> dict[str, Any]:
    always = () if path in OPEN_PATHS else (401, 403, 429)
    return {
        str(status): {
            "description": _MEANINGS[status],
            "content": _content(dict.fromkeys(operation.error_types, operation.error)),
            **({"headers": {"Retry-After": {"schema": TEXT}}} if status in _WITH_PAUSE else {}),
        }
        for status in sorted({*always, *operation.refusals})
    }


def _content(by_type: Any) -> dict[str, Any]:
    return {media_type: {"schema": schema} if schema else {} for media_type, schema in by_type.items()}
