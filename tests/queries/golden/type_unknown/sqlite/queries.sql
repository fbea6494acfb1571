-- name: runs.get_run :optional
-- param run_id: varchar(64)
SELECT run_id
FROM runs
WHERE run_id = :run_id;
