-- name: runs.all :stream
-- step touch
UPDATE runs
SET status = status
WHERE run_id = 'a';
-- step read
SELECT run_id
FROM runs;
