-- name: runs.add :exec
-- step count -> total
SELECT COUNT(*)
FROM runs;
-- step insert
INSERT INTO runs (run_id)
VALUES ('a');
