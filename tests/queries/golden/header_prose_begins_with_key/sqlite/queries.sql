-- name: runs.get_run :optional
-- param names follow the table's columns
-- param run_id: text
SELECT run_id
FROM runs
WHERE run_id = :run_id;
