-- One statement a line; each is refused, or shows nothing that is not the asker's.
SELECT * FROM contents
SELECT * FROM main.events
SELECT * FROM tracehold.main.events
SELECT * FROM memory.main.events
SELECT * FROM temp.events
SELECT * FROM "contents"
SELECT * FROM run_deltas
SELECT * FROM schema_migrations
SELECT * FROM information_schema.tables
SELECT * FROM information_schema.columns
SELECT * FROM pg_catalog.pg_settings
SELECT * FROM pg_class
SELECT * FROM sqlite_master
SELECT * FROM duckdb_tables()
SELECT * FROM duckdb_columns
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM which_secret('s3://x', 's3')
SELECT * FROM duckdb_databases()
SELECT * FROM duckdb_logs()
SELECT * FROM duckdb_temporary_files()
SELECT * FROM duckdb_functions()
SELECT * FROM pragma_database_size()
SELECT * FROM pragma_storage_info('events')
SELECT * FROM pragma_table_info('contents')
SELECT * FROM query('SELECT * FROM contents')
SELECT * FROM query_table('contents')
SELECT * FROM query_table(['events', 'contents'])
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM contents'))
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_blob('/proc/self/environ')
SELECT * FROM read_parquet('s3://bucket/x')
SELECT * FROM read_json('http://127.0.0.1/x')
SELECT * FROM read_duckdb('tracehold.duckdb')
SELECT * FROM parquet_metadata('x')
SELECT * FROM sniff_csv('/etc/passwd')
SELECT * FROM glob('/*')
SELECT * FROM '/etc/passwd'
SELECT * FROM 'x.parquet'
SELECT * FROM "https://example.org/x.csv"
SELECT * FROM seq_scan('events')
SELECT * FROM arrow_scan(1, 2, 3)
SELECT * FROM pandas_scan(1)
SELECT * FROM python_map_function(1)
SELECT * FROM repeat('x', 5)
SELECT * FROM test_all_types()
SELECT * FROM checkpoint()
SELECT * FROM enable_logging()
SELECT getenv('HOME')
SELECT system.main.getenv('HOME')
SELECT current_setting('home_directory')
SELECT getvariable('x')
SELECT version()
SELECT current_database(), current_schema()
SELECT current_user
SELECT pg_get_viewdef(1)
SELECT nextval('s')
SELECT txid_current()
SELECT write_log('x')
SELECT sleep_ms(100000)
SELECT pg_sleep(100)
SELECT json_serialize_sql('SELECT 1')
SELECT json_deserialize_sql('{}')
SELECT add_parquet_key('a', 'b')
SELECT * FROM events AT (VERSION => 1)
DESCRIBE contents
DESCRIBE events
SHOW TABLES
SHOW ALL TABLES
SHOW DATABASES
SUMMARIZE events
EXPLAIN SELECT * FROM events
EXPLAIN ANALYZE SELECT * FROM events
COPY events TO '/tmp/x.csv'
COPY (SELECT * FROM events) TO '/tmp/x.parquet'
COPY events FROM '/etc/passwd'
ATTACH '/etc/passwd' AS x
ATTACH ':memory:' AS x
DETACH memory
USE temp
EXPORT DATABASE '/tmp/x'
IMPORT DATABASE '/tmp/x'
INSTALL httpfs
LOAD httpfs
FORCE INSTALL spatial FROM community
PRAGMA database_list
PRAGMA table_info('events')
PRAGMA enable_profiling
PRAGMA version
SET memory_limit = '100GB'
SET enable_external_access = true
SET VARIABLE x = 1
RESET memory_limit
CALL duckdb_settings()
CALL pragma_version()
CREATE TABLE x AS SELECT 1
CREATE TEMP TABLE x (i INT)
CREATE VIEW x AS SELECT 1
CREATE MACRO m() AS 1
CREATE SECRET s (TYPE s3)
CREATE TYPE t AS ENUM ('a')
INSERT INTO events SELECT * FROM events
UPDATE events SET tenant = 'acme'
DELETE FROM events
TRUNCATE events
DROP TABLE events
ALTER TABLE events ADD COLUMN x INT
MERGE INTO events USING costs ON true WHEN MATCHED THEN DELETE
BEGIN
COMMIT
CHECKPOINT
FORCE CHECKPOINT
VACUUM
ANALYZE
PREPARE p AS SELECT 1
EXECUTE p
DEALLOCATE p
SELECT 1; SELECT 2
SELECT 1; DROP TABLE events
SELECT 1;;SELECT * FROM contents
/* x */ SELECT * FROM /* y */ contents -- z
SELECT $1
SELECT ?
SELECT $name
SELECT * FROM events WHERE tenant = $tenants
WITH x AS (DELETE FROM events RETURNING *) SELECT * FROM x
WITH events AS (SELECT * FROM main.events) SELECT * FROM events
WITH x AS (SELECT * FROM contents) SELECT 1
SELECT (SELECT count(*) FROM contents)
SELECT * FROM events, LATERAL (SELECT * FROM contents) t
SELECT * FROM events e WHERE EXISTS (SELECT 1 FROM contents WHERE contents.tenant = e.tenant)
SELECT 1 UNION ALL SELECT count(*) FROM contents
SELECT list_transform([1], x -> getenv('HOME'))
SELECT list_transform(['contents'], x -> (FROM query_table(x)))
FROM (PIVOT contents ON tenant USING count(*))
PIVOT events ON tenant USING count(*)
UNPIVOT contents ON tenant INTO NAME n VALUE v
SELECT * FROM (VALUES (getenv('HOME')))
SELECT COLUMNS(c -> getenv('HOME') = c) FROM events
SELECT content_chunk FROM events
SELECT content_pos FROM events_readable
SELECT * FROM events ORDER BY content_chunk
SELECT e FROM events e WHERE e.content_pos = 1
SELECT '' WHERE 'x' IN (SELECT body::VARCHAR FROM contents)
TABLE contents
FROM contents
VALUES ((SELECT count(*) FROM contents))
SELECT CAST('contents' AS regclass)
SELECT * FROM events TABLESAMPLE reservoir(5 ROWS) REPEATABLE (1), contents
SELECT * FROM generate_series(1, (SELECT count(*) FROM contents))
SELECT row_number() OVER (ORDER BY getenv('X'))
SELECT count(*) FILTER (WHERE getenv('X') = '') FROM events
SELECT first(name ORDER BY getenv('X')) FROM events
SELECT 1 LIMIT (SELECT count(*) FROM contents)
SELECT 1 GROUP BY getenv('X')
SELECT 1 HAVING getenv('X') = ''
SELECT * FROM events QUALIFY getenv('X') = ''
SELECT * FROM read_csv_auto($$/etc/passwd$$)
SELECT * FROM parquet_scan('x')
SELECT read_text('/etc/passwd')
SELECT json_execute_serialized_sql('x')
SELECT * FROM duckdb_variables()
SELECT * FROM pragma_user_agent()
SELECT * FROM EVENTS, CONTENTS
SELECT * FROM "Contents"
SELECT * FROM events, (FROM (FROM (FROM contents)))
SELECT * FROM events WHERE name = (SELECT getenv('HOME'))
SELECT CASE WHEN true THEN current_setting('threads') END
SELECT * FROM api_keys
SELECT * FROM access_log
