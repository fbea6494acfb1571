-- name: runs.get_run :optional
SELECT run_id
FROM runs
WHERE run_id = ?;
