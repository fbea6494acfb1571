-- name: runs.get_run :optional
-- param run_id: text
SELECT run_id
FROM runs
WHERE run_id = :run_id
	AND user_id = :user_id;
