-- What the schema room asks the database: what is there, what ran, and which rows another
-- writer left for the next setup.

-- name: schema.tables :many
-- doc: The base tables of the database.
-- plan: system tables
-- column name: text
SELECT name
FROM sqlite_master
WHERE type = 'table'
ORDER BY name;

-- name: schema.columns :many
-- doc: Every column: its type as declared, its default as an expression, its place in the key (0: none).
-- plan: system tables
-- column table_name: text
-- column name: text
-- column type: text
-- column nullable: bool
-- column default_value: text?
-- column key_position: int
SELECT
    m.name AS table_name,
    c.name AS name,
    c.type AS type,
    c."notnull" = 0 AND c.pk = 0 AS nullable,
    c.dflt_value AS default_value,
    c.pk AS key_position
FROM sqlite_master AS m
INNER JOIN pragma_table_xinfo(m.name) AS c
WHERE m.type = 'table'
ORDER BY m.name, c.cid;

-- name: schema.indexes :many
-- doc: Every index, one row per key column; `predicate` is the WHERE of a partial one.
-- plan: system tables
-- column table_name: text
-- column name: text
-- column is_unique: bool
-- column is_primary: bool
-- column is_valid: bool
-- column position: int
-- column column_name: text?
-- column predicate: text?
SELECT
    m.name AS table_name,
    l.name AS name,
    l."unique" = 1 AS is_unique,
    l.origin = 'pk' AS is_primary,
    1 AS is_valid,
    k.seqno AS position,
    k.name AS column_name,
    CASE l.partial WHEN 1 THEN substr(d.sql, instr(upper(d.sql), 'WHERE') + 5) END AS predicate
FROM sqlite_master AS m
INNER JOIN pragma_index_list(m.name) AS l
INNER JOIN pragma_index_xinfo(l.name) AS k
LEFT JOIN sqlite_master AS d ON d.type = 'index' AND d.name = l.name
WHERE m.type = 'table' AND k.key = 1
ORDER BY m.name, l.name, k.seqno;

-- name: schema.triggers :many
-- doc: Every trigger and its table.
-- plan: system tables
-- column table_name: text
-- column name: text
SELECT
    tbl_name AS table_name,
    name
FROM sqlite_master
WHERE type = 'trigger'
ORDER BY tbl_name, name;

-- name: schema.applied_migrations :many
-- doc: The migrations that yoyo's log marks as applied.
-- plan: whole table, a handful of rows
-- column migration_id: text
SELECT migration_id
FROM _yoyo_migration
ORDER BY migration_id;

-- name: schema.log_versions :many
-- doc: The version of yoyo's own tables.
-- plan: whole table, a handful of rows
-- column version: int
SELECT version
FROM _yoyo_version
ORDER BY version;

-- name: schema.set_log_version :affected
-- doc: Say which form yoyo's own tables have.
-- plan: insert
-- param version: int
-- param installed_at: timestamp
INSERT INTO _yoyo_version (version, installed_at_utc)
VALUES (:version, :installed_at);

-- name: schema.mark_migration :affected
-- doc: Mark a migration as applied; runs in one transaction with schema.log_migration.
-- plan: insert
-- param hash: text
-- param migration_id: text
-- param applied_at: timestamp
INSERT INTO _yoyo_migration (migration_hash, migration_id, applied_at_utc)
VALUES (:hash, :migration_id, :applied_at);

-- name: schema.log_migration :affected
-- doc: Write who applied a migration, when and where.
-- plan: insert
-- param id: text
-- param hash: text
-- param migration_id: text
-- param username: text
-- param hostname: text
-- param created_at: timestamp
INSERT INTO _yoyo_log (
    id, migration_hash, migration_id, operation, username, hostname, created_at_utc
)
VALUES (:id, :hash, :migration_id, 'apply', :username, :hostname, :created_at);

-- name: schema.lock_row :optional
-- doc: The row by which a migrator keeps others out, as yoyo's own command does.
-- plan: primary key
-- column pid: int
-- column ctime: text?
SELECT
    pid,
    CAST(ctime AS TEXT) AS ctime
FROM yoyo_lock
WHERE locked = 1;

-- name: schema.take_lock_row :affected
-- doc: Keep yoyo's own command out.
-- plan: insert
-- param pid: int
-- param ctime: timestamp
INSERT INTO yoyo_lock (locked, ctime, pid)
VALUES (1, :ctime, :pid);

-- name: schema.free_lock_row :affected
-- doc: Let yoyo's own command in again, or remove the row of a migrator that is gone.
-- plan: primary key
-- param pid: int
DELETE FROM yoyo_lock
WHERE locked = 1 AND pid = :pid;

-- name: schema.superseded_runs :many
-- doc: Active runs of threads in which another writer left one: all but the newest of each thread,
--   which keeps the thread's slot. A column of text may hold bytes here; such an id is given as
--   the literal that SQLite writes for it.
-- plan: ix_runs_inflight, then a thread's runs
-- column run_id: text
-- column thread_id: text
-- column status: text
SELECT
    CASE TYPEOF(r.run_id) WHEN 'text' THEN r.run_id ELSE QUOTE(r.run_id) END AS run_id,
    r.thread_id,
    r.status
FROM runs AS r
WHERE
    r.status IN ('pending', 'running')
    AND (r.admitted IS NULL OR r.admitted = 1)
    AND EXISTS (
        SELECT 1
        FROM runs AS f
        WHERE
            f.thread_id = r.thread_id
            AND f.status IN ('pending', 'running')
            AND f.admitted IS NULL
    )
    AND EXISTS (
        SELECT 1
        FROM runs AS n
        WHERE
            n.thread_id = r.thread_id
            AND n.status IN ('pending', 'running')
            AND (n.admitted IS NULL OR n.admitted = 1)
            AND (
                n.created_at > r.created_at
                OR (n.created_at = r.created_at AND n.run_id > r.run_id)
            )
    )
ORDER BY r.thread_id, r.created_at, r.run_id;

-- name: schema.superseded_legacy_runs :many
-- doc: The same before the column `admitted` exists: every active run is another writer's.
-- plan: ix_runs_thread_status
-- column run_id: text
-- column thread_id: text
-- column status: text
SELECT
    CASE TYPEOF(r.run_id) WHEN 'text' THEN r.run_id ELSE QUOTE(r.run_id) END AS run_id,
    r.thread_id,
    r.status
FROM runs AS r
WHERE
    r.status IN ('pending', 'running')
    AND EXISTS (
        SELECT 1
        FROM runs AS n
        WHERE
            n.thread_id = r.thread_id
            AND n.status IN ('pending', 'running')
            AND (
                n.created_at > r.created_at
                OR (n.created_at = r.created_at AND n.run_id > r.run_id)
            )
    )
ORDER BY r.thread_id, r.created_at, r.run_id;

-- name: schema.supersede_run :affected
-- doc: End an active run whose thread's slot belongs to a newer one. Bytes sort behind all text, so
--   that an id that is the literal of some bytes is looked for among those only.
-- plan: runs primary key
-- param run_id: text
-- param error: text
-- param now: timestamp
UPDATE runs
SET
    status = 'error',
    error = COALESCE(error, :error),
    updated_at = :now
WHERE
    (run_id = :run_id OR (run_id >= X'' AND QUOTE(run_id) = :run_id))
    AND status IN ('pending', 'running');

-- name: schema.admit_foreign_runs :affected
-- doc: Give the slot of its thread to each active run that another writer left.
-- plan: ix_runs_inflight
UPDATE runs
SET admitted = 1
WHERE admitted IS NULL AND status IN ('pending', 'running');

-- name: schema.duplicate_feedback :many
-- doc: Ratings without a user of runs for which another writer left one: all but the newest of
--   each thread and run. An id of
--   bytes is given as the literal that SQLite writes for it.
-- plan: feedback.uq_feedback_admitted, then a run's ratings
-- column feedback_id: text
-- column thread_id: text
-- column run_id: text
SELECT
    CASE TYPEOF(f.feedback_id) WHEN 'text' THEN f.feedback_id ELSE QUOTE(f.feedback_id) END
        AS feedback_id,
    f.thread_id,
    f.run_id
FROM feedback AS f
WHERE
    f.user_id IS NULL
    AND (f.thread_id, f.run_id) IN (
        SELECT
            other.thread_id,
            other.run_id
        FROM feedback AS other
        WHERE other.user_id IS NULL AND other.admitted IS NULL
    )
    AND EXISTS (
        SELECT 1
        FROM feedback AS n
        WHERE
            n.thread_id = f.thread_id
            AND n.run_id = f.run_id
            AND n.user_id IS NULL
            AND (
                n.created_at > f.created_at
                OR (n.created_at = f.created_at AND n.feedback_id > f.feedback_id)
            )
    )
ORDER BY f.thread_id, f.run_id, f.created_at, f.feedback_id;

-- name: schema.duplicate_legacy_feedback :many
-- doc: The same before the column `admitted` exists: every rating is another writer's.
-- plan: whole table
-- column feedback_id: text
-- column thread_id: text
-- column run_id: text
SELECT
    CASE TYPEOF(f.feedback_id) WHEN 'text' THEN f.feedback_id ELSE QUOTE(f.feedback_id) END
        AS feedback_id,
    f.thread_id,
    f.run_id
FROM feedback AS f
WHERE
    f.user_id IS NULL
    AND EXISTS (
        SELECT 1
        FROM feedback AS n
        WHERE
            n.thread_id = f.thread_id
            AND n.run_id = f.run_id
            AND n.user_id IS NULL
            AND (
                n.created_at > f.created_at
                OR (n.created_at = f.created_at AND n.feedback_id > f.feedback_id)
            )
    )
ORDER BY f.thread_id, f.run_id, f.created_at, f.feedback_id;

-- name: schema.drop_duplicate_feedback :affected
-- doc: Remove one rating that schema.duplicate_feedback has listed.
-- plan: feedback primary key
-- param feedback_id: text
DELETE FROM feedback
WHERE
    (feedback_id = :feedback_id OR (feedback_id >= X'' AND QUOTE(feedback_id) = :feedback_id))
    AND user_id IS NULL;

-- name: schema.admit_foreign_feedback :affected
-- doc: Hold the ratings without a user that another writer left to the rule of one for each thread
--   and run.
-- plan: feedback.uq_feedback_admitted
UPDATE feedback
SET admitted = TRUE
WHERE user_id IS NULL AND admitted IS NULL;

-- name: schema.unkeyed_users :many
-- doc: Accounts whose e-mail key is missing or of another address: another writer's. A column of
-- doc: text may hold bytes here; those are no address.
-- plan: whole table
-- column id: text
-- column email: text
-- column email_key: text?
SELECT
    id,
    email,
    email_key
FROM users
WHERE
    (email_key IS NULL OR LOWER(email_key) <> LOWER(email))
    AND TYPEOF(id) = 'text'
    AND TYPEOF(email) = 'text'
ORDER BY created_at, id;

-- name: schema.key_user :affected
-- doc: Give an account its e-mail key, unless another account has it or the address has changed.
-- plan: users primary key, uq_users_email_key
-- param id: text
-- param email: text
-- param email_key: text
UPDATE users
SET email_key = :email_key
WHERE
    id = :id
    AND email = :email
    AND NOT EXISTS (
        SELECT 1
        FROM (
            SELECT id
            FROM users
            WHERE email_key = :email_key
        ) AS taken
    );

-- name: schema.unkey_user :affected
-- doc: Take away the e-mail key of an account whose address has changed.
-- plan: users primary key
-- param id: text
-- param email_key: text
UPDATE users
SET email_key = NULL
WHERE id = :id AND email_key = :email_key;

-- name: schema.empty_thread_index :affected
-- doc: Empty the index of thread metadata, to be filled anew: rows that were written while a
--   trigger was missing are not in it.
-- plan: whole table
DELETE FROM threads_meta_index
WHERE TRUE;
