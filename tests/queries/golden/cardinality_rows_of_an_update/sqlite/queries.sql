-- name: runs.touch :optional
-- param run_id: text
UPDATE runs
SET status = status
WHERE run_id = :run_id;
