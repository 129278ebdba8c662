-- question: What is known about one run?
-- asked by: engineer, auditor
--
-- param run_id VARCHAR: the run
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column run_id VARCHAR: the run
-- column tenant VARCHAR: whose it is; two tenants may use the same run id, then there are two rows
-- column name VARCHAR: the root's name; NULL when the root is not known or its name was not fit to be stored openly
-- column agent VARCHAR: the agent that ran it
-- column status VARCHAR: how it ended; started while it runs
-- column started_at TIMESTAMP [UTC]: when its first event started
-- column started_at_ns BIGINT [ns since the epoch]: the same, exactly
-- column duration_ns BIGINT [ns]: from the first start to the last end
-- column events BIGINT: how many events were recorded
-- column llm_calls BIGINT: calls of a model
-- column tool_calls BIGINT: calls of a tool that ran
-- column denials BIGINT: decisions that stopped something
-- column errors BIGINT: events that failed
-- column input_tokens BIGINT [tokens]: cached ones included; NULL when none were reported
-- column output_tokens BIGINT [tokens]: reasoning included; NULL when none were reported
-- column cost_usd DOUBLE [USD]: sum of the known costs; NULL when none is known
-- column unpriced_calls BIGINT: model calls without a known cost; when not 0, the cost is a lower bound
-- column user_ref VARCHAR: the user it is about, a keyed pseudonym
-- column session_id VARCHAR: the session it belongs to, a keyed pseudonym
-- column service VARCHAR: the service that sent it
-- column trace_id VARCHAR: its W3C trace id
-- column source VARCHAR: how it came in: otlp, tracer, engine or file
-- column received_at TIMESTAMP [UTC]: when its latest event was taken in

SELECT
    run_id,
    tenant,
    name,
    agent,
    status,
    make_timestamp(started_at // 1000) AS started_at,
    started_at AS started_at_ns,
    duration_ns,
    events,
    llm_calls,
    tool_calls,
    denials,
    errors,
    input_tokens,
    output_tokens,
    cost_usd,
    unpriced_calls,
    user_ref,
    session_id,
    service,
    trace_id,
    source,
    make_timestamp(received_at // 1000) AS received_at
FROM runs
WHERE run_id = $run_id
  AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
  AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
ORDER BY tenant
