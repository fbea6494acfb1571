-- Threads, and the index that every list and search of threads is driven from.
-- depends: 0003_run_events

CREATE TABLE IF NOT EXISTS threads_meta (
    thread_id VARCHAR(64) NOT NULL,
    assistant_id VARCHAR(128),
    user_id VARCHAR(64),
    display_name VARCHAR(256),
    status VARCHAR(20) NOT NULL,
    metadata_json JSON NOT NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    PRIMARY KEY (thread_id)
);

-- One row per thread and term. The terms of a thread:
--   @all, @user, @assistant, @status   the row itself; value is the column's text
--   s:KEY b:KEY z:KEY                  metadata KEY is a string, a boolean, null; value is its text
--   n:KEY                              metadata KEY is a number; literal keeps an integer's digits
-- The triggers below keep it, so that it is exact whoever writes to threads_meta.
CREATE TABLE IF NOT EXISTS threads_meta_index (
    thread_id VARCHAR(64) NOT NULL,
    term VARCHAR(66) NOT NULL,
    number DOUBLE NOT NULL,
    value TEXT NOT NULL,
    literal TEXT,
    pinned INTEGER NOT NULL,
    created_at DATETIME NOT NULL,
    updated_at DATETIME NOT NULL,
    PRIMARY KEY (thread_id, term)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS ix_threads_meta_index_created
ON threads_meta_index (term, number, value, created_at, thread_id);

CREATE INDEX IF NOT EXISTS ix_threads_meta_index_recent
ON threads_meta_index (term, number, value, pinned, updated_at, thread_id);

DROP TRIGGER IF EXISTS threads_meta_index_insert;

DROP TRIGGER IF EXISTS threads_meta_index_touch;

DROP TRIGGER IF EXISTS threads_meta_index_update;

DROP TRIGGER IF EXISTS threads_meta_index_delete;

-- The two long triggers have the same body: SQLite has no function that both could call, and a
-- view would stand in the way of a tool that rebuilds threads_meta.
-- How a document is read: the last of two equal keys counts, as in Python. NaN and Infinity,
-- which SQLite does not take for JSON, become lists, so that the rest of the document counts and
-- they equal nothing. U+0000 would cut a string short here; it becomes a lone surrogate, which
-- equals no text that a caller can ask for. Digits beyond 64 bits are only rendered as they stand
-- inside an array.
CREATE TRIGGER threads_meta_index_insert AFTER INSERT ON threads_meta
BEGIN
    DELETE FROM threads_meta_index WHERE thread_id = NEW.thread_id;
    INSERT INTO threads_meta_index
        (thread_id, term, number, value, literal, pinned, created_at, updated_at)
    SELECT
        NEW.thread_id,
        found.term,
        found.number,
        found.value,
        found.literal,
        0,
        NEW.created_at,
        NEW.updated_at
    FROM (
        SELECT '@all' AS term, 0.0 AS number, '' AS value, NULL AS literal
        UNION ALL
        SELECT '@user', 0.0, NEW.user_id, NULL
        UNION ALL
        SELECT '@assistant', 0.0, NEW.assistant_id, NULL
        UNION ALL
        SELECT '@status', 0.0, NEW.status, NULL
        UNION ALL
        SELECT
            CASE member.type
                WHEN 'text' THEN 's:'
                WHEN 'integer' THEN 'n:'
                WHEN 'real' THEN 'n:'
                WHEN 'null' THEN 'z:'
                ELSE 'b:'
            END || member.key,
            CASE
                WHEN member.type NOT IN ('integer', 'real') THEN 0.0
                WHEN typeof(member.value) = 'integer' THEN CAST(CAST(member.value AS TEXT) AS REAL)
                ELSE member.value
            END,
            CASE
                WHEN member.type = 'text' THEN member.value
                WHEN member.type IN ('true', 'false') THEN member.type
                ELSE ''
            END,
            CASE
                WHEN member.type <> 'integer' THEN NULL
                WHEN typeof(member.value) = 'integer' THEN CAST(member.value AS TEXT)
                ELSE substr(member.pair, 2, (length(member.pair) - 3) / 2)
            END
        FROM (
            SELECT
                each.key,
                each.type,
                each.value,
                max(each.id) AS position,
                CASE
                    WHEN each.type = 'integer' AND typeof(each.value) = 'real'
                        THEN json_extract(read.doc, each.fullkey, each.fullkey)
                END AS pair
            FROM (
                SELECT CASE WHEN json_type(sound.doc) = 'object' THEN sound.doc ELSE '{}' END AS doc
                FROM (
                    SELECT CASE
                        WHEN typeof(NEW.metadata_json) <> 'text' THEN 'null'
                        WHEN json_valid(NEW.metadata_json) THEN replace(replace(
                            NEW.metadata_json, char(92, 92), '\u005c'), '\u0000', '\ud800.')
                        WHEN json_valid(strict.doc) THEN strict.doc
                        ELSE 'null'
                    END AS doc
                    FROM (
                        SELECT replace(replace(replace(replace(replace(replace(replace(
                            replace(replace(NEW.metadata_json, char(92, 92), '\u005c'), '\u0000', '\ud800.'),
                            '-Infinity', 'NaN'), 'Infinity', 'NaN'),
                            ':NaN', ':[]'), ': NaN', ':[]'), '[NaN', '[[]'),
                            ',NaN', ',[]'), ', NaN', ',[]') AS doc
                    ) AS strict
                ) AS sound
            ) AS read, json_each(read.doc) AS each
            GROUP BY each.key
        ) AS member
        WHERE member.type NOT IN ('object', 'array')
            AND length(member.key) BETWEEN 1 AND 64
            AND member.key NOT GLOB '*[^A-Za-z0-9_-]*'
    ) AS found
    WHERE found.value IS NOT NULL AND abs(found.number) <= 1.7976931348623157e308;
    UPDATE threads_meta_index
    SET pinned = 1
    WHERE thread_id = NEW.thread_id
        AND EXISTS (
            SELECT 1
            FROM threads_meta_index AS pin
            WHERE pin.thread_id = NEW.thread_id
                AND pin.term = 'b:deerflow_pinned'
                AND pin.value = 'true'
        );
END;

-- A turn touches status and recency only: the metadata is not read again.
CREATE TRIGGER threads_meta_index_touch AFTER UPDATE ON threads_meta
WHEN NEW.metadata_json IS OLD.metadata_json
    AND NEW.thread_id IS OLD.thread_id
    AND NEW.user_id IS OLD.user_id
    AND NEW.assistant_id IS OLD.assistant_id
    AND NEW.created_at IS OLD.created_at
BEGIN
    UPDATE threads_meta_index
    SET
        updated_at = NEW.updated_at,
        value = CASE term WHEN '@status' THEN NEW.status ELSE value END
    WHERE thread_id = NEW.thread_id
        AND (
            updated_at IS NOT NEW.updated_at
            OR (term = '@status' AND value IS NOT NEW.status)
        );
END;

CREATE TRIGGER threads_meta_index_update AFTER UPDATE ON threads_meta
WHEN NEW.metadata_json IS NOT OLD.metadata_json
    OR NEW.thread_id IS NOT OLD.thread_id
    OR NEW.user_id IS NOT OLD.user_id
    OR NEW.assistant_id IS NOT OLD.assistant_id
    OR NEW.created_at IS NOT OLD.created_at
    OR NOT EXISTS (
        SELECT 1 FROM threads_meta_index WHERE thread_id = NEW.thread_id AND term = '@all'
    )
BEGIN
    DELETE FROM threads_meta_index WHERE thread_id IN (OLD.thread_id, NEW.thread_id);
    INSERT INTO threads_meta_index
        (thread_id, term, number, value, literal, pinned, created_at, updated_at)
    SELECT
        NEW.thread_id,
        found.term,
        found.number,
        found.value,
        found.literal,
        0,
        NEW.created_at,
        NEW.updated_at
    FROM (
        SELECT '@all' AS term, 0.0 AS number, '' AS value, NULL AS literal
        UNION ALL
        SELECT '@user', 0.0, NEW.user_id, NULL
        UNION ALL
        SELECT '@assistant', 0.0, NEW.assistant_id, NULL
        UNION ALL
        SELECT '@status', 0.0, NEW.status, NULL
        UNION ALL
        SELECT
            CASE member.type
                WHEN 'text' THEN 's:'
                WHEN 'integer' THEN 'n:'
                WHEN 'real' THEN 'n:'
                WHEN 'null' THEN 'z:'
                ELSE 'b:'
            END || member.key,
            CASE
                WHEN member.type NOT IN ('integer', 'real') THEN 0.0
                WHEN typeof(member.value) = 'integer' THEN CAST(CAST(member.value AS TEXT) AS REAL)
                ELSE member.value
            END,
            CASE
                WHEN member.type = 'text' THEN member.value
                WHEN member.type IN ('true', 'false') THEN member.type
                ELSE ''
            END,
            CASE
                WHEN member.type <> 'integer' THEN NULL
                WHEN typeof(member.value) = 'integer' THEN CAST(member.value AS TEXT)
                ELSE substr(member.pair, 2, (length(member.pair) - 3) / 2)
            END
        FROM (
            SELECT
                each.key,
                each.type,
                each.value,
                max(each.id) AS position,
                CASE
                    WHEN each.type = 'integer' AND typeof(each.value) = 'real'
                        THEN json_extract(read.doc, each.fullkey, each.fullkey)
                END AS pair
            FROM (
                SELECT CASE WHEN json_type(sound.doc) = 'object' THEN sound.doc ELSE '{}' END AS doc
                FROM (
                    SELECT CASE
                        WHEN typeof(NEW.metadata_json) <> 'text' THEN 'null'
                        WHEN json_valid(NEW.metadata_json) THEN replace(replace(
                            NEW.metadata_json, char(92, 92), '\u005c'), '\u0000', '\ud800.')
                        WHEN json_valid(strict.doc) THEN strict.doc
                        ELSE 'null'
                    END AS doc
                    FROM (
                        SELECT replace(replace(replace(replace(replace(replace(replace(
                            replace(replace(NEW.metadata_json, char(92, 92), '\u005c'), '\u0000', '\ud800.'),
                            '-Infinity', 'NaN'), 'Infinity', 'NaN'),
                            ':NaN', ':[]'), ': NaN', ':[]'), '[NaN', '[[]'),
                            ',NaN', ',[]'), ', NaN', ',[]') AS doc
                    ) AS strict
                ) AS sound
            ) AS read, json_each(read.doc) AS each
            GROUP BY each.key
        ) AS member
        WHERE member.type NOT IN ('object', 'array')
            AND length(member.key) BETWEEN 1 AND 64
            AND member.key NOT GLOB '*[^A-Za-z0-9_-]*'
    ) AS found
    WHERE found.value IS NOT NULL AND abs(found.number) <= 1.7976931348623157e308;
    UPDATE threads_meta_index
    SET pinned = 1
    WHERE thread_id = NEW.thread_id
        AND EXISTS (
            SELECT 1
            FROM threads_meta_index AS pin
            WHERE pin.thread_id = NEW.thread_id
                AND pin.term = 'b:deerflow_pinned'
                AND pin.value = 'true'
        );
END;

CREATE TRIGGER threads_meta_index_delete AFTER DELETE ON threads_meta
BEGIN
    DELETE FROM threads_meta_index WHERE thread_id = OLD.thread_id;
END;

-- Threads that were there before the index: the trigger fills in what is missing.
UPDATE threads_meta
SET thread_id = thread_id
WHERE NOT EXISTS (
    SELECT 1
    FROM threads_meta_index
    WHERE threads_meta_index.thread_id = threads_meta.thread_id
        AND threads_meta_index.term = '@all'
);
