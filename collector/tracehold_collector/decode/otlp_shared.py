"""What all spans of one resource and scope share: masked once, referred to by each (FR-35)."""

from __future__ import annotations

from typing import Any

from tracehold_collector.normalise.content import clean_content
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.span_item import Shared


def share(resource: dict[str, Any], scope: dict[str, Any], context: NormaliseContext) -> Shared:
    """Return the shared part of the spans under `resource` and `scope`, masked.

    Args:
        resource: `attributes` and, when set, `dropped_attributes_count` and `schema_url`.
        scope: `name`, `version`, `attributes`, `dropped_attributes_count`, `schema_url`, each when set.
        context: the cleaner.
    """
    attributes = resource["attributes"]
    content = {key: value for key, value in resource.items() if value}
    said = {"resource": content} if content else {}
    if scope:
        said["scope"] = scope
    return Shared(
        service=attributes.get("service.name"),
        run_id=attributes.get("tracehold.run_id") or attributes.get("tracehold.run.id"),
        tenant=attributes.get("tracehold.tenant"),
        content=clean_content(said, context) if said else {},
    )
