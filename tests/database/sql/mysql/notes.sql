-- name: notes.create_table :exec
-- doc: The table that the tests of the facade write to.
CREATE TABLE notes (
    id BIGINT PRIMARY KEY,
    author VARCHAR(64) NOT NULL UNIQUE,
    body TEXT,
    score BIGINT CHECK (score >= 0),
    parent_id BIGINT,
    FOREIGN KEY (parent_id) REFERENCES notes (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- name: notes.add :affected
-- doc: One note.
-- param id: int
-- param author: text?
-- param body: text?
-- param score: int?
-- param parent_id: int?
INSERT INTO notes (id, author, body, score, parent_id)
VALUES (:id, :author, :body, :score, :parent_id);

-- name: notes.add_uncounted :exec
-- doc: One note, without a count.
-- param id: int
-- param author: text
INSERT INTO notes (id, author)
VALUES (:id, :author);

-- name: notes.add_quietly :affected
-- doc: One note, or nothing when there is one.
-- param id: int
-- param author: text
INSERT IGNORE INTO notes (id, author)
VALUES (:id, :author);

-- name: notes.add_series :affected
-- doc: Notes with rising keys after the greatest one.
-- param authors: text[]
-- step top -> top
SELECT COALESCE(MAX(id), 0) AS top
FROM notes;
-- step insert :each
INSERT INTO notes (id, author)
SELECT :top + 1 + COUNT(*), :authors
FROM notes
WHERE id > :top;

-- name: notes.get :optional
-- doc: One note by its key.
-- param id: int
-- column id: int
-- column author: text
-- column body: text?
-- column score: int?
SELECT id, author, body, score
FROM notes
WHERE id = :id;

-- name: notes.only :one
-- doc: The note of that score.
-- param score: int
SELECT id, author
FROM notes
WHERE score = :score
ORDER BY id;

-- name: notes.count :value
-- doc: How many notes there are.
-- column total: int
SELECT COUNT(*) AS total
FROM notes;

-- name: notes.raise_with_reply :optional
-- doc: Add one to the score of a note, and reply to it with a note that has the same.
-- param id: int
-- param reply_id: int
-- param author: text
-- step raise -> score
UPDATE notes
SET score = LAST_INSERT_ID(score + 1)
WHERE id = :id;
-- step reply
INSERT INTO notes (id, author, score, parent_id)
SELECT :reply_id, :author, :score, :id
FROM notes
WHERE id = :id;

-- name: notes.lost :value
-- doc: Fails: there is no such table.
SELECT COUNT(*) AS total
FROM lost_notes;

-- name: notes.list :many
-- doc: All notes by key.
SELECT id, author, body, score
FROM notes
ORDER BY id;

-- name: notes.among :many
-- doc: The notes with these keys.
-- param ids: int[]
-- column id: int
SELECT id
FROM notes
WHERE id IN (
    SELECT wanted.id FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id BIGINT PATH '$')) AS wanted
)
ORDER BY id;

-- name: notes.set_score :affected
-- doc: Give one note a score.
-- param id: int
-- param score: int?
UPDATE notes
SET score = :score
WHERE id = :id;

-- name: notes.raise_scores :affected
-- doc: Raise every score by one.
UPDATE notes
SET score = COALESCE(score, 0) + 1
WHERE id > 0;

-- name: notes.remove :affected
-- doc: Remove one note.
-- param id: int
DELETE FROM notes
WHERE id = :id;

-- name: notes.mistaken :value
-- doc: Fails when it is run: there is no such function, table or column.
SELECT wanted FROM nowhere;

-- name: notes.like :many
-- doc: Percent signs in the statement and in the value.
-- param pattern: text
SELECT id, '100%' AS share
FROM notes
WHERE author LIKE :pattern AND author NOT LIKE '%never%'
ORDER BY id;

-- name: notes.twins :many
-- doc: Two columns of one name.
SELECT id, author AS id
FROM notes;

-- name: notes.numbers :stream
-- doc: Whole numbers from 1.
-- param last: int
-- column n: int
WITH digits (v) AS (
    SELECT 0 UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
    UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9
)
SELECT numbers.n
FROM (
    SELECT 1 + a.v + 10 * b.v + 100 * c.v + 1000 * d.v + 10000 * e.v AS n
    FROM digits AS a
    CROSS JOIN digits AS b
    CROSS JOIN digits AS c
    CROSS JOIN digits AS d
    CROSS JOIN digits AS e
) AS numbers
WHERE numbers.n <= :last
ORDER BY numbers.n;

-- name: slow.read :value
-- doc: Takes at least so many seconds.
-- param seconds: float
SELECT SLEEP(:seconds) + 1 AS total;

-- name: slow.write :affected
-- doc: Changes every note, and takes at least so many seconds.
-- param seconds: float
UPDATE notes
SET score = COALESCE(score, 0) + 1 + SLEEP(:seconds)
WHERE id > 0;
