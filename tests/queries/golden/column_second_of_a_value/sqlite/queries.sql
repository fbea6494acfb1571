-- name: runs.count :value
-- column total: int
-- column other: int
SELECT COUNT(*) AS total, 1 AS other
FROM runs;
