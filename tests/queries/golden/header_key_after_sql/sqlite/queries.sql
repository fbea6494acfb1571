-- name: runs.get_run :optional
SELECT run_id
FROM runs
-- param run_id: text
WHERE run_id = :run_id;
