-- Threads, and the index that every list and search of threads is driven from.
-- depends: 0003_run_events

CREATE TABLE IF NOT EXISTS threads_meta (
    thread_id VARCHAR(64) NOT NULL,
    assistant_id VARCHAR(128) NULL,
    user_id VARCHAR(64) NULL,
    display_name VARCHAR(256) NULL,
    status VARCHAR(20) NOT NULL,
    metadata_json LONGTEXT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NOT NULL,
    PRIMARY KEY (thread_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
/*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;

-- One row per thread and term. The terms of a thread:
--   @all, @user, @assistant, @status   the row itself; value is the column's text
--   s:KEY b:KEY z:KEY                  metadata KEY is a string, a boolean, null; value is its text
--   n:KEY                              metadata KEY is a number; literal keeps an integer's digits
-- A value of more than 128 characters is held as its first 64 and its SHA-256.
-- The triggers below keep it, so that it is exact whoever writes to threads_meta.
CREATE TABLE IF NOT EXISTS threads_meta_index (
    thread_id VARCHAR(64) NOT NULL,
    term VARCHAR(66) NOT NULL,
    number DOUBLE NOT NULL,
    value VARCHAR(129) NOT NULL,
    literal TEXT NULL,
    pinned TINYINT NOT NULL,
    created_at DATETIME(6) NOT NULL,
    updated_at DATETIME(6) NOT NULL,
    PRIMARY KEY (thread_id, term),
    KEY ix_threads_meta_index_created (term, number, value, created_at, thread_id),
    KEY ix_threads_meta_index_recent (term, number, value, pinned, updated_at, thread_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
/*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;

-- A trigger keeps the SQL mode it was made under: no strict mode, in which one odd number in a
-- document would refuse the whole row, and backslashes that mean themselves.
SET @deerstore_sql_mode = @@SESSION.sql_mode;

SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES';

DROP TRIGGER IF EXISTS threads_meta_index_insert_read;

DROP TRIGGER IF EXISTS threads_meta_index_insert_own;

DROP TRIGGER IF EXISTS threads_meta_index_insert_members;

DROP TRIGGER IF EXISTS threads_meta_index_update_read;

DROP TRIGGER IF EXISTS threads_meta_index_update_touch;

DROP TRIGGER IF EXISTS threads_meta_index_update_clear;

DROP TRIGGER IF EXISTS threads_meta_index_update_own;

DROP TRIGGER IF EXISTS threads_meta_index_update_members;

DROP TRIGGER IF EXISTS threads_meta_index_delete;

-- Each trigger is one statement, so that any client can send it without changing its delimiter;
-- where several belong to one event, they run in the order of their creation. The first one reads
-- the metadata into a variable; NULL means that the index need not read it again, as in a turn,
-- which touches status and recency only.
-- How a document is read: by position, since MariaDB takes no path to a key that begins with a
-- dash; the last of equal keys counts, as in Python. NaN and Infinity, which
-- the server does not take for JSON, become lists, so that the rest of the document counts and
-- they equal nothing; a lone surrogate becomes U+0000, which no caller can ask for. A number
-- counts as a double, one beyond the doubles not at all.
CREATE TRIGGER threads_meta_index_insert_read BEFORE INSERT ON threads_meta FOR EACH ROW
SET @deerstore_metadata = CASE
    WHEN JSON_VALID(NEW.metadata_json) THEN NEW.metadata_json
    ELSE (
        SELECT CASE WHEN JSON_VALID(repaired.doc) THEN repaired.doc ELSE '{}' END
        FROM (
            SELECT REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(
                REGEXP_REPLACE(
                    REPLACE(NEW.metadata_json, CHAR(92, 92 USING utf8mb4), '\u005c'),
                    CONCAT(
                        '[\\]u[dD][89abAB][0-9a-fA-F]{2}(?![\\]u[dD][c-fC-F])|',
                        '(?<![\\]u[dD][89abAB][0-9a-fA-F]{2})[\\]u[dD][c-fC-F][0-9a-fA-F]{2}'
                    ),
                    CHAR(1 USING utf8mb4)
                ),
                CHAR(1 USING utf8mb4), '\u0000'),
                '-Infinity', 'NaN'), 'Infinity', 'NaN'),
                ':NaN', ':[]'), ': NaN', ':[]'), '[NaN', '[[]'), ',NaN', ',[]'), ', NaN', ',[]'
            ) AS doc
        ) AS repaired
    )
END;

CREATE TRIGGER threads_meta_index_insert_own AFTER INSERT ON threads_meta FOR EACH ROW
INSERT INTO threads_meta_index
    (thread_id, term, number, value, literal, pinned, created_at, updated_at)
SELECT
    NEW.thread_id,
    own.term,
    0,
    own.value,
    NULL,
    COALESCE(
        JSON_TYPE(JSON_EXTRACT(@deerstore_metadata, '$.deerflow_pinned')) = 'BOOLEAN'
        AND JSON_UNQUOTE(JSON_EXTRACT(@deerstore_metadata, '$.deerflow_pinned')) = 'true',
        0
    ),
    NEW.created_at,
    NEW.updated_at
FROM (
    SELECT '@all' AS term, '' AS value
    UNION ALL
    SELECT '@user', NEW.user_id
    UNION ALL
    SELECT '@assistant', NEW.assistant_id
    UNION ALL
    SELECT '@status', NEW.status
) AS own
WHERE own.value IS NOT NULL AND @deerstore_metadata IS NOT NULL;

CREATE TRIGGER threads_meta_index_insert_members AFTER INSERT ON threads_meta FOR EACH ROW
INSERT IGNORE INTO threads_meta_index
    (thread_id, term, number, value, literal, pinned, created_at, updated_at)
SELECT
    NEW.thread_id,
    CONCAT(
        CASE JSON_TYPE(member.item)
            WHEN 'STRING' THEN 's:'
            WHEN 'BOOLEAN' THEN 'b:'
            WHEN 'NULL' THEN 'z:'
            ELSE 'n:'
        END,
        member.name
    ),
    CASE
        WHEN JSON_TYPE(member.item) IN ('STRING', 'BOOLEAN', 'NULL') THEN 0
        ELSE CAST(JSON_UNQUOTE(member.item) AS DOUBLE)
    END,
    CASE
        WHEN JSON_TYPE(member.item) NOT IN ('STRING', 'BOOLEAN') THEN ''
        WHEN CHAR_LENGTH(JSON_UNQUOTE(member.item)) <= 128 THEN JSON_UNQUOTE(member.item)
        ELSE CONCAT(
            LEFT(JSON_UNQUOTE(member.item), 64), ':', SHA2(JSON_UNQUOTE(member.item), 256)
        )
    END,
    CASE
        WHEN JSON_TYPE(member.item) IN ('STRING', 'BOOLEAN', 'NULL') THEN NULL
        WHEN JSON_UNQUOTE(member.item) = '-0' THEN '0'
        WHEN JSON_UNQUOTE(member.item) REGEXP '^-?[0-9]+$' THEN JSON_UNQUOTE(member.item)
    END,
    COALESCE(
        JSON_TYPE(JSON_EXTRACT(@deerstore_metadata, '$.deerflow_pinned')) = 'BOOLEAN'
        AND JSON_UNQUOTE(JSON_EXTRACT(@deerstore_metadata, '$.deerflow_pinned')) = 'true',
        0
    ),
    NEW.created_at,
    NEW.updated_at
FROM (
    SELECT
        listed.name,
        CASE
            WHEN JSON_LENGTH(@deerstore_metadata) = JSON_LENGTH(JSON_KEYS(@deerstore_metadata))
                THEN JSON_EXTRACT(
                    JSON_EXTRACT(@deerstore_metadata, '$.*'),
                    CONCAT('$[', listed.position - 1, ']')
                )
            ELSE COALESCE(
                JSON_EXTRACT(
                    JSON_REMOVE(
                        @deerstore_metadata,
                        CONCAT('$."', listed.name, '"'),
                        CONCAT('$."', listed.name, '"')
                    ),
                    CONCAT('$."', listed.name, '"')
                ),
                JSON_EXTRACT(
                    JSON_REMOVE(@deerstore_metadata, CONCAT('$."', listed.name, '"')),
                    CONCAT('$."', listed.name, '"')
                ),
                JSON_EXTRACT(@deerstore_metadata, CONCAT('$."', listed.name, '"'))
            )
        END AS item
    FROM JSON_TABLE(
        JSON_KEYS(@deerstore_metadata),
        '$[*]' COLUMNS (
            position FOR ORDINALITY,
            name VARCHAR(256) CHARACTER SET utf8mb4 PATH '$'
        )
    ) AS listed
    WHERE listed.name REGEXP '^[A-Za-z0-9_-]{1,64}$'
        AND listed.name NOT LIKE CONCAT('%', CHAR(10 USING utf8mb4))
) AS member
WHERE JSON_TYPE(member.item) NOT IN ('OBJECT', 'ARRAY')
    AND (
        JSON_TYPE(member.item) IN ('STRING', 'BOOLEAN', 'NULL')
        OR ABS(CAST(JSON_UNQUOTE(member.item) AS DOUBLE)) < 1.7976931348623157e308
        OR JSON_UNQUOTE(member.item) REGEXP '^-?1[.]7976931348623157[eE][+]?308$'
    );

CREATE TRIGGER threads_meta_index_update_read BEFORE UPDATE ON threads_meta FOR EACH ROW
SET @deerstore_metadata = CASE
    WHEN NEW.metadata_json = OLD.metadata_json
        AND NEW.thread_id = OLD.thread_id
        AND NEW.user_id <=> OLD.user_id
        AND NEW.assistant_id <=> OLD.assistant_id
        AND NEW.created_at = OLD.created_at
        AND EXISTS (
            SELECT 1 FROM threads_meta_index
            WHERE thread_id = NEW.thread_id AND term = '@all'
        )
        THEN NULL
    WHEN JSON_VALID(NEW.metadata_json) THEN NEW.metadata_json
    ELSE (
        SELECT CASE WHEN JSON_VALID(repaired.doc) THEN repaired.doc ELSE '{}' END
        FROM (
            SELECT REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(
                REGEXP_REPLACE(
                    REPLACE(NEW.metadata_json, CHAR(92, 92 USING utf8mb4), '\u005c'),
                    CONCAT(
                        '[\\]u[dD][89abAB][0-9a-fA-F]{2}(?![\\]u[dD][c-fC-F])|',
                        '(?<![\\]u[dD][89abAB][0-9a-fA-F]{2})[\\]u[dD][c-fC-F][0-9a-fA-F]{2}'
                    ),
                    CHAR(1 USING utf8mb4)
                ),
                CHAR(1 USING utf8mb4), '\u0000'),
                '-Infinity', 'NaN'), 'Infinity', 'NaN'),
                ':NaN', ':[]'), ': NaN', ':[]'), '[NaN', '[[]'), ',NaN', ',[]'), ', NaN', ',[]'
            ) AS doc
        ) AS repaired
    )
END;

CREATE TRIGGER threads_meta_index_update_touch AFTER UPDATE ON threads_meta FOR EACH ROW
UPDATE threads_meta_index
SET
    updated_at = NEW.updated_at,
    value = CASE term WHEN '@status' THEN NEW.status ELSE value END
WHERE thread_id = NEW.thread_id
    AND @deerstore_metadata IS NULL
    AND NOT (NEW.updated_at = OLD.updated_at AND NEW.status = OLD.status);

CREATE TRIGGER threads_meta_index_update_clear AFTER UPDATE ON threads_meta FOR EACH ROW
DELETE FROM threads_meta_index
WHERE thread_id IN (OLD.thread_id, NEW.thread_id) AND @deerstore_metadata IS NOT NULL;

CREATE TRIGGER threads_meta_index_update_own AFTER UPDATE ON threads_meta FOR EACH ROW
INSERT INTO threads_meta_index
    (thread_id, term, number, value, literal, pinned, created_at, updated_at)
SELECT
    NEW.thread_id,
    own.term,
    0,
    own.value,
    NULL,
    COALESCE(
        JSON_TYPE(JSON_EXTRACT(@deerstore_metadata, '$.deerflow_pinned')) = 'BOOLEAN'
        AND JSON_UNQUOTE(JSON_EXTRACT(@deerstore_metadata, '$.deerflow_pinned')) = 'true',
        0
    ),
    NEW.created_at,
    NEW.updated_at
FROM (
    SELECT '@all' AS term, '' AS value
    UNION ALL
    SELECT '@user', NEW.user_id
    UNION ALL
    SELECT '@assistant', NEW.assistant_id
    UNION ALL
    SELECT '@status', NEW.status
) AS own
WHERE own.value IS NOT NULL AND @deerstore_metadata IS NOT NULL;

CREATE TRIGGER threads_meta_index_update_members AFTER UPDATE ON threads_meta FOR EACH ROW
INSERT IGNORE INTO threads_meta_index
    (thread_id, term, number, value, literal, pinned, created_at, updated_at)
SELECT
    NEW.thread_id,
    CONCAT(
        CASE JSON_TYPE(member.item)
            WHEN 'STRING' THEN 's:'
            WHEN 'BOOLEAN' THEN 'b:'
            WHEN 'NULL' THEN 'z:'
            ELSE 'n:'
        END,
        member.name
    ),
    CASE
        WHEN JSON_TYPE(member.item) IN ('STRING', 'BOOLEAN', 'NULL') THEN 0
        ELSE CAST(JSON_UNQUOTE(member.item) AS DOUBLE)
    END,
    CASE
        WHEN JSON_TYPE(member.item) NOT IN ('STRING', 'BOOLEAN') THEN ''
        WHEN CHAR_LENGTH(JSON_UNQUOTE(member.item)) <= 128 THEN JSON_UNQUOTE(member.item)
        ELSE CONCAT(
            LEFT(JSON_UNQUOTE(member.item), 64), ':', SHA2(JSON_UNQUOTE(member.item), 256)
        )
    END,
    CASE
        WHEN JSON_TYPE(member.item) IN ('STRING', 'BOOLEAN', 'NULL') THEN NULL
        WHEN JSON_UNQUOTE(member.item) = '-0' THEN '0'
        WHEN JSON_UNQUOTE(member.item) REGEXP '^-?[0-9]+$' THEN JSON_UNQUOTE(member.item)
    END,
    COALESCE(
        JSON_TYPE(JSON_EXTRACT(@deerstore_metadata, '$.deerflow_pinned')) = 'BOOLEAN'
        AND JSON_UNQUOTE(JSON_EXTRACT(@deerstore_metadata, '$.deerflow_pinned')) = 'true',
        0
    ),
    NEW.created_at,
    NEW.updated_at
FROM (
    SELECT
        listed.name,
        CASE
            WHEN JSON_LENGTH(@deerstore_metadata) = JSON_LENGTH(JSON_KEYS(@deerstore_metadata))
                THEN JSON_EXTRACT(
                    JSON_EXTRACT(@deerstore_metadata, '$.*'),
                    CONCAT('$[', listed.position - 1, ']')
                )
            ELSE COALESCE(
                JSON_EXTRACT(
                    JSON_REMOVE(
                        @deerstore_metadata,
                        CONCAT('$."', listed.name, '"'),
                        CONCAT('$."', listed.name, '"')
                    ),
                    CONCAT('$."', listed.name, '"')
                ),
                JSON_EXTRACT(
                    JSON_REMOVE(@deerstore_metadata, CONCAT('$."', listed.name, '"')),
                    CONCAT('$."', listed.name, '"')
                ),
                JSON_EXTRACT(@deerstore_metadata, CONCAT('$."', listed.name, '"'))
            )
        END AS item
    FROM JSON_TABLE(
        JSON_KEYS(@deerstore_metadata),
        '$[*]' COLUMNS (
            position FOR ORDINALITY,
            name VARCHAR(256) CHARACTER SET utf8mb4 PATH '$'
        )
    ) AS listed
    WHERE listed.name REGEXP '^[A-Za-z0-9_-]{1,64}$'
        AND listed.name NOT LIKE CONCAT('%', CHAR(10 USING utf8mb4))
) AS member
WHERE JSON_TYPE(member.item) NOT IN ('OBJECT', 'ARRAY')
    AND (
        JSON_TYPE(member.item) IN ('STRING', 'BOOLEAN', 'NULL')
        OR ABS(CAST(JSON_UNQUOTE(member.item) AS DOUBLE)) < 1.7976931348623157e308
        OR JSON_UNQUOTE(member.item) REGEXP '^-?1[.]7976931348623157[eE][+]?308$'
    );

CREATE TRIGGER threads_meta_index_delete AFTER DELETE ON threads_meta FOR EACH ROW
DELETE FROM threads_meta_index WHERE thread_id = OLD.thread_id;

SET SESSION sql_mode = @deerstore_sql_mode;

-- Threads that were there before the index: the triggers fill in what is missing, and leave the
-- others alone. The condition is theirs, because a statement that reads the index may not fire a
-- trigger that writes it.
UPDATE threads_meta
SET thread_id = thread_id;
