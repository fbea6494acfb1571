-- How much there is on each surface, for the recovery report.

-- name: recovery.count_users :value
-- doc: How many rows the table has.
-- plan: users, all rows
-- column rows_found: int
SELECT COUNT(*) AS rows_found
FROM users;

-- name: recovery.count_runs :value
-- doc: How many rows the table has.
-- plan: runs, all rows
-- column rows_found: int
SELECT COUNT(*) AS rows_found
FROM runs;

-- name: recovery.count_run_events :value
-- doc: How many rows the table has.
-- plan: run_events, all rows
-- column rows_found: int
SELECT COUNT(*) AS rows_found
FROM run_events;

-- name: recovery.count_threads_meta :value
-- doc: How many rows the table has.
-- plan: threads_meta, all rows
-- column rows_found: int
SELECT COUNT(*) AS rows_found
FROM threads_meta;

-- name: recovery.count_feedback :value
-- doc: How many rows the table has.
-- plan: feedback, all rows
-- column rows_found: int
SELECT COUNT(*) AS rows_found
FROM feedback;
