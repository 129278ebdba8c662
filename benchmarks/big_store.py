"""A store of millions of events, made by SQL within a minute or two: for questions, whose cost is that of the rows.

Runs of 20 events: a root, model calls and tool calls in turn, in one of 40 runs a denied tool call, in one of 30 events an
error. 40 agents, 8 services, 12 models, 300 tools, 60 kinds of error, 5 tenants, 20,000 people. Rows lie as a writer lays
them: by the time they came in, runs that go on at the same time interleaved, a commit every 400 rows, one row of sums a
run and commit. Nothing was said: contents are another benchmark's.
"""

from __future__ import annotations

import time
from importlib import resources
from pathlib import Path

from tracehold_collector.store.database import Database, DatabaseOptions

PER_RUN = 20
AT_ONCE = 50
"""Runs that go on at the same time."""
START = 1_780_000_000_000_000_000
SPACING_NS = 2_000_000_000
"""Between two events: 10 million span 231 days."""
_PIECE = 1_000_000

_EVENTS = f"""
INSERT INTO events BY NAME
WITH numbered AS (
    SELECT
        i,
        (i // {PER_RUN * AT_ONCE}) * {AT_ONCE} + i % {AT_ONCE} AS run,
        (i % {PER_RUN * AT_ONCE}) // {AT_ONCE} AS step,
        (hash(i) >> 1)::BIGINT AS h
    FROM range($first::BIGINT, $last::BIGINT) AS numbers(i)
),
shaped AS (
    SELECT
        *,
        (hash(run) >> 1)::BIGINT AS r,
        CASE
            WHEN step = 0 THEN 'agent'
            WHEN step = 7 AND run % 40 = 3 THEN 'gate'
            WHEN step % 2 = 1 THEN 'llm'
            ELSE 'tool'
        END AS kind
    FROM numbered
)
SELECT
    md5(i::VARCHAR)::UUID AS event_id,
    'tenant-' || (r % 5) AS tenant,
    md5('run ' || run) AS run_id,
    md5('run ' || run) AS trace_id,
    printf('%016x', h) AS span_id,
    CASE WHEN step > 0 THEN printf('%016x', hash(i - step * {AT_ONCE})) END AS parent_span_id,
    kind,
    CASE kind WHEN 'agent' THEN 'invoke_agent' WHEN 'llm' THEN 'chat' WHEN 'gate' THEN 'gate' ELSE 'execute_tool' END
        AS type,
    CASE kind
        WHEN 'agent' THEN 'invoke_agent agent-' || (r % 40)
        WHEN 'llm' THEN 'chat model-' || (h % 12)
        ELSE ['search_', 'fetch_', 'write_', 'send_', 'list_', 'update_'][1 + h % 6] || (h % 50)
    END AS name,
    CASE WHEN kind = 'gate' THEN 'blocked' WHEN h % 30 = 0 THEN 'error' ELSE 'ok' END AS status,
    {START} + i * {SPACING_NS} + (h % 1000000000)::BIGINT AS started_at,
    (1000000 + h % 3000000000)::BIGINT AS duration_ns,
    'agent-' || (r % 40) AS agent,
    'u_' || printf('%016x', hash(r % 20000)) AS user_ref,
    's_' || printf('%016x', hash(run // 3)) AS session_id,
    'service-' || (r % 8) AS service,
    CASE WHEN kind = 'llm' THEN 'model-' || (h % 12) END AS model,
    CASE WHEN kind = 'llm' THEN ['openai', 'anthropic', 'google'][1 + h % 3] END AS provider,
    CASE WHEN kind = 'llm' THEN (200 + h % 9000)::BIGINT END AS input_tokens,
    CASE WHEN kind = 'llm' THEN (20 + h % 900)::BIGINT END AS output_tokens,
    CASE WHEN kind = 'llm' AND h % 2 = 0 THEN (h % 150)::BIGINT END AS cached_tokens,
    CASE WHEN kind = 'llm' AND h % 20 > 0 THEN (1 + h % 1000) / 1e5 END AS cost_usd,
    CASE WHEN kind = 'llm' AND h % 20 > 0 THEN 'genai-prices' END AS price_source,
    CASE WHEN kind = 'gate' THEN ['denied', 'rejected', 'tripped'][1 + h % 3] END AS decision,
    CASE WHEN kind = 'gate' THEN 'policy' END AS decided_by,
    CASE WHEN kind = 'gate' THEN 'rule-' || (h % 25) END AS rule,
    CASE WHEN h % 30 = 0 AND kind <> 'gate' THEN 'Error' || (h // 30 % 60) || 'Exceeded' END AS error_type,
    CASE WHEN kind = 'llm' THEN '{{"finish_reason":"stop"}}' END AS attributes,
    'otlp' AS source,
    {START} + (i // 400) * 400 * {SPACING_NS} + 1000000000 AS received_at
FROM shaped
"""  # noqa: S608 - numbers of this module

_DELTAS = """
INSERT INTO run_deltas BY NAME
SELECT
    tenant,
    run_id,
    received_at,
    min(started_at) AS started_at,
    max(started_at + duration_ns) AS ended_at,
    count(*) AS events,
    count(*) FILTER (kind = 'llm') AS llm_calls,
    count(*) FILTER (kind = 'tool') AS tool_calls,
    count(*) FILTER (kind = 'gate') AS denials,
    count(*) FILTER (status = 'error') AS errors,
    sum(input_tokens)::BIGINT AS input_tokens,
    sum(output_tokens)::BIGINT AS output_tokens,
    sum(cost_usd) AS cost_usd,
    count(*) FILTER (kind = 'llm' AND cost_usd IS NULL) AS unpriced_calls,
    min(started_at + CASE WHEN parent_span_id IS NULL THEN 0 ELSE 1::BIGINT << 62 END) AS root_rank,
    arg_min(name, started_at) AS root_name,
    min(status) FILTER (parent_span_id IS NULL) AS root_status,
    min(started_at) FILTER (parent_span_id IS NULL) AS root_status_at,
    min(agent) AS agent,
    min(started_at) AS agent_at,
    min(user_ref) AS user_ref,
    min(session_id) AS session_id,
    min(service) AS service,
    min(trace_id) AS trace_id,
    min(source) AS source
FROM events
WHERE received_at BETWEEN $first_ns AND $last_ns
GROUP BY tenant, run_id, received_at
"""


def build(folder: Path, events: int, *, folded: bool = True) -> float:
    """Make the store; return the seconds it took.

    Args:
        folder: a data folder without a store.
        events: how many.
        folded: fold the sums of runs, as the writer does while nobody sends.
    """
    begun = time.perf_counter()
    database = Database(folder / "tracehold.duckdb", DatabaseOptions(memory_limit="4GB", threads=2))
    connection = database.connection
    for first in range(0, events, _PIECE):
        last = min(events, first + _PIECE)
        connection.execute(_EVENTS, {"first": first, "last": last})
        bounds = {"first_ns": START + first * SPACING_NS, "last_ns": START + last * SPACING_NS}
        connection.execute(_DELTAS, bounds)
    if folded:
        connection.execute((resources.files("tracehold_collector.store.sql") / "fold_run_deltas.sql").read_text())
    connection.execute("CHECKPOINT")
    database.close()
    return time.perf_counter() - begun
