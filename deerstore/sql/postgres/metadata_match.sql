-- Lists and searches of threads. Both are driven from threads_meta_index, which has the threads of
-- each term in both orders; whatever is asked for is a filter on it, so that one template serves
-- every key, and no text of a caller is ever part of a statement.
--
-- A filter consists of
--   term           what is compared: @all, @user, @assistant, @status, or type and key as s:KEY
--   number         the number as text, read by the engine as it reads the stored one; else 0
--   value          the text; else empty
--   literal        the digits of the number when it is a whole one; else empty
--   float_literal  what a number that was not written as an integer counts as: literal to a float
--                  filter, which takes both kinds, - to an int filter, which does not

-- name: metadata_match.rare_filter :optional
-- doc: The `position` of a filter that at most `depth` threads match: of several the lowest, and no
-- doc: row when all match more. `filters` is a JSON array of filters, each with the key `position`
-- doc: beside the others.
-- plan: threads_meta_index.ix_threads_meta_index_created, at most depth + 1 entries a filter
-- param filters: text
-- param depth: int
-- column position: int
WITH wanted AS (
    SELECT
        CAST(item ->> 'position' AS bigint) AS position,
        item ->> 'term' AS term,
        CAST(item ->> 'number' AS double precision) AS number,
        CASE
            WHEN LENGTH(item ->> 'value') <= 128 THEN item ->> 'value'
            ELSE LEFT(item ->> 'value', 64)
                || ':' || ENCODE(SHA256(CONVERT_TO(item ->> 'value', 'UTF8')), 'hex')
        END AS value,
        item ->> 'literal' AS literal,
        item ->> 'float_literal' AS float_literal
    FROM JSON_ARRAY_ELEMENTS(CAST(CAST(:filters AS text) AS json)) AS item
)

SELECT wanted.position
FROM wanted
WHERE (
    SELECT 1
    FROM threads_meta_index AS i
    WHERE i.term = wanted.term AND i.number = wanted.number AND i.value = wanted.value
    ORDER BY i.created_at, i.thread_id
    LIMIT 1 OFFSET :depth
) IS NULL
ORDER BY wanted.position
LIMIT 1;

-- name: metadata_match.search_threads :many
-- doc: A page of the threads that match a filter, and with `all` the `more_filters` (JSON) too.
-- doc: `created` and `recent` orders are newest first, `recent` with pinned threads in front.
-- plan: threads_meta_index.ix_threads_meta_index_created or _recent in order, no sort; the others
-- plan: by its primary key, the rows by that of threads_meta
-- param term: text
-- param number: text
-- param value: text
-- param literal: text
-- param float_literal: text
-- param more_filters: text
-- param limit: int
-- param offset: int
-- variant match: one | all
-- variant order: created | recent
-- column thread_id: text
-- column assistant_id: text?
-- column user_id: text?
-- column display_name: text?
-- column status: text
-- column metadata_json: text
-- column created_at: timestamp
-- column updated_at: timestamp
SELECT
    t.thread_id,
    t.assistant_id,
    t.user_id,
    t.display_name,
    t.status,
    t.metadata_json,
    t.created_at,
    t.updated_at
FROM threads_meta_index AS i
INNER JOIN threads_meta AS t ON t.thread_id = i.thread_id COLLATE "default"
WHERE
    i.term = CAST(:term AS text)
    AND i.number = CAST(CAST(:number AS text) AS double precision)
    AND i.value = CASE
        WHEN LENGTH(CAST(:value AS text)) <= 128 THEN CAST(:value AS text)
        ELSE LEFT(CAST(:value AS text), 64)
            || ':' || ENCODE(SHA256(CONVERT_TO(CAST(:value AS text), 'UTF8')), 'hex')
    END
    -- As a CASE, because the planner would take a comparison for much more selective than it is,
    -- and sort what the index has in order.
    AND CASE
        WHEN i.literal IS NULL THEN CAST(:float_literal AS text) = CAST(:literal AS text)
        ELSE i.literal = CAST(:literal AS text)
    END
    /*[ match=all */
    AND NOT EXISTS (
        SELECT 1
        FROM (
            SELECT
                item ->> 'term' AS term,
                CAST(item ->> 'number' AS double precision) AS number,
                CASE
                    WHEN LENGTH(item ->> 'value') <= 128 THEN item ->> 'value'
                    ELSE LEFT(item ->> 'value', 64)
                        || ':' || ENCODE(SHA256(CONVERT_TO(item ->> 'value', 'UTF8')), 'hex')
                END AS value,
                item ->> 'literal' AS literal,
                item ->> 'float_literal' AS float_literal
            FROM JSON_ARRAY_ELEMENTS(CAST(CAST(:more_filters AS text) AS json)) AS item
        ) AS wanted
        WHERE NOT EXISTS (
            SELECT 1
            FROM threads_meta_index AS other
            WHERE other.thread_id = i.thread_id
                AND other.term = wanted.term
                -- No columns of an index this way: among a million threads the planner would look
                -- for the thread among all that have the value, instead of by the primary key.
                AND other.number + 0 = wanted.number
                AND other.value || '' = wanted.value
                AND COALESCE(other.literal, wanted.float_literal) = wanted.literal
        )
    )
    /*]*/
ORDER BY
    /*[ order=created */ i.created_at DESC, /*]*/
    /*[ order=recent: i.pinned DESC, i.updated_at DESC, ]*/
    i.thread_id DESC
LIMIT :limit OFFSET :offset;
