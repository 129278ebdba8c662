-- question: Was every day's list of denials looked at, by whom, what was found, and what is still open?
-- asked by: auditor
--
-- param day DATE = NULL: only this day
-- param from_day DATE = NULL: only this day and later ones
-- param until_day DATE = NULL: only days before this one
-- param due_hours BIGINT {1..8784} = 24: hours after receipt by which a denial should be reviewed
-- param limit BIGINT {1..10000} = 100: rows at most
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column day DATE [UTC]: the day on which the collector received the denials: once over, none is added to it
-- column tenant VARCHAR: whose they are
-- column denials BIGINT: denials received that day
-- column unreviewed BIGINT: of these, without a verdict: open or assigned
-- column awaiting_sign_off BIGINT: of these, incidents that a second login has not signed yet
-- column overdue BIGINT: of these, waiting for a review or a sign-off longer than they should
-- column justified BIGINT: of these, found justified
-- column false_alarms BIGINT: of these, found to be false alarms
-- column incidents BIGINT: of these, found to be incidents
-- column reviewers VARCHAR: the logins that gave the verdicts, with how many each
-- column signed_by VARCHAR: the login that signed the day off last; NULL when nobody has
-- column signed_at TIMESTAMP [UTC]: when that was
-- column signed_unreviewed BIGINT: how many were without a verdict then
-- column changed_after BIGINT: denials that somebody acted on after that
-- column revision BIGINT: how often the day was signed off

WITH standing AS MATERIALIZED (
    SELECT
        denials.day,
        denials.tenant,
        denials.received_at,
        reviews.last_at,
        coalesce(reviews.state, 'open') AS state,
        reviews.verdict,
        reviews.verdict_by
    FROM (
        SELECT tenant, event_id, received_at, make_timestamp(received_at // 1000)::DATE AS day
        FROM events
        WHERE status = 'blocked'
          AND list_contains(['denied', 'rejected', 'unconfirmed', 'expired', 'invalid_args', 'unknown_tool', 'tripped',
                             'limited', 'cancelled'], decision)
          AND source <> 'collector'
          AND ($day::DATE IS NULL OR received_at >= epoch_ns($day::DATE::TIMESTAMP))
          AND ($day::DATE IS NULL OR received_at < epoch_ns($day::DATE::TIMESTAMP + INTERVAL 1 DAY))
          AND ($from_day::DATE IS NULL OR received_at >= epoch_ns($from_day::DATE::TIMESTAMP))
          AND ($until_day::DATE IS NULL OR received_at < epoch_ns($until_day::DATE::TIMESTAMP))
          AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
          AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
    ) AS denials
    LEFT JOIN reviews ON reviews.tenant = denials.tenant AND reviews.denial_id = denials.event_id
),
signed AS NOT MATERIALIZED (
    SELECT *
    FROM signed_days
    WHERE ($day::DATE IS NULL OR day = $day::DATE)
      AND ($from_day::DATE IS NULL OR day >= $from_day::DATE)
      AND ($until_day::DATE IS NULL OR day < $until_day::DATE)
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
-- Days without a denial count as soon as somebody signed them: that nothing was stopped is an answer too.
listed AS (
    SELECT day, tenant FROM standing
    UNION
    SELECT day, tenant FROM signed
),
verdicts AS (
    SELECT day, tenant, string_agg(verdict_by || ' (' || given || ')', ', ' ORDER BY given DESC, verdict_by) AS reviewers
    FROM (
        SELECT day, tenant, verdict_by, count(*) AS given
        FROM standing
        WHERE verdict_by IS NOT NULL
        GROUP BY day, tenant, verdict_by
    )
    GROUP BY day, tenant
),
counted AS (
    SELECT
        listed.day,
        listed.tenant,
        any_value(signed.signed_at) AS signed_at,
        count(standing.state) AS denials,
        count(*) FILTER (standing.state IN ('open', 'assigned')) AS unreviewed,
        count(*) FILTER (standing.state = 'awaiting_sign_off') AS awaiting_sign_off,
        count(*) FILTER (
            standing.state IN ('open', 'assigned', 'awaiting_sign_off')
            AND standing.received_at < epoch_ns(now()) - $due_hours::BIGINT * 3600000000000
        ) AS overdue,
        count(*) FILTER (standing.verdict = 'justified') AS justified,
        count(*) FILTER (standing.verdict = 'false_alarm') AS false_alarms,
        count(*) FILTER (standing.verdict = 'incident') AS incidents,
        count(*) FILTER (standing.last_at > signed.signed_at) AS changed_after
    FROM listed
    LEFT JOIN standing ON standing.day = listed.day AND standing.tenant = listed.tenant
    LEFT JOIN signed ON signed.day = listed.day AND signed.tenant = listed.tenant
    GROUP BY listed.day, listed.tenant
)
SELECT
    counted.day,
    counted.tenant,
    counted.denials,
    counted.unreviewed,
    counted.awaiting_sign_off,
    counted.overdue,
    counted.justified,
    counted.false_alarms,
    counted.incidents,
    verdicts.reviewers,
    signed.signed_by,
    make_timestamp(counted.signed_at // 1000) AS signed_at,
    signed.unreviewed AS signed_unreviewed,
    CASE WHEN counted.signed_at IS NOT NULL THEN counted.changed_after END AS changed_after,
    coalesce(signed.revision, 0) AS revision
FROM counted
LEFT JOIN verdicts ON verdicts.day = counted.day AND verdicts.tenant = counted.tenant
LEFT JOIN signed ON signed.day = counted.day AND signed.tenant = counted.tenant
ORDER BY counted.day DESC, counted.tenant
LIMIT $limit::BIGINT
