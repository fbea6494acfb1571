-- name: runs.replace :exec
-- param run_id: text
DELETE FROM runs
WHERE run_id = :run_id;
INSERT INTO runs (run_id)
VALUES (:run_id);
