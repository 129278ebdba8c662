"""JSON Schemas of what goes in and comes out, in the words of OpenAPI 3.1 (JSON Schema 2020-12)."""

from __future__ import annotations

from typing import Any, Final

from tracehold_queries import Column, Parameter

from tracehold_collector.api.contract.reviewing import REVIEW_COMPONENTS

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
MOMENT: Final[Schema] = {
    "type": "string",
    "description": "ISO 8601, UTC unless it names an offset",
    "examples": ["2026-11-29", "2026-11-29T17:00:00Z"],
}

_COLUMN_TYPES: Final[dict[str, Schema]] = {
    "VARCHAR": {"type": ["string", "null"]},
    "UUID": {"type": ["string", "null"], "format": "uuid"},
    "BIGINT": {"type": ["integer", "null"]},
    "INTEGER": {"type": ["integer", "null"]},
    "DOUBLE": {"type": ["number", "null"]},
    "BOOLEAN": {"type": ["boolean", "null"]},
    "TIMESTAMP": {"type": ["string", "null"], "format": "date-time"},
    "DATE": {"type": ["string", "null"], "format": "date"},
    "VARCHAR[]": {"type": ["array", "null"], "items": {"type": ["string", "null"]}},
}

_PARAMETER_TYPES: Final[dict[str, Schema]] = {
    "VARCHAR": TEXT,
    "BIGINT": {"type": "integer", "format": "int64"},
    "DOUBLE": {"type": "number"},
    "BOOLEAN": {"type": "boolean"},
    "TIMESTAMP": MOMENT,
    "DATE": {"type": "string", "format": "date"},
    "TIMEZONE": {"type": "string", "description": "a name of the IANA database", "examples": ["Europe/Berlin"]},
    "VARCHAR[]": {"type": "array", "items": TEXT},
}

COMPONENTS: Final[dict[str, Schema]] = {
    "Error": {
        "type": "object",
        "description": "what happened, to what, and what to do next",
        "properties": {"error": TEXT, "hint": TEXT},
        "required": ["error"],
    },
    "Logs": {
        "type": "object",
        "description": "the audit logs that the key may see",
        "properties": {
            "name": TEXT,
            "logs": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "tenant": TEXT,
                        "size": {"type": "integer"},
                        "origin": TEXT,
                        "keys": {"type": "array", "items": TEXT},
                        "head": {
                            "type": ["object", "null"],
                            "description": "the newest tree head",
                            "properties": {"size": {"type": "integer"}, "root": TEXT, "signed_at": TEXT, "note": TEXT},
                        },
                    },
                    "required": ["tenant", "size", "origin", "keys", "head"],
                },
            },
        },
        "required": ["name", "logs"],
    },
    "OtlpError": {
        "type": "object",
        "description": "google.rpc.Status, as the OTLP specification asks for",
        "properties": {"code": {"type": "integer"}, "message": TEXT},
    },
    "JaegerAnswer": {
        "type": "object",
        "description": "Jaeger's envelope; its own documentation says what `data` holds",
        "properties": {
            "data": {},
            "total": {"type": "integer"},
            "limit": {"type": "integer"},
            "offset": {"type": "integer"},
            "errors": {"type": ["array", "null"]},
        },
        "required": ["data", "errors"],
    },
    "Taken": {
        "type": "object",
        "properties": {
            "accepted": {"type": "integer", "minimum": 0},
            "duplicates": {"type": "integer", "minimum": 0},
            "rejected_count": {"type": "integer", "minimum": 0},
            "rejected": {
                "type": "array",
                "items": {"type": "object", "properties": {"where": TEXT, "reason": TEXT}, "required": ["where"]},
            },
        },
        "required": ["accepted", "duplicates", "rejected_count", "rejected"],
    },
    "Catalogue": {
        "type": "object",
        "properties": {
            "queries": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": TEXT,
                        "question": TEXT,
                        "asked_by": {"type": "array", "items": TEXT},
                        "parameters": {"type": "array", "items": {"type": "object"}},
                        "columns": {"type": "array", "items": {"type": "object"}},
                    },
                    "required": ["name", "question", "asked_by", "parameters", "columns"],
                },
            }
        },
        "required": ["queries"],
    },
    "Event": {
        "type": "object",
        "properties": {
            "event": {"type": "object", "description": "the envelope: columns of the table events"},
            "content": {"type": ["object", "null"], "description": "what it said, with the role content"},
            "content_withheld": TEXT,
        },
        "required": ["event", "content"],
    },
    "Contents": {
        "type": "object",
        "properties": {
            "contents": {"type": "object", "additionalProperties": {"type": ["object", "null"]}},
            "content_withheld": TEXT,
        },
        "required": ["contents"],
    },
    "SqlQuestion": {
        "type": "object",
        "properties": {
            "sql": {"type": "string", "minLength": 1, "maxLength": 50_000, "examples": ["SELECT count(*) FROM runs"]},
            "max_rows": {"type": "integer", "minimum": 1, "maximum": 1_000_000, "default": 10_000},
        },
        "required": ["sql"],
        "additionalProperties": False,
    },
    "SqlAnswer": {
        "type": "object",
        "properties": {
            "columns": {"type": "array", "items": TEXT},
            "types": {"type": "array", "items": TEXT},
            "rows": {"type": "array", "items": {"type": "array"}},
            "cut": {"enum": ["rows", "bytes", None], "description": "what cut the rows short, if anything"},
        },
        "required": ["columns", "types", "rows", "cut"],
    },
    "SqlTables": {
        "type": "object",
        "properties": {
            "tables": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": TEXT,
                        "meaning": TEXT,
                        "columns": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {"name": TEXT, "type": TEXT},
                                "required": ["name", "type"],
                            },
                        },
                    },
                    "required": ["name", "meaning", "columns"],
                },
            },
            "functions": {"type": "array", "items": TEXT},
            "limits": {"type": "object"},
        },
        "required": ["tables", "functions", "limits"],
    },
    "Rows": {
        "type": "object",
        "properties": {
            "columns": {"type": "array", "items": TEXT},
            "rows": {"type": "array", "items": {"type": "array"}},
        },
        "required": ["columns", "rows"],
    },
    "Budgets": {
        "type": "object",
        "properties": {"budgets": {"type": "array", "items": {"type": "object"}}},
        "required": ["budgets"],
    },
    "Inclusion": {
        "type": "object",
        "description": "that a leaf stands in the log (RFC 9162, section 2.1.3); hashes as base64",
        "properties": {
            "leaf_index": {"type": "integer"},
            "size": {"type": "integer"},
            "leaf_hash": TEXT,
            "proof": {"type": "array", "items": TEXT},
            "tree_head": TEXT,
        },
        "required": ["leaf_index", "size", "leaf_hash", "proof", "tree_head"],
    },
    "Consistency": {
        "type": "object",
        "description": "that the log only grew between two sizes (RFC 9162, section 2.1.4); hashes as base64",
        "properties": {
            "old": {"type": "integer"},
            "new": {"type": "integer"},
            "proof": {"type": "array", "items": TEXT},
            "tree_head": {"type": ["string", "null"]},
        },
        "required": ["old", "new", "proof"],
    },
    "Repricing": {
        "type": "object",
        "properties": {
            "again": {"type": "boolean", "default": False, "description": "also calls that a list priced before"},
            "since": {"type": ["string", "null"], "description": "ISO 8601, UTC unless it names an offset"},
            "until": {"type": ["string", "null"], "description": "ISO 8601, UTC unless it names an offset"},
        },
        "additionalProperties": False,
    },
    **REVIEW_COMPONENTS,
    "Ready": {
        "type": "object",
        "properties": {"ready": {"type": "boolean"}, "error": TEXT},
        "required": ["ready"],
    },
}
"""By the name they are referred to."""


def ref(name: str) -> Schema:
    """Return a reference to one of `COMPONENTS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def parameter_schema(parameter: Parameter) -> Schema:
    """Return the schema of a query's parameter."""
    schema = dict(_PARAMETER_TYPES[parameter.type])
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.minimum is not None:
        schema["minimum"] = parameter.minimum
    if parameter.maximum is not None:
        schema["maximum"] = parameter.maximum
    if isinstance(parameter.default, str | int | float | bool):
        schema["default"] = parameter.default
    return schema


def rows_schema(columns: tuple[Column, ...]) -> Schema:
    """Return the schema of a named query's JSON answer: its columns by name, and rows that have their types."""
    return {
        "type": "object",
        "properties": {
            "columns": {"const": [column.name for column in columns]},
            "rows": {
                "type": "array",
                "items": {
                    "type": "array",
                    "prefixItems": [_column_schema(column) for column in columns],
                    "minItems": len(columns),
                    "maxItems": len(columns),
                },
            },
        },
        "required": ["columns", "rows"],
    }


def _column_schema(column: Column) -> Schema:
    unit = f" [{column.unit}]" if column.unit else ""
    return {"title": column.name, "description": column.meaning + unit, **_COLUMN_TYPES.get(column.type, {})}
