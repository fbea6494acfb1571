-- name: runs.get_run :optional
-- param run_id: text
-- variant owner: off | on
SELECT run_id
FROM runs
WHERE run_id = :run_id /*[ owner=yes */ AND user_id IS NULL /*]*/;
