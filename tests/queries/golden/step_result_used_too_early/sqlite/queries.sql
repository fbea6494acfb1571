-- name: runs.add :exec
-- step insert
INSERT INTO runs (run_id)
VALUES (:total);
-- step count -> total
SELECT COUNT(*)
FROM runs;
