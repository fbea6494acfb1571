-- name: notes.create_table :exec
-- doc: The table that the tests of the facade write to.
CREATE TABLE notes (
    id BIGINT PRIMARY KEY,
    author VARCHAR(64) NOT NULL UNIQUE,
    body TEXT,
    score BIGINT CHECK (score >= 0),
    written_at DATETIME(6),
    parent_id BIGINT,
    FOREIGN KEY (parent_id) REFERENCES notes (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- name: notes.add :affected
-- doc: One note.
-- param id: int
-- param author: text
-- param body: text?
-- param score: int?
-- param parent_id: int?
INSERT INTO notes (id, author, body, score, parent_id)
VALUES (:id, :author, :body, :score, :parent_id);

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

-- name: notes.count :value
-- doc: How many notes there are.
-- column total: int
SELECT COUNT(*) AS total
FROM notes;

-- name: notes.list :many
-- doc: All notes by key.
SELECT id, author, body, score
FROM notes
ORDER BY id;

-- name: notes.set_score :affected
-- doc: Give one note a score.
-- param id: int
-- param score: int?
UPDATE notes
SET score = :score
WHERE id = :id;
