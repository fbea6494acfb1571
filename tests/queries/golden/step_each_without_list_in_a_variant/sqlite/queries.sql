-- name: notes.keep :exec
-- param thread_id: text
-- param notes: text[]
-- variant long: off | on
-- step keep :each
INSERT INTO notes (thread_id/*[ long=on */, note /*]*/)
VALUES (:thread_id/*[ long=on */, :notes /*]*/);
