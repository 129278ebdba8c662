-- One statement a line; each runs.
SELECT name, count(*) AS n FROM events GROUP BY ALL ORDER BY n DESC, name LIMIT 5
SELECT cost_usd::DECIMAL(10,2), [1,2]::BIGINT[], {'a': 1}::STRUCT(a INTEGER), MAP {'a': 1}, 'x'::UUID IS NULL FROM events WHERE false
SELECT TRY_CAST(name AS INTEGER), CAST(started_at AS VARCHAR), DATE '2026-01-01', TIMESTAMP '2026-01-01', INTERVAL 1 DAY, '1'::UTINYINT, 1::HUGEINT FROM events
SELECT CASE WHEN input_tokens BETWEEN 1 AND 5 THEN 'a' ELSE 'b' END, coalesce(agent, '?'), nullif(agent, 'x'), agent IN ('a', 'b'), NOT (seq IS NULL), agent IS DISTINCT FROM name FROM events
WITH per AS (SELECT run_id, sum(cost_usd) AS usd FROM events GROUP BY 1), top AS MATERIALIZED (FROM per ORDER BY usd DESC LIMIT 3) SELECT * FROM top JOIN runs USING (run_id)
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t
SELECT run_id, row_number() OVER (PARTITION BY run_id ORDER BY started_at DESC) AS place, lag(duration_ns, 1) OVER w FROM events WINDOW w AS (ORDER BY started_at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) QUALIFY place = 1
SELECT quantile_cont(duration_ns, [0.5, 0.99]), median(duration_ns), mode(status), list(DISTINCT model), string_agg(name, ',' ORDER BY name), count(*) FILTER (WHERE status = 'ok'), arg_max(name, started_at) FROM events
SELECT time_bucket(INTERVAL '1 hour', started_at_utc), date_trunc('day', started_at_utc), strftime(started_at_utc, '%Y-%m-%d'), started_at_utc AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin', extract(hour FROM started_at_utc) FROM events_readable
SELECT attributes->>'k', attributes->'$.k', json_extract_string(attributes, '$.k') FROM events
SELECT e.run_id FROM events e, LATERAL (SELECT r.status FROM runs r WHERE r.run_id = e.run_id) x WHERE EXISTS (SELECT 1 FROM runs WHERE runs.run_id = e.run_id) AND e.cost_usd > ALL (SELECT 0)
SELECT * EXCLUDE (tenant) REPLACE (upper(agent) AS agent) FROM runs
SELECT COLUMNS('.*_tokens') FROM events LIMIT 1
SELECT min(COLUMNS(* EXCLUDE (attributes, commitment))) FROM events
SELECT list_transform([1, 2], x -> x + 1), list_filter([1, 2], lambda x: x > 1), [x * 2 FOR x IN [1, 2] IF x > 1], len('abc'), 'abc'[1:2], {'a': 1}.a
SELECT * FROM range(3) t(i) POSITIONAL JOIN generate_series(1, 3)
SELECT unnest([1, 2]), unnest({'a': 1, 'b': 2})
SELECT * FROM unnest([1, 2]) AS t(x)
SELECT status, agent, grouping(status) FROM events GROUP BY CUBE (status, agent)
SELECT * FROM (PIVOT (SELECT status, agent, cost_usd FROM events) ON status IN ('ok', 'error') USING sum(cost_usd) GROUP BY agent)
SELECT * FROM (UNPIVOT (SELECT input_tokens, output_tokens FROM events) ON input_tokens, output_tokens INTO NAME kind VALUE n)
(SELECT 1 UNION SELECT 2) EXCEPT SELECT 2 INTERSECT SELECT 2 ORDER BY 1
VALUES (1, 'a'), (2, 'b')
FROM runs SELECT run_id WHERE name ILIKE 'chat%' AND name NOT LIKE '%x' AND regexp_matches(name, '^c') AND name SIMILAR TO 'c.*' AND name GLOB 'c*'
SELECT * FROM events TABLESAMPLE 10%
SELECT a.run_id FROM events a ASOF JOIN events b ON a.run_id = b.run_id AND a.started_at >= b.started_at
SELECT * FROM events SEMI JOIN runs USING (run_id)
SELECT DISTINCT ON (run_id) run_id, name FROM events ORDER BY run_id, started_at LIMIT 10 OFFSET 1
SELECT name COLLATE NOCASE FROM events ORDER BY name COLLATE de
SELECT TRY(1 / 0), 5 // 2, 2 ** 3, 7 % 2, ~1, 1 & 3, 'a' || 'b', -1, @(-1), 5!
SELECT count(*), current_date, now(), random(), uuid() FROM priced_events, costs, spend_entries
SELECT 1;
SELECT 'a' LIMIT 50%
SELECT ROW(1, 2), (1, 2), struct_pack(a := 1), #1 FROM events
SELECT 'contents'::VARCHAR, 'a'::ENUM('a', 'b'), 1::BIT, '{"a":1}'::JSON
SELECT sum(input_tokens) / count(DISTINCT run_id) FROM events WHERE started_at >= epoch_ns(TIMESTAMP '2026-11-01') AND started_at < epoch_ns(TIMESTAMP '2026-12-01')
