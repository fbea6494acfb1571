-- name: notes.create_table :exec
-- doc: The table that the tests of the facade write to.
CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    author VARCHAR(64) NOT NULL UNIQUE,
    body TEXT,
    score INTEGER CHECK (score >= 0),
    parent_id INTEGER REFERENCES notes (id)
);

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
INSERT OR IGNORE INTO notes (id, author)
VALUES (:id, :author);

-- name: notes.add_series :affected
-- doc: Notes with rising keys after the greatest one.
-- param authors: text[]
-- step top -> top
SELECT COALESCE(MAX(id), 0) AS top
FROM notes;
-- step insert :each
INSERT INTO notes (id, author)
VALUES (:top + (SELECT COUNT(*) + 1 FROM notes WHERE id > :top), :authors);

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
SET score = score + 1
WHERE id = :id
RETURNING score;
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
WHERE id IN (SELECT value FROM json_each(:ids))
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
WITH RECURSIVE numbers (n) AS (
    SELECT 1
    UNION ALL
    SELECT n + 1 FROM numbers WHERE n < :last
)
SELECT n
FROM numbers;

-- name: slow.read :value
-- doc: Takes at least so many seconds (on SQLite: far longer).
-- param seconds: float
WITH RECURSIVE numbers (n) AS (
    SELECT 1
    UNION ALL
    SELECT n + 1 FROM numbers WHERE n < 4000000000 AND :seconds > 0
)
SELECT COUNT(*) AS total
FROM numbers;

-- name: slow.count :value
-- doc: Counts so far, one by one.
-- param numbers: int
WITH RECURSIVE counted (n) AS (
    SELECT 1
    UNION ALL
    SELECT n + 1 FROM counted WHERE n < :numbers
)
SELECT COUNT(*) AS total
FROM counted;

-- name: slow.write :affected
-- doc: Changes every note, and takes at least so many seconds (on SQLite: far longer).
-- param seconds: float
UPDATE notes
SET score = COALESCE(score, 0) + 1 + 0 * (
    WITH RECURSIVE numbers (n) AS (
        SELECT 1
        UNION ALL
        SELECT n + 1 FROM numbers WHERE n < 4000000000 AND :seconds > 0
    )
    SELECT COUNT(*)
    FROM numbers
)
WHERE id > 0;
