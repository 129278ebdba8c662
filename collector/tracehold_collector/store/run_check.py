"""Holds the sums of runs, which are kept beside the events, against the events they are of."""

from __future__ import annotations

from typing import Final

import duckdb

# What is compared is what a list of runs shows and what sums of spend are made of. Costs are floats summed in another
# order; calls that were priced late stand in `costs`.
_DISAGREEING: Final = """
WITH told AS (
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
        min(source) AS source
    FROM events
    WHERE tenant = $tenant
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
        min(source) AS source
    FROM run_deltas
    WHERE tenant = $tenant
    GROUP BY run_id
), later AS (
    SELECT run_id, sum(change_usd) AS cost_usd, sum(newly_priced) AS priced
    FROM costs
    WHERE tenant = $tenant
    GROUP BY run_id
)
SELECT coalesce(told.run_id, kept.run_id) AS run_id
FROM told
FULL JOIN kept ON told.run_id = kept.run_id
LEFT JOIN later ON later.run_id = coalesce(told.run_id, kept.run_id)
WHERE (told.started_at, told.ended_at, told.events, told.llm_calls, told.tool_calls, told.denials, told.errors,
       told.input_tokens, told.output_tokens, told.unpriced - coalesce(later.priced, 0), told.user_ref,
       told.session_id, told.service, told.trace_id, told.source)
   IS DISTINCT FROM
      (kept.started_at, kept.ended_at, kept.events, kept.llm_calls, kept.tool_calls, kept.denials, kept.errors,
       kept.input_tokens, kept.output_tokens, kept.unpriced, kept.user_ref,
       kept.session_id, kept.service, kept.trace_id, kept.source)
   OR abs(told.cost_usd + coalesce(later.cost_usd, 0) - kept.cost_usd) > 1e-6 * (1 + abs(kept.cost_usd))
ORDER BY run_id
LIMIT $most
"""


def disagreeing_runs(cursor: duckdb.DuckDBPyConnection, tenant: str, *, most: int = 100) -> list[str]:
    """Return runs of a tenant whose kept sums are not those of their events, as far as they are listed.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    return [row[0] for row in cursor.execute(_DISAGREEING, {"tenant": tenant, "most": most}).fetchall()]
