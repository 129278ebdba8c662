"""Recording which policy is in force for an agent, over HTTP."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from tracehold.governance.policy_file import MAX_POLICY_BYTES

from tracehold_collector.api.access import principal_of
from tracehold_collector.api.forms import json_answer
from tracehold_collector.api.noting import note_tenant
from tracehold_collector.api.objects import read_object, text_of
from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.policies.desk import PolicyDesk
from tracehold_collector.review.desk import tenant_of


async def post_policy(request: Request) -> Response:
    """Record that a policy is in force for an agent from now on, under your own login.

    The body is a JSON object: `policy` (what a policy file holds), `agent`, and optionally `tenant` and `note`. One
    that is in force already adds nothing; `event_id` is then null. Nothing is enforced here: the agent's own gates do
    that, and `policies_on` shows which policy they used.
    """
    body = await read_object(request, {"policy", "agent", "tenant", "note"}, max_bytes=2 * MAX_POLICY_BYTES)
    document, agent = body.get("policy"), text_of(body, "agent", required=True)
    if not isinstance(document, dict):
        raise BadBodyError("'policy' is the JSON object that a policy file holds")
    who = principal_of(request)
    tenant = tenant_of(text_of(body, "tenant"), who)
    desk: PolicyDesk = request.app.state.policies
    done = await asyncio.to_thread(desk.register, document, str(agent), tenant, who, text_of(body, "note"))
    note_tenant(request, tenant)
    return json_answer(
        {
            "tenant": tenant,
            "agent": agent,
            "policy_digest": done.digest,
            "previous_digest": done.previous,
            "event_id": None if done.event_id is None else str(done.event_id),
        }
    )
