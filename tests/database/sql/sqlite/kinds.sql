-- name: kinds.create_table :exec
-- doc: One column of each type.
CREATE TABLE kinds (
    id INTEGER PRIMARY KEY,
    words TEXT,
    amount INTEGER,
    ratio REAL,
    flag BOOLEAN,
    moment DATETIME,
    document TEXT,
    raw BLOB
);

-- name: kinds.put :exec
-- doc: One row of every type.
-- param id: int
-- param words: text?
-- param amount: int?
-- param ratio: float?
-- param flag: bool?
-- param moment: timestamp?
-- param document: json?
-- param raw: bytes?
INSERT INTO kinds (id, words, amount, ratio, flag, moment, document, raw)
VALUES (:id, :words, :amount, :ratio, :flag, :moment, :document, :raw);

-- name: kinds.get :one
-- doc: The row with every column declared.
-- param id: int
-- column words: text?
-- column amount: int?
-- column ratio: float?
-- column flag: bool?
-- column moment: timestamp?
-- column document: json?
-- column raw: bytes?
SELECT words, amount, ratio, flag, moment, document, raw
FROM kinds
WHERE id = :id;

-- name: kinds.moments :many
-- doc: Keys of the rows at an instant, to see that it is compared as one.
-- param moment: timestamp
SELECT id
FROM kinds
WHERE moment = :moment
ORDER BY id;

-- name: kinds.total :value
-- doc: A sum of 64-bit numbers.
SELECT SUM(amount) AS total
FROM kinds;

-- name: kinds.declared_total :value
-- doc: The same, with its type.
-- column total: int?
SELECT SUM(amount) AS total
FROM kinds;

-- name: kinds.lists :many
-- doc: The elements of lists of every type that an engine can compare.
-- param words: text[]
-- param amounts: int[]
-- param moments: timestamp[]
-- column id: int
SELECT id
FROM kinds
WHERE words IN (SELECT value FROM json_each(:words))
   OR amount IN (SELECT value FROM json_each(:amounts))
   OR moment IN (SELECT value FROM json_each(:moments))
ORDER BY id;

-- name: kinds.widen :exec
-- doc: What an administrator does while the pools are warm.
ALTER TABLE kinds ADD COLUMN later TEXT;

-- name: kinds.everything :many
-- doc: Every column there is at the moment, as a careless query reads them.
SELECT *
FROM kinds;
