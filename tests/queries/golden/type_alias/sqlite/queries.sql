-- name: runs.get_run :optional
-- param run_id: string?
SELECT run_id
FROM runs
WHERE run_id = :run_id;
