-- name: runs.add :exec
-- step count -> total
-- step insert
INSERT INTO runs (run_id)
VALUES (:total);
