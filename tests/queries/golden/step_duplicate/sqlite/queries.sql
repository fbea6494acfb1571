-- name: runs.add :exec
-- step insert
INSERT INTO runs (run_id)
VALUES ('a');
-- step insert
INSERT INTO runs (run_id)
VALUES ('b');
