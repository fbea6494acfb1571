-- Threads, and the index that every list and search of threads is driven from.
-- depends: 0003_run_events

CREATE TABLE IF NOT EXISTS threads_meta (
    thread_id VARCHAR(64) NOT NULL,
    assistant_id VARCHAR(128),
    user_id VARCHAR(64),
    display_name VARCHAR(256),
    status VARCHAR(20) NOT NULL,
    metadata_json JSON NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (thread_id)
);

-- One row per thread and term. The terms of a thread:
--   @all, @user, @assistant, @status   the row itself; value is the column's text
--   s:KEY b:KEY z:KEY                  metadata KEY is a string, a boolean, null; value is its text
--   n:KEY                              metadata KEY is a number; literal keeps an integer's digits
-- A value of more than 128 characters is held as its first 64 and its SHA-256.
-- The trigger below keeps it, so that it is exact whoever writes to threads_meta.
CREATE TABLE IF NOT EXISTS threads_meta_index (
    thread_id VARCHAR(64) COLLATE "C" NOT NULL,
    term VARCHAR(66) COLLATE "C" NOT NULL,
    number DOUBLE PRECISION NOT NULL,
    value VARCHAR(129) COLLATE "C" NOT NULL,
    literal TEXT COLLATE "C",
    pinned SMALLINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (thread_id, term)
);

-- How a document is read: the last of two equal keys counts, as in Python. The server cannot
-- decode an escaped U+0000 or a lone surrogate: a string that holds one is marked and left out,
-- since it equals no text that a caller can ask for. A number counts as a double, one beyond the
-- doubles not at all.
CREATE OR REPLACE FUNCTION deerstore_index_thread() RETURNS TRIGGER
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET standard_conforming_strings = on
-- In an older database the times of a thread may have no zone: they are UTC, whatever zone the
-- writer's session has.
SET TimeZone = 'UTC'
-- A session plans the statements below once, maybe while the index is still empty; a scan that was
-- cheap then would read all of it for each of a million threads.
SET enable_seqscan = off
AS $function$
DECLARE
    doc TEXT;
    marked BOOLEAN;
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM threads_meta_index WHERE thread_id = OLD.thread_id;
        RETURN NULL;
    END IF;

    IF TG_OP = 'UPDATE' THEN
        -- A turn touches status and recency only: the metadata is not read again.
        IF NEW.metadata_json::TEXT = OLD.metadata_json::TEXT
            AND NEW.thread_id = OLD.thread_id
            AND NEW.user_id IS NOT DISTINCT FROM OLD.user_id
            AND NEW.assistant_id IS NOT DISTINCT FROM OLD.assistant_id
            AND NEW.created_at = OLD.created_at
            AND EXISTS (
                SELECT 1 FROM threads_meta_index
                WHERE thread_id = NEW.thread_id AND term = '@all'
            )
        THEN
            IF NEW.updated_at <> OLD.updated_at OR NEW.status <> OLD.status THEN
                UPDATE threads_meta_index
                SET
                    updated_at = NEW.updated_at,
                    value = CASE term WHEN '@status' THEN NEW.status ELSE value END
                WHERE thread_id = NEW.thread_id;
            END IF;
            RETURN NULL;
        END IF;
        DELETE FROM threads_meta_index WHERE thread_id IN (OLD.thread_id, NEW.thread_id);
    END IF;

    doc := NEW.metadata_json::TEXT;
    marked := doc ~ '\\u(0000|[dD][89a-fA-F])';
    IF marked THEN
        doc := replace(doc, '\\', '\u005c');
        doc := replace(doc, '\uFFFD', '\ufffd');
        doc := regexp_replace(
            doc,
            '\\u0000'
            '|\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])'
            '|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}',
            '\\uFFFD',
            'g'
        );
    END IF;
    IF json_typeof(NEW.metadata_json::JSON) <> 'object' THEN
        doc := '{}';
    END IF;

    INSERT INTO threads_meta_index
        (thread_id, term, number, value, literal, pinned, created_at, updated_at)
    SELECT
        NEW.thread_id,
        found.term,
        found.number,
        CASE
            WHEN length(found.value) <= 128 THEN found.value
            ELSE left(found.value, 64)
                || ':' || encode(sha256(convert_to(found.value, 'UTF8')), 'hex')
        END,
        found.literal,
        CASE
            WHEN bool_or(found.term = 'b:deerflow_pinned' AND found.value = 'true') OVER () THEN 1
            ELSE 0
        END,
        NEW.created_at,
        NEW.updated_at
    FROM (
        SELECT
            own.term,
            0::DOUBLE PRECISION AS number,
            own.value,
            NULL AS literal
        FROM (
            VALUES
            ('@all', ''),
            ('@user', NEW.user_id),
            ('@assistant', NEW.assistant_id),
            ('@status', NEW.status)
        ) AS own (term, value)
        UNION ALL
        SELECT
            CASE member.type
                WHEN 'string' THEN 's:'
                WHEN 'number' THEN 'n:'
                WHEN 'null' THEN 'z:'
                ELSE 'b:'
            END || member.key,
            CASE
                WHEN member.type <> 'number' THEN 0
                WHEN length(member.raw) <= 40 AND member.raw !~ '[eE][-+]?[0-9]{3}'
                    THEN member.raw::DOUBLE PRECISION
                WHEN length(member.raw) > 1000 OR member.raw ~ '[eE][-+]?[0-9]{5}' THEN NULL
                WHEN abs(member.raw::NUMERIC) >= 1.797693134862315807e308 THEN NULL
                WHEN abs(member.raw::NUMERIC) <= 2.4703282292062328e-324 THEN 0
                ELSE member.raw::DOUBLE PRECISION
            END,
            CASE member.type
                WHEN 'string' THEN member.item #>> '{}'
                WHEN 'boolean' THEN member.raw
                ELSE ''
            END,
            CASE
                WHEN member.type <> 'number' OR member.raw !~ '^-?[0-9]+$' THEN NULL
                WHEN member.raw = '-0' THEN '0'
                ELSE member.raw
            END
        FROM (
            SELECT DISTINCT ON (entry.key COLLATE "C")
                entry.key,
                entry.item,
                entry.item::TEXT AS raw,
                json_typeof(entry.item) AS type
            FROM json_each(doc::JSON) WITH ORDINALITY AS entry (key, item, position)
            WHERE entry.key COLLATE "C" ~ '^[A-Za-z0-9_-]{1,64}$'
            ORDER BY entry.key COLLATE "C", entry.position DESC
        ) AS member
        WHERE member.type NOT IN ('object', 'array')
            AND NOT (marked AND member.type = 'string' AND position('\uFFFD' IN member.raw) > 0)
    ) AS found
    WHERE found.value IS NOT NULL AND found.number IS NOT NULL;
    RETURN NULL;
END
$function$;

DROP TRIGGER IF EXISTS threads_meta_index_keep ON threads_meta;

CREATE TRIGGER threads_meta_index_keep
AFTER INSERT OR UPDATE OR DELETE ON threads_meta
FOR EACH ROW EXECUTE FUNCTION deerstore_index_thread();

-- Threads that were there before the index: the trigger fills in what is missing.
UPDATE threads_meta
SET thread_id = thread_id
WHERE NOT EXISTS (
    SELECT 1
    FROM threads_meta_index
    WHERE threads_meta_index.thread_id = threads_meta.thread_id COLLATE "C"
        AND threads_meta_index.term = '@all'
);

-- Built last: the trigger's statements would else be planned on an empty table with three indexes
-- to choose from, and a bulk of threads would be filled in through the wrong one.
CREATE INDEX IF NOT EXISTS ix_threads_meta_index_created
ON threads_meta_index (term, number, value, created_at, thread_id);

CREATE INDEX IF NOT EXISTS ix_threads_meta_index_recent
ON threads_meta_index (term, number, value, pinned, updated_at, thread_id);
