-- question: When was nothing recorded, or were senders sent away, and why?
-- asked by: auditor, engineer, platform owner
--
-- param since TIMESTAMP = NULL: only what lasted beyond this moment (UTC)
-- param until TIMESTAMP = NULL: only what began before this moment (UTC)
-- param limit BIGINT {1..10000} = 100: rows at most, the latest first
-- param tenants VARCHAR[] = NULL: the tenants the asker may see: whoever may see one sees all gaps, since they are about the collector and every tenant; bound by the server
--
-- column type VARCHAR: gap: no collector ran; pause: it told senders to come back; clock: the time was skipped, or came twice
-- column cause VARCHAR: first_start, not_kept, stopped, killed_or_crashed, asleep or frozen; disk_full, store_failed or queue_full; clock_forward or clock_backward
-- column started_at TIMESTAMP [UTC]: its beginning: of a killed collector, its last sign of life; NULL before the store began
-- column ended_at TIMESTAMP [UTC]: its end
-- column duration_ns BIGINT [ns]: how long it was; NULL before the store began
-- column refused BIGINT: requests that were told to come back during a pause

SELECT
    type,
    cause,
    make_timestamp(started_at // 1000) AS started_at,
    make_timestamp(ended_at // 1000) AS ended_at,
    ended_at - started_at AS duration_ns,
    refused
FROM collector_events
WHERE ended_at IS NOT NULL
  AND ($since::TIMESTAMP IS NULL OR ended_at > epoch_ns($since::TIMESTAMP))
  AND ($until::TIMESTAMP IS NULL OR started_at IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
  AND ($tenants::VARCHAR[] IS NULL OR len($tenants::VARCHAR[]) > 0)
ORDER BY ended_at DESC, started_at DESC
LIMIT $limit::BIGINT
