-- name: runs.touch :affected
-- param run_id: text
-- column run_id: text
UPDATE runs
SET status = status
WHERE run_id = :run_id;
