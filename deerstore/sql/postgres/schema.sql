-- What the schema room asks the database: what is there, what ran, and which rows another
-- writer left for the next setup.

-- name: schema.tables :many
-- doc: The base tables of the current schema.
-- plan: system tables
-- column name: text
SELECT tablename::TEXT AS name
FROM pg_tables
WHERE schemaname = current_schema()
ORDER BY tablename;

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
    t.relname::TEXT AS table_name,
    a.attname::TEXT AS name,
    format_type(a.atttypid, a.atttypmod) AS type,
    NOT a.attnotnull AS nullable,
    pg_get_expr(d.adbin, d.adrelid) AS default_value,
    COALESCE(array_position(i.indkey::SMALLINT[], a.attnum) + 1, 0) AS key_position
FROM pg_class AS t
INNER JOIN pg_namespace AS n ON n.oid = t.relnamespace
INNER JOIN pg_attribute AS a ON a.attrelid = t.oid
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_index AS i ON i.indrelid = t.oid AND i.indisprimary
WHERE
    n.nspname = current_schema()
    AND t.relkind IN ('r', 'p')
    AND a.attnum > 0
    AND NOT a.attisdropped
ORDER BY t.relname, a.attnum;

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
    t.relname::TEXT AS table_name,
    x.relname::TEXT AS name,
    i.indisunique AS is_unique,
    i.indisprimary AS is_primary,
    i.indisvalid AS is_valid,
    k.position AS position,
    pg_get_indexdef(i.indexrelid, k.position, TRUE) AS column_name,
    pg_get_expr(i.indpred, i.indrelid) AS predicate
FROM pg_index AS i
INNER JOIN pg_class AS x ON x.oid = i.indexrelid
INNER JOIN pg_class AS t ON t.oid = i.indrelid
INNER JOIN pg_namespace AS n ON n.oid = t.relnamespace
CROSS JOIN LATERAL generate_series(1, i.indnkeyatts) AS k (position)
WHERE n.nspname = current_schema()
ORDER BY t.relname, x.relname, k.position;

-- name: schema.triggers :many
-- doc: Every trigger and its table.
-- plan: system tables
-- column table_name: text
-- column name: text
SELECT
    t.relname::TEXT AS table_name,
    g.tgname::TEXT AS name
FROM pg_trigger AS g
INNER JOIN pg_class AS t ON t.oid = g.tgrelid
INNER JOIN pg_namespace AS n ON n.oid = t.relnamespace
WHERE n.nspname = current_schema() AND NOT g.tgisinternal
ORDER BY t.relname, g.tgname;

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
    ctime::TEXT AS ctime
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
--   which keeps the thread's slot.
-- plan: ix_runs_inflight, then a thread's runs
-- column run_id: text
-- column thread_id: text
-- column status: text
SELECT
    r.run_id,
    r.thread_id,
    r.status
FROM runs AS r
WHERE
    r.status IN ('pending', 'running')
    AND (r.admitted IS NULL OR r.admitted)
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
            AND (n.admitted IS NULL OR n.admitted)
            AND (
                n.created_at > r.created_at
                OR (n.created_at = r.created_at AND n.run_id COLLATE "C" > r.run_id COLLATE "C")
            )
    )
ORDER BY r.thread_id COLLATE "C", r.created_at, r.run_id COLLATE "C";

-- name: schema.superseded_legacy_runs :many
-- doc: The same before the column `admitted` exists: every active run is another writer's.
-- plan: ix_runs_thread_status
-- column run_id: text
-- column thread_id: text
-- column status: text
SELECT
    r.run_id,
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
                OR (n.created_at = r.created_at AND n.run_id COLLATE "C" > r.run_id COLLATE "C")
            )
    )
ORDER BY r.thread_id COLLATE "C", r.created_at, r.run_id COLLATE "C";

-- name: schema.supersede_run :affected
-- doc: End an active run whose thread's slot belongs to a newer one.
-- plan: runs primary key
-- param run_id: text
-- param error: text
-- param now: timestamp
UPDATE runs
SET
    status = 'error',
    error = COALESCE(error, :error),
    updated_at = :now
WHERE run_id = :run_id AND status IN ('pending', 'running');

-- name: schema.admit_foreign_runs :affected
-- doc: Give the slot of its thread to each active run that another writer left.
-- plan: ix_runs_inflight
UPDATE runs
SET admitted = TRUE
WHERE admitted IS NULL AND status IN ('pending', 'running');

-- name: schema.duplicate_feedback :many
-- doc: Ratings without a user of runs for which another writer left one: all but the newest of
--   each thread and run.
-- plan: feedback.uq_feedback_admitted, then a run's ratings
-- column feedback_id: text
-- column thread_id: text
-- column run_id: text
SELECT
    f.feedback_id,
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
                OR (
                    n.created_at = f.created_at
                    AND n.feedback_id COLLATE "C" > f.feedback_id COLLATE "C"
                )
            )
    )
ORDER BY f.thread_id COLLATE "C", f.run_id COLLATE "C", f.created_at, f.feedback_id COLLATE "C";

-- name: schema.duplicate_legacy_feedback :many
-- doc: The same before the column `admitted` exists: every rating is another writer's.
-- plan: whole table
-- column feedback_id: text
-- column thread_id: text
-- column run_id: text
SELECT
    f.feedback_id,
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
                OR (
                    n.created_at = f.created_at
                    AND n.feedback_id COLLATE "C" > f.feedback_id COLLATE "C"
                )
            )
    )
ORDER BY f.thread_id COLLATE "C", f.run_id COLLATE "C", f.created_at, f.feedback_id COLLATE "C";

-- name: schema.drop_duplicate_feedback :affected
-- doc: Remove one rating that schema.duplicate_feedback has listed.
-- plan: feedback primary key
-- param feedback_id: text
DELETE FROM feedback
WHERE feedback_id = :feedback_id AND user_id IS NULL;

-- name: schema.admit_foreign_feedback :affected
-- doc: Hold the ratings without a user that another writer left to the rule of one for each thread
--   and run.
-- plan: feedback.uq_feedback_admitted
UPDATE feedback
SET admitted = TRUE
WHERE user_id IS NULL AND admitted IS NULL;

-- name: schema.unkeyed_users :many
-- doc: Accounts whose e-mail key is missing or of another address: another writer's.
-- plan: whole table
-- column id: text
-- column email: text
-- column email_key: text?
SELECT
    id,
    email,
    email_key
FROM users
WHERE email_key IS NULL OR LOWER(email_key) <> LOWER(email)
ORDER BY created_at, id COLLATE "C";

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
