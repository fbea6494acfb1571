-- name: runs.add :exec
-- param ids: text[]
-- step insert :every
INSERT INTO runs (run_id)
VALUES (:ids);
