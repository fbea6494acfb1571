-- name: runs.add :exec
-- param run_id: text
-- step insert :each
INSERT INTO runs (run_id)
VALUES (:run_id);
