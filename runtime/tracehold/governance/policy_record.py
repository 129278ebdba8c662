"""Recording which policy an agent runs under, so that a later reader finds what a `policy_digest` stood for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from tracehold.observability.event_types import POLICY_CHANGED
from tracehold.observability.tracer import Tracer


@runtime_checkable
class RecordablePolicy(Protocol):
    """Permissions that can say what they are: `PolicyPermissions` and `ToolPermissions` are such."""

    @property
    def policy_digest(self) -> str:
        """The digest over the canonical JSON of `to_dict()`, "sha256:..."."""

    def to_dict(self) -> dict[str, Any]:
        """The policy as JSON values, nothing left out."""


def record_policy(
    tracer: Tracer,
    policy: RecordablePolicy,
    *,
    agent: str | None = None,
    previous_digest: str | None = None,
    author: str | None = None,
) -> None:
    """Record that a policy is in force from now on: one `policy_changed` event.

    Call it where the agent's policy is loaded, once a start: repeating the policy in force says nothing new, and the
    query `policies_on` reads it so. The author is this program's word. To have it recorded under a login, send the file
    with `tracehold policy record`.

    Args:
        tracer: where to.
        policy: what is in force.
        agent: whose policy; default the agent of the run around the call.
        previous_digest: what was in force before, when the program knows.
        author: who put it in force.
    """
    event: Mapping[str, Any] = {
        "type": POLICY_CHANGED,
        "status": "ok",
        "policy_digest": policy.policy_digest,
        "policy": policy.to_dict(),
        "agent": agent,
        "previous_digest": previous_digest,
        "decided_by": author,
    }
    tracer.emit({key: value for key, value in event.items() if value is not None})
