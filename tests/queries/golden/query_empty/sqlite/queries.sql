-- name: runs.get_run :optional
-- doc: One run.

-- name: runs.count :value
SELECT COUNT(*)
FROM runs;
