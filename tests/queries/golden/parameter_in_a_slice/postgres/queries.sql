-- name: runs.first_tags :many
-- param n: int
SELECT tags[:n] AS tags
FROM runs;
