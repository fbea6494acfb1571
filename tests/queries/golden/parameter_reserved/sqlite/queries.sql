-- name: runs.get_run :optional
-- param batch: text
SELECT run_id
FROM runs
WHERE run_id = :batch;
