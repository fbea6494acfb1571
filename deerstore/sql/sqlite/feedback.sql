-- Feedback: at most one rating per thread, run and user, where nobody is a user of its own.
--
-- A filter by owner is written +user_id: it narrows a run's or a thread's rows. Without statistics
-- SQLite would rather walk all rows of the user.

-- name: feedback.create_feedback :affected
-- doc: Store a rating. 0 rows: its id is taken, or the user rated the run already. A rating without
-- doc: a user may be another writer's and not under the key yet.
-- plan: feedback.uq_feedback_thread_run_user, insert
-- param feedback_id: text
-- param run_id: text
-- param thread_id: text
-- param user_id: text?
-- param message_id: text?
-- param rating: int
-- param comment: text?
-- param created_at: timestamp
INSERT INTO feedback (
    feedback_id,
    run_id,
    thread_id,
    user_id,
    message_id,
    rating,
    comment,
    created_at,
    admitted
)
SELECT
    :feedback_id,
    :run_id,
    :thread_id,
    :user_id,
    :message_id,
    :rating,
    :comment,
    :created_at,
    TRUE
WHERE
    :user_id IS NOT NULL
    OR NOT EXISTS (
        SELECT 1 FROM feedback AS other
        WHERE other.thread_id = :thread_id
        AND other.run_id = :run_id
        AND other.user_id IS NULL
    )
ON CONFLICT DO NOTHING;

-- name: feedback.find_create_conflicts :one
-- doc: Which keys of a new rating are taken.
-- plan: feedback primary key, feedback.uq_feedback_thread_run_user
-- param feedback_id: text
-- param run_id: text
-- param thread_id: text
-- param user_id: text?
-- column id_taken: bool
-- column rated: bool
SELECT
    EXISTS (SELECT 1 FROM feedback WHERE feedback_id = :feedback_id) AS id_taken,
    EXISTS (
        SELECT 1 FROM feedback
        WHERE thread_id = :thread_id
        AND run_id = :run_id
        AND (user_id = :user_id OR (user_id IS NULL AND :user_id IS NULL))
    ) AS rated;

-- name: feedback.upsert_feedback :optional
-- doc: A user's rating of a run, the first or a new one: the first feedback_id stays, the time is
-- doc: the newest. With message=keep the first message_id stays as well. No row: the feedback_id
-- doc: belongs to another rating.
-- plan: feedback primary key, feedback.uq_feedback_thread_run_user
-- param feedback_id: text
-- param run_id: text
-- param thread_id: text
-- param user_id: text
-- param message_id: text?
-- param rating: int
-- param comment: text?
-- param created_at: timestamp
-- variant message: replace | keep
-- column feedback_id: text
-- column run_id: text
-- column thread_id: text
-- column user_id: text?
-- column message_id: text?
-- column rating: int
-- column comment: text?
-- column created_at: timestamp
INSERT INTO feedback (
    feedback_id,
    run_id,
    thread_id,
    user_id,
    message_id,
    rating,
    comment,
    created_at,
    admitted
)
SELECT
    :feedback_id,
    :run_id,
    :thread_id,
    :user_id,
    :message_id,
    :rating,
    :comment,
    :created_at,
    TRUE
WHERE NOT EXISTS (
    SELECT 1 FROM feedback AS other
    WHERE other.feedback_id = :feedback_id
    AND (
        other.thread_id <> :thread_id
        OR other.run_id <> :run_id
        OR other.user_id IS NOT :user_id
    )
)
ON CONFLICT (thread_id, run_id, user_id) DO UPDATE
SET
    message_id =
        /*[ message=keep */ COALESCE(feedback.message_id, /*]*/
        excluded.message_id
        /*[ message=keep */ ) /*]*/,
    rating = excluded.rating,
    comment = excluded.comment,
    created_at = excluded.created_at
RETURNING
    feedback_id,
    run_id,
    thread_id,
    user_id,
    message_id,
    rating,
    comment,
    created_at;

-- name: feedback.upsert_feedback_of_nobody :optional
-- doc: As feedback.upsert_feedback, for a rating without a user. One of another writer that is not
-- doc: under the key yet is met by its id.
-- plan: feedback primary key, feedback.uq_feedback_thread_run_user,
-- plan: feedback.uq_feedback_admitted
-- param feedback_id: text
-- param run_id: text
-- param thread_id: text
-- param message_id: text?
-- param rating: int
-- param comment: text?
-- param created_at: timestamp
-- variant message: replace | keep
-- column feedback_id: text
-- column run_id: text
-- column thread_id: text
-- column user_id: text?
-- column message_id: text?
-- column rating: int
-- column comment: text?
-- column created_at: timestamp
INSERT INTO feedback (
    feedback_id,
    run_id,
    thread_id,
    message_id,
    rating,
    comment,
    created_at,
    admitted
)
SELECT
    COALESCE(
        (
            SELECT there.feedback_id FROM feedback AS there
            WHERE there.thread_id = :thread_id
            AND there.run_id = :run_id
            AND there.user_id IS NULL
            ORDER BY there.admitted IS NULL ASC, there.created_at DESC, there.feedback_id DESC
            LIMIT 1
        ),
        :feedback_id
    ) AS feedback_id,
    :run_id,
    :thread_id,
    :message_id,
    :rating,
    :comment,
    :created_at,
    TRUE
WHERE NOT EXISTS (
    SELECT 1 FROM feedback AS other
    WHERE other.feedback_id = :feedback_id
    AND (
        other.thread_id <> :thread_id
        OR other.run_id <> :run_id
        OR other.user_id IS NOT NULL
    )
)
ON CONFLICT DO UPDATE
SET
    message_id =
        /*[ message=keep */ COALESCE(feedback.message_id, /*]*/
        excluded.message_id
        /*[ message=keep */ ) /*]*/,
    rating = excluded.rating,
    comment = excluded.comment,
    created_at = excluded.created_at
RETURNING
    feedback_id,
    run_id,
    thread_id,
    user_id,
    message_id,
    rating,
    comment,
    created_at;

-- name: feedback.get_feedback :optional
-- doc: One rating by its id.
-- plan: feedback primary key
-- param feedback_id: text
-- param user_id: text
-- variant owner: off | on
-- column feedback_id: text
-- column run_id: text
-- column thread_id: text
-- column user_id: text?
-- column message_id: text?
-- column rating: int
-- column comment: text?
-- column created_at: timestamp
SELECT
    feedback_id,
    run_id,
    thread_id,
    user_id,
    message_id,
    rating,
    comment,
    created_at
FROM feedback
WHERE feedback_id = :feedback_id
/*[ owner=on */ AND +user_id = :user_id /*]*/;

-- name: feedback.list_feedback_by_run :many
-- doc: The ratings of a run by created, then feedback_id: newest or oldest first.
-- plan: feedback.ix_feedback_run_id
-- param run_id: text
-- param thread_id: text
-- param user_id: text
-- param limit: int
-- variant thread: off | on
-- variant owner: off | on
-- variant order: oldest | newest
-- column feedback_id: text
-- column run_id: text
-- column thread_id: text
-- column user_id: text?
-- column message_id: text?
-- column rating: int
-- column comment: text?
-- column created_at: timestamp
SELECT
    feedback_id,
    run_id,
    thread_id,
    user_id,
    message_id,
    rating,
    comment,
    created_at
FROM feedback
WHERE run_id = :run_id
/*[ thread=on */ AND thread_id = :thread_id /*]*/
/*[ owner=on */ AND +user_id = :user_id /*]*/
ORDER BY
    created_at /*[ order=newest */ DESC /*]*/,
    feedback_id /*[ order=newest */ DESC /*]*/
LIMIT :limit;

-- name: feedback.list_feedback_by_thread :many
-- doc: The ratings of a thread by created, then feedback_id: newest or oldest first.
-- plan: feedback.ix_feedback_thread_id
-- param thread_id: text
-- param user_id: text
-- param limit: int
-- variant owner: off | on
-- variant order: oldest | newest
-- column feedback_id: text
-- column run_id: text
-- column thread_id: text
-- column user_id: text?
-- column message_id: text?
-- column rating: int
-- column comment: text?
-- column created_at: timestamp
SELECT
    feedback_id,
    run_id,
    thread_id,
    user_id,
    message_id,
    rating,
    comment,
    created_at
FROM feedback
WHERE thread_id = :thread_id
/*[ owner=on */ AND +user_id = :user_id /*]*/
ORDER BY
    created_at /*[ order=newest */ DESC /*]*/,
    feedback_id /*[ order=newest */ DESC /*]*/
LIMIT :limit;

-- name: feedback.latest_feedback :many
-- doc: The newest rating of each run of a thread, or of each of the given ones.
-- plan: feedback.ix_feedback_thread_id
-- param thread_id: text
-- param run_ids: text[]
-- param user_id: text
-- variant runs: all | given
-- variant owner: off | on
-- column feedback_id: text
-- column run_id: text
-- column thread_id: text
-- column user_id: text?
-- column message_id: text?
-- column rating: int
-- column comment: text?
-- column created_at: timestamp
SELECT
    feedback_id,
    run_id,
    thread_id,
    user_id,
    message_id,
    rating,
    comment,
    created_at
FROM (
    SELECT
        feedback_id,
        run_id,
        thread_id,
        user_id,
        message_id,
        rating,
        comment,
        created_at,
        ROW_NUMBER() OVER (
            PARTITION BY run_id
            ORDER BY created_at DESC, feedback_id DESC
        ) AS place
    FROM feedback
    WHERE thread_id = :thread_id
    /*[ runs=given */ AND run_id IN (SELECT value FROM json_each(:run_ids)) /*]*/
    /*[ owner=on */ AND +user_id = :user_id /*]*/
) AS placed
WHERE place = 1;

-- name: feedback.aggregate_feedback_by_run :one
-- doc: How many ratings a run has, and how many of each kind.
-- plan: feedback.ix_feedback_run_id
-- param run_id: text
-- param thread_id: text
-- variant thread: off | on
-- column total: int
-- column positive: int
-- column negative: int
SELECT
    COUNT(*) AS total,
    COUNT(CASE WHEN rating = 1 THEN 1 END) AS positive,
    COUNT(CASE WHEN rating = -1 THEN 1 END) AS negative
FROM feedback
WHERE run_id = :run_id
/*[ thread=on */ AND thread_id = :thread_id /*]*/;

-- name: feedback.delete_feedback :affected
-- doc: Remove one rating.
-- plan: feedback primary key
-- param feedback_id: text
-- param user_id: text
-- variant owner: off | on
DELETE FROM feedback
WHERE feedback_id = :feedback_id
/*[ owner=on */ AND +user_id = :user_id /*]*/;

-- name: feedback.delete_feedback_by_run :affected
-- doc: Remove a run's ratings: all of them, a user's, or nobody's.
-- plan: feedback.uq_feedback_thread_run_user
-- param thread_id: text
-- param run_id: text
-- param user_id: text
-- variant owner: any | user | nobody
DELETE FROM feedback
WHERE thread_id = :thread_id
AND run_id = :run_id
/*[ owner=user */ AND user_id = :user_id /*]*/
/*[ owner=nobody */ AND user_id IS NULL /*]*/;

-- name: feedback.delete_feedback_by_thread :affected
-- doc: Remove all ratings of a thread.
-- plan: feedback.ix_feedback_thread_id
-- param thread_id: text
-- param user_id: text
-- variant owner: off | on
DELETE FROM feedback
WHERE thread_id = :thread_id
/*[ owner=on */ AND +user_id = :user_id /*]*/;

-- name: feedback.count_feedback :value
-- doc: How many ratings there are.
-- plan: feedback, an index scan: counted on demand only
-- column count: int
SELECT COUNT(*) AS count FROM feedback;
