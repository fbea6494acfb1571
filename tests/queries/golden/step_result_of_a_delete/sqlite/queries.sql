-- name: runs.add :exec
-- step clear -> total
DELETE FROM runs
WHERE run_id = 'a';
-- step insert
INSERT INTO runs (run_id)
VALUES (:total);
