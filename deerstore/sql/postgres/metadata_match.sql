-- Lists and searches of threads. Both are driven from threads_meta_index, which has the threads of
-- each term in both orders; whatever is asked for is a list of filters on it, so that the same
-- template serves every key, and no text of a caller is ever part of a statement.
--
-- A filter is an object with the keys
--   term           what is compared: @all, @user, @assistant, @status, or type and key as s:KEY
--   number         the number as text, read by the engine as it reads the stored one; else 0
--   value          the text; else empty
--   literal        the digits of the number when it is a whole one; else empty
--   float_literal  what a number that was not written as an integer counts as: literal to a float
--                  filter, which takes both kinds, - to an int filter, which does not

-- name: metadata_match.search_threads :many
-- doc: A page of the threads that match every filter. `created` and `recent` orders are newest
-- doc: first, `recent` with pinned threads in front. `one` takes a single filter and reads its part
-- doc: of the index in order. `all` takes several: it reads the part of the rarest one, found by
-- doc: looking whether each has more than 100, 1,000 or 10,000 threads; of equals the first.
-- plan: threads_meta_index.ix_threads_meta_index_created or _recent in order, no sort; the other
-- plan: filters by its primary key, the rows by that of threads_meta
-- param filters: text
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
WITH wanted AS MATERIALIZED (
    SELECT
        given.position,
        given.term COLLATE "C" AS term,
        CAST(given.number AS double precision) AS number,
        CAST(CASE
            WHEN LENGTH(given.value) <= 128 THEN given.value
            ELSE LEFT(given.value, 64)
                || ':' || ENCODE(SHA256(CONVERT_TO(given.value, 'UTF8')), 'hex')
        END AS text) COLLATE "C" AS value,
        given.literal,
        given.float_literal
    FROM JSON_TO_RECORDSET(CAST(CAST(:filters AS text) AS json)) AS given (
        position bigint,
        term text,
        number text,
        value text,
        literal text,
        float_literal text
    )
)

/*[ match=all */
, rarest AS MATERIALIZED (
    SELECT
        wanted.term,
        wanted.number,
        wanted.value
    FROM wanted
    ORDER BY
        CASE
            WHEN (
                SELECT 1
                FROM threads_meta_index AS i
                WHERE i.term = wanted.term AND i.number = wanted.number AND i.value = wanted.value
                LIMIT 1 OFFSET 100
            ) IS NULL THEN 0
            WHEN (
                SELECT 1
                FROM threads_meta_index AS i
                WHERE i.term = wanted.term AND i.number = wanted.number AND i.value = wanted.value
                LIMIT 1 OFFSET 1000
            ) IS NULL THEN 1
            WHEN (
                SELECT 1
                FROM threads_meta_index AS i
                WHERE i.term = wanted.term AND i.number = wanted.number AND i.value = wanted.value
                LIMIT 1 OFFSET 10000
            ) IS NULL THEN 2
            ELSE 3
        END,
        wanted.position
    LIMIT 1
)
/*]*/

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
    /*[ match=one */
    i.term = (SELECT term FROM wanted)
    AND i.number = (SELECT number FROM wanted)
    AND i.value = (SELECT value FROM wanted)
    AND COALESCE(i.literal, (SELECT float_literal FROM wanted)) = (SELECT literal FROM wanted)
    /*]*/
    /*[ match=all:
    i.term = (SELECT term FROM rarest)
    AND i.number = (SELECT number FROM rarest)
    AND i.value = (SELECT value FROM rarest)
    AND (
        SELECT COUNT(*)
        FROM wanted
        INNER JOIN threads_meta_index AS other
            ON other.thread_id = i.thread_id
            AND other.term = wanted.term
            AND other.number = wanted.number
            AND other.value = wanted.value
            AND COALESCE(other.literal, wanted.float_literal) = wanted.literal
    ) = (SELECT COUNT(*) FROM wanted)
    ]*/
ORDER BY
    /*[ order=created */ i.created_at DESC, /*]*/
    /*[ order=recent: i.pinned DESC, i.updated_at DESC, ]*/
    i.thread_id DESC
LIMIT :limit OFFSET :offset;
