-- name: bare.create_table :exec
-- doc: A table of a stranger, whose queries declare no columns.
CREATE TABLE bare (
    id INTEGER PRIMARY KEY,
    flag BOOLEAN,
    moment DATETIME(6),
    other_moment TIMESTAMP(6) NULL,
    day DATE,
    document JSON,
    title VARCHAR(50)
);

-- name: bare.put :exec
-- doc: One row.
-- param id: int
-- param flag: bool?
-- param moment: timestamp?
-- param title: text?
INSERT INTO bare (id, flag, moment, other_moment, day, document, title)
VALUES (:id, :flag, :moment, '2026-03-29 01:30:15.000120', '2026-03-29', '[1, 2]', :title);

-- name: bare.all :many
-- doc: All rows.
-- param title: text
SELECT id, flag, moment, other_moment, day, document, title
FROM bare
WHERE title = :title
ORDER BY id;

-- name: bare.latest :value
-- doc: The greatest time.
SELECT MAX(moment) AS latest
FROM bare;

-- name: bare.through_others :many
-- doc: Times and truth values behind a join, a CTE and functions.
-- param days: int
WITH groups AS (
    SELECT flag, MIN(DISTINCT moment) AS first, MAX(moment) AS last, COUNT(*) AS total
    FROM bare
    GROUP BY flag
)
SELECT
    b.flag, groups.first, COALESCE(NULL, groups.last, b.moment) AS last, groups.total + :days AS n,
    MAX(b.moment) OVER (PARTITION BY b.flag) AS latest
FROM groups INNER JOIN bare AS b ON groups.flag = b.flag
ORDER BY b.id;

-- name: bare.flags :stream
-- doc: Rows one by one.
SELECT flag, moment
FROM bare
ORDER BY id;
