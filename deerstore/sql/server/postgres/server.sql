-- What only a server can be asked: what is there beside this database, and who else is at work.

-- name: server.database_exists :value
-- doc: Whether the server has a database of this name; asked over another database.
-- plan: system tables
-- param name: text
-- column found: bool
SELECT EXISTS (
    SELECT 1
    FROM pg_database
    WHERE datname = :name
) AS found;

-- name: server.schema_exists :value
-- doc: Whether the database has a schema of this name, on the search path or not.
-- plan: system tables
-- param name: text
-- column found: bool
SELECT EXISTS (
    SELECT 1
    FROM pg_namespace
    WHERE nspname = :name
) AS found;

-- name: server.others_change_schema :value
-- doc: Whether another session holds a lock as a statement that changes a table takes it.
-- plan: the server's table of locks
-- column found: bool
SELECT EXISTS (
    SELECT 1
    FROM pg_locks
    WHERE
        locktype = 'relation'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
        AND granted
        AND pid <> pg_backend_pid()
) AS found;
