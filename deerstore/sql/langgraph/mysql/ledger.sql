-- What LangGraph notes of its own migrations, in the tables that it makes for that.

-- name: ledger.last_checkpoint_migration :optional
-- doc: The number of the newest migration of the checkpointer that was run.
-- plan: checkpoint_migrations primary key
-- column number: int
SELECT v AS number
FROM checkpoint_migrations
ORDER BY v DESC
LIMIT 1;

-- name: ledger.note_checkpoint_migration :affected
-- doc: Note that a migration of the checkpointer was run.
-- plan: insert
-- param number: int
INSERT INTO checkpoint_migrations (v)
VALUES (:number);

-- name: ledger.last_store_migration :optional
-- doc: The number of the newest migration of the Store that was run.
-- plan: store_migrations primary key
-- column number: int
SELECT v AS number
FROM store_migrations
ORDER BY v DESC
LIMIT 1;

-- name: ledger.note_store_migration :affected
-- doc: Note that a migration of the Store was run.
-- plan: insert
-- param number: int
INSERT INTO store_migrations (v)
VALUES (:number);
