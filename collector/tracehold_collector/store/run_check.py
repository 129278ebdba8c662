"""Holds the sums of runs, which are kept beside the events, against the events they are of."""

from __future__ import annotations

from typing import Final

import duckdb

from tracehold_collector.core.record import Record
from tracehold_collector.store.run_deltas import RunDelta

# What is compared is what a list of runs shows and what sums of spend are made of. Costs are floats summed in another
# order; calls that were priced late stand in `costs`.
_DISAGREEING: Final = """
WITH ranked AS (
    SELECT
        *,
        CASE
            WHEN name IS NULL THEN NULL
            WHEN started_at IS NOT NULL THEN started_at + if(parent_span_id IS NULL, 0, 1::BIGINT << 62)
            WHEN kind = 'run' THEN (1::BIGINT << 62) - 1
        END AS rank
    FROM events
    WHERE tenant = $tenant
      AND source <> 'collector'  -- what people did here is no agent's run, and is summed up nowhere
), told AS (
    SELECT
        run_id,
        coalesce(min(started_at) FILTER (started_at >= 946684800000000000), min(started_at)) AS started_at,
        max(started_at + coalesce(duration_ns, 0)) AS ended_at,
        count(*) AS events,
        count(*) FILTER (kind = 'llm' AND status <> 'started') AS llm_calls,
        count(*) FILTER (kind = 'tool' AND status NOT IN ('started', 'blocked', 'suspended')) AS tool_calls,
        count(*) FILTER (status = 'blocked' AND decision IS NOT NULL) AS denials,
        count(*) FILTER (status = 'error') AS errors,
        sum(input_tokens) FILTER (kind = 'llm' AND status <> 'started') AS input_tokens,
        sum(output_tokens) FILTER (kind = 'llm' AND status <> 'started') AS output_tokens,
        coalesce(sum(cost_usd) FILTER (kind = 'llm' AND status <> 'started'), 0) AS cost_usd,
        count(*) FILTER (kind = 'llm' AND status <> 'started' AND cost_usd IS NULL) AS unpriced,
        min(user_ref) AS user_ref,
        min(session_id) AS session_id,
        min(service) AS service,
        min(trace_id) AS trace_id,
        min(source) AS source,
        max(received_at) AS received_at,
        arg_min(agent, (coalesce(started_at, 0), agent)) AS agent,
        arg_min(name, (rank, name)) FILTER (rank IS NOT NULL) AS name,
        arg_min(status, (started_at, status)) FILTER (parent_span_id IS NULL AND started_at IS NOT NULL) AS root_status,
        arg_max(status, (coalesce(started_at + coalesce(duration_ns, 0), 0), status))
            FILTER (kind = 'run' AND status <> 'started') AS end_status
    FROM ranked
    GROUP BY run_id
), kept AS (
    SELECT
        run_id,
        coalesce(min(started_at) FILTER (started_at >= 946684800000000000), min(started_at)) AS started_at,
        max(ended_at) AS ended_at,
        sum(events) AS events,
        sum(llm_calls) AS llm_calls,
        sum(tool_calls) AS tool_calls,
        sum(denials) AS denials,
        sum(errors) AS errors,
        sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens,
        coalesce(sum(cost_usd), 0) AS cost_usd,
        sum(unpriced_calls) AS unpriced,
        min(user_ref) AS user_ref,
        min(session_id) AS session_id,
        min(service) AS service,
        min(trace_id) AS trace_id,
        min(source) AS source,
        max(received_at) AS received_at,
        arg_min(agent, (agent_at, agent)) AS agent,
        arg_min(root_name, (root_rank, root_name)) AS name,
        arg_min(root_status, (root_status_at, root_status)) AS root_status,
        arg_max(end_status, (end_at, end_status)) AS end_status,
        list(DISTINCT run_key) AS keys,
        count(*) = 1 AS alone,
        if(alone, any_value(share_calls), arg_max_null(share_calls, share_at)) AS share_calls,
        if(alone, any_value(share_input_tokens), arg_max_null(share_input_tokens, share_at)) AS share_input_tokens,
        if(alone, any_value(share_output_tokens), arg_max_null(share_output_tokens, share_at)) AS share_output_tokens,
        if(alone, any_value(share_cost_usd), arg_max_null(share_cost_usd, share_at)) AS share_cost_usd,
        if(alone, any_value(share_unpriced), arg_max_null(share_unpriced, share_at)) AS share_unpriced
    FROM run_deltas
    WHERE tenant = $tenant
    GROUP BY run_id
), shares AS (
    SELECT
        run_id,
        sum(calls) AS calls,
        sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens,
        sum(cost_usd) AS cost_usd,
        sum(unpriced_calls) AS unpriced
    FROM usage_shares
    WHERE tenant = $tenant
    GROUP BY run_id
), later AS (
    SELECT run_id, sum(change_usd) AS cost_usd, sum(newly_priced) AS priced
    FROM costs
    WHERE tenant = $tenant
    GROUP BY run_id
)
SELECT
    coalesce(told.run_id, kept.run_id) AS run_id,
    (told.started_at, told.ended_at, told.events, told.llm_calls, told.tool_calls, told.denials, told.errors,
     told.input_tokens, told.output_tokens, told.unpriced - coalesce(later.priced, 0), told.user_ref,
     told.session_id, told.service, told.trace_id, told.source)
        IS DISTINCT FROM
    (kept.started_at, kept.ended_at, kept.events, kept.llm_calls, kept.tool_calls, kept.denials, kept.errors,
     kept.input_tokens, kept.output_tokens, kept.unpriced, kept.user_ref,
     kept.session_id, kept.service, kept.trace_id, kept.source)
    OR abs(told.cost_usd + coalesce(later.cost_usd, 0) - kept.cost_usd) > 1e-6 * (1 + abs(kept.cost_usd))
    OR kept.received_at < told.received_at
    OR list_has_any(kept.keys, [key FOR key IN kept.keys IF key <> md5_number_lower(kept.run_id)])
    OR (coalesce(shares.calls, 0), coalesce(shares.input_tokens, 0), coalesce(shares.output_tokens, 0),
        coalesce(shares.unpriced, 0))
        IS DISTINCT FROM
       (coalesce(kept.share_calls, 0), coalesce(kept.share_input_tokens, 0), coalesce(kept.share_output_tokens, 0),
        coalesce(kept.share_unpriced, 0))
    OR abs(coalesce(shares.cost_usd, 0) - coalesce(kept.share_cost_usd, 0)) > 1e-6 AS wrong,
    (kept.name, kept.agent, kept.root_status, kept.end_status) AS words
FROM told
FULL JOIN kept ON told.run_id = kept.run_id
LEFT JOIN later ON later.run_id = coalesce(told.run_id, kept.run_id)
LEFT JOIN shares ON shares.run_id = coalesce(told.run_id, kept.run_id)
WHERE wrong
   OR (told.name, told.agent, told.root_status, told.end_status)
      IS DISTINCT FROM (kept.name, kept.agent, kept.root_status, kept.end_status)
ORDER BY run_id
LIMIT $most
"""
_OF_RUN: Final = """
SELECT tenant, run_id, parent_span_id, kind, type, name, status, started_at, duration_ns, agent, source
FROM events
WHERE tenant = ? AND run_id = ? AND source <> 'collector'
ORDER BY received_at, rowid
"""


def disagreeing_runs(cursor: duckdb.DuckDBPyConnection, tenant: str, *, most: int = 100) -> list[str]:
    """Return runs of a tenant whose kept sums are not those of their events, as far as they are listed.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    rows = cursor.execute(_DISAGREEING, {"tenant": tenant, "most": most}).fetchall()
    return [run_id for run_id, wrong, words in rows if wrong or _words(cursor, tenant, run_id) != tuple(words)]


def _words(cursor: duckdb.DuckDBPyConnection, tenant: str, run_id: str) -> tuple[str | None, ...]:
    """What the events call their run, as they came: of two at once the first, until rows are folded."""
    cursor.execute(_OF_RUN, [tenant, run_id])
    names = [column[0] for column in cursor.description or []]
    delta = RunDelta(tenant, run_id)
    while row := cursor.fetchone():
        delta.add(Record(event_id=b"", **dict(zip(names, row, strict=True))))
    return delta.root_name, delta.agent, delta.root_status, delta.end_status
