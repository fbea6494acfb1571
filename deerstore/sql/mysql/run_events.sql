-- Run events. A thread's seq comes from its row in run_event_counters: whoever appends locks that
-- row until the commit, so that seq rises in commit order. The counter is never below the highest
-- seq of the thread, whoever wrote it, and outlives the events. A write returns no row here:
-- LAST_INSERT_ID(…) sends the number that the next step needs along with its answer.

-- name: run_events.append_batch :value
-- doc: Append `count` events to one thread, in order, all or nothing. The first gets seq base + 1,
-- doc: the next base + 2. The lists have one element per event; positions are 1, 2, 3, …
-- plan: run_event_counters primary key; run_events.uq_events_thread_seq for the highest seq
-- param thread_id: text
-- param count: int
-- param positions: int[]
-- param run_ids: text[]
-- param user_ids: text?[]
-- param event_types: text[]
-- param categories: text[]
-- param contents: text[]
-- param metadata: text[]
-- param content_formats: text[]
-- param created_times: timestamp[]
-- column base: int
-- step allocate -> base
INSERT INTO run_event_counters (thread_id, last_seq)
VALUES
    (
        :thread_id,
        LAST_INSERT_ID(
            COALESCE((SELECT MAX(seq) FROM run_events WHERE thread_id = :thread_id), 0)
        ) + :count
    )
ON DUPLICATE KEY UPDATE
    last_seq = LAST_INSERT_ID(GREATEST(last_seq, VALUES(last_seq) - :count)) + :count;

-- step insert :each
INSERT INTO run_events
    (
        thread_id,
        run_id,
        user_id,
        event_type,
        category,
        content,
        event_metadata,
        content_format,
        seq,
        created_at
    )
VALUES
    (
        :thread_id,
        :run_ids,
        :user_ids,
        :event_types,
        :categories,
        :contents,
        :metadata,
        :content_formats,
        :base + :positions,
        :created_times
    );

-- name: run_events.append_mixed :value
-- doc: Append `count` events to several threads, in order, all or nothing. The numbers rise over
-- doc: the whole batch from base + 1, above the highest seq of all its threads. `locked_threads`
-- doc: are the threads, each once and sorted, so that two batches never wait for each other.
-- plan: run_event_counters primary key; run_events.uq_events_thread_seq for the highest seq
-- param locked_threads: text[]
-- param thread_ids: text[]
-- param count: int
-- param positions: int[]
-- param run_ids: text[]
-- param user_ids: text?[]
-- param event_types: text[]
-- param categories: text[]
-- param contents: text[]
-- param metadata: text[]
-- param content_formats: text[]
-- param created_times: timestamp[]
-- column base: int
-- step lock :each
INSERT INTO run_event_counters (thread_id, last_seq)
VALUES
    (
        :locked_threads,
        COALESCE((SELECT MAX(seq) FROM run_events WHERE thread_id = :locked_threads), 0)
    )
ON DUPLICATE KEY UPDATE last_seq = GREATEST(last_seq, VALUES(last_seq));

-- step base -> base
SELECT MAX(last_seq) AS base
FROM run_event_counters
WHERE thread_id IN (
    SELECT locked.thread_id
    FROM JSON_TABLE(
        :locked_threads, '$[*]' COLUMNS (thread_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$')
    ) AS locked
);

-- step insert :each
INSERT INTO run_events
    (
        thread_id,
        run_id,
        user_id,
        event_type,
        category,
        content,
        event_metadata,
        content_format,
        seq,
        created_at
    )
VALUES
    (
        :thread_ids,
        :run_ids,
        :user_ids,
        :event_types,
        :categories,
        :contents,
        :metadata,
        :content_formats,
        :base + :positions,
        :created_times
    );

-- step advance
UPDATE run_event_counters
SET last_seq = :base + :count
WHERE thread_id IN (
    SELECT locked.thread_id
    FROM JSON_TABLE(
        :locked_threads, '$[*]' COLUMNS (thread_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$')
    ) AS locked
);

-- name: run_events.append_if_absent :one
-- doc: Append the event unless the run already has one of its type; the event that is there then.
-- doc: The counter's lock makes the test and the insert one step.
-- plan: run_event_counters primary key; run_events.ix_events_run for the test
-- param thread_id: text
-- param run_id: text
-- param user_id: text?
-- param event_type: text
-- param category: text
-- param content: text
-- param metadata: text
-- param content_format: text
-- param created_at: timestamp
-- column thread_id: text
-- column run_id: text
-- column user_id: text?
-- column event_type: text
-- column category: text
-- column content: text
-- column event_metadata: text
-- column content_format: text?
-- column seq: int
-- column created_at: timestamp
-- column created: bool
-- step lock -> base
INSERT INTO run_event_counters (thread_id, last_seq)
VALUES
    (
        :thread_id,
        LAST_INSERT_ID(COALESCE((SELECT MAX(seq) FROM run_events WHERE thread_id = :thread_id), 0))
    )
ON DUPLICATE KEY UPDATE last_seq = LAST_INSERT_ID(GREATEST(last_seq, VALUES(last_seq)));

-- step insert
INSERT INTO run_events
    (
        thread_id,
        run_id,
        user_id,
        event_type,
        category,
        content,
        event_metadata,
        content_format,
        seq,
        created_at
    )
SELECT
    :thread_id,
    :run_id,
    :user_id,
    :event_type,
    :category,
    :content,
    :metadata,
    :content_format,
    :base + 1,
    :created_at
FROM DUAL
WHERE NOT EXISTS (
    SELECT 1
    FROM run_events AS present
    WHERE present.thread_id = :thread_id
        AND present.run_id = :run_id
        AND present.event_type = :event_type
);

-- step advance
UPDATE run_event_counters
SET last_seq = :base + 1
WHERE thread_id = :thread_id
    AND EXISTS (SELECT 1 FROM run_events WHERE thread_id = :thread_id AND seq = :base + 1);

-- step result
SELECT
    thread_id,
    run_id,
    user_id,
    event_type,
    category,
    content,
    event_metadata,
    content_format,
    seq,
    created_at,
    seq > :base AS created
FROM run_events
WHERE thread_id = :thread_id AND run_id = :run_id AND event_type = :event_type
ORDER BY seq
LIMIT 1;

-- name: run_events.list_messages :many
-- doc: A page of a thread's messages.
-- doc: `before` and `after` bound the page below and above. Without `after` the page ends at its
-- doc: high end and comes newest first; with it, it begins at its low end, oldest first.
-- plan: run_events.ix_events_thread_cat_seq, forced (the statement fails without it), since the
-- plan: planner would walk the thread by uq_events_thread_seq to a page in its middle
-- param thread_id: text
-- param limit: int
-- param before_seq: int
-- param after_seq: int
-- param user_id: text
-- variant before: off | on
-- variant after: off | on
-- variant owner: off | on
-- column thread_id: text
-- column run_id: text
-- column user_id: text?
-- column event_type: text
-- column category: text
-- column content: text
-- column event_metadata: text
-- column content_format: text?
-- column seq: int
-- column created_at: timestamp
SELECT
    thread_id,
    run_id,
    user_id,
    event_type,
    category,
    content,
    event_metadata,
    content_format,
    seq,
    created_at
FROM run_events FORCE INDEX (ix_events_thread_cat_seq)
WHERE thread_id = :thread_id
    AND category = 'message'
    /*[ before=on */ AND seq < :before_seq /*]*/
    /*[ after=on */ AND seq > :after_seq /*]*/
    /*[ owner=on */ AND user_id = :user_id /*]*/
ORDER BY seq /*[ after=off */ DESC /*]*/
LIMIT :limit;

-- name: run_events.list_messages_by_run :many
-- doc: A page of a run's messages.
-- doc: `before` and `after` bound the page below and above. Without `after` the page ends at its
-- doc: high end and comes newest first; with it, it begins at its low end, oldest first.
-- plan: run_events.ix_events_run, forced (the statement fails without it), since the planner would
-- plan: walk the thread by uq_events_thread_seq to a page in its middle
-- param thread_id: text
-- param run_id: text
-- param limit: int
-- param before_seq: int
-- param after_seq: int
-- param user_id: text
-- variant before: off | on
-- variant after: off | on
-- variant owner: off | on
-- column thread_id: text
-- column run_id: text
-- column user_id: text?
-- column event_type: text
-- column category: text
-- column content: text
-- column event_metadata: text
-- column content_format: text?
-- column seq: int
-- column created_at: timestamp
SELECT
    thread_id,
    run_id,
    user_id,
    event_type,
    category,
    content,
    event_metadata,
    content_format,
    seq,
    created_at
FROM run_events FORCE INDEX (ix_events_run)
WHERE thread_id = :thread_id
    AND run_id = :run_id
    AND category = 'message'
    /*[ before=on */ AND seq < :before_seq /*]*/
    /*[ after=on */ AND seq > :after_seq /*]*/
    /*[ owner=on */ AND user_id = :user_id /*]*/
ORDER BY seq /*[ after=off */ DESC /*]*/
LIMIT :limit;

-- name: run_events.list_events :many
-- doc: A page of all events of a run. `types` keeps some event types, `task` the events whose
-- doc: metadata has this task_id; in metadata that the engine cannot decode it is looked for as
-- doc: text. Without `after` the page is the newest and comes newest first; with it, it begins
-- doc: above after_seq, oldest first.
-- plan: run_events.ix_events_run, forced (the statement fails without it), since the planner would
-- plan: walk the thread by uq_events_thread_seq to a page in its middle
-- param thread_id: text
-- param run_id: text
-- param limit: int
-- param after_seq: int
-- param event_types: text[]
-- param task_id: text
-- param user_id: text
-- variant after: off | on
-- variant types: off | on
-- variant task: off | on
-- variant owner: off | on
-- column thread_id: text
-- column run_id: text
-- column user_id: text?
-- column event_type: text
-- column category: text
-- column content: text
-- column event_metadata: text
-- column content_format: text?
-- column seq: int
-- column created_at: timestamp
SELECT
    thread_id,
    run_id,
    user_id,
    event_type,
    category,
    content,
    event_metadata,
    content_format,
    seq,
    created_at
FROM run_events FORCE INDEX (ix_events_run)
WHERE thread_id = :thread_id
    AND run_id = :run_id
    /*[ after=on */ AND seq > :after_seq /*]*/
    /*[ types=on */ AND event_type IN (
        SELECT wanted.event_type
        FROM JSON_TABLE(
            :event_types, '$[*]' COLUMNS (event_type VARCHAR(32) CHARACTER SET utf8mb4 PATH '$')
        ) AS wanted
    ) /*]*/
    /*[ task=on */ AND CASE
        WHEN JSON_VALID(event_metadata)
            THEN JSON_TYPE(JSON_EXTRACT(event_metadata, '$.task_id')) = 'STRING'
                AND JSON_UNQUOTE(JSON_EXTRACT(event_metadata, '$.task_id')) = :task_id
        ELSE LOCATE(CONCAT('"task_id": ', JSON_QUOTE(:task_id)), event_metadata) > 0
    END /*]*/
    /*[ owner=on */ AND user_id = :user_id /*]*/
ORDER BY seq /*[ after=off */ DESC /*]*/
LIMIT :limit;

-- name: run_events.last_ai_seq_by_run :many
-- doc: The seq of the last answer of a model in each run; null for a run without one. `visible`
-- doc: leaves out hidden messages and middleware's. Both marks are looked for in the text of the
-- doc: JSON, where an unescaped key cannot be part of somebody's words.
-- plan: run_events.ix_events_run, forced (the statement fails without it); newest first, once per
-- plan: run
-- param thread_id: text
-- param run_ids: text[]
-- param user_id: text
-- variant visible: off | on
-- variant owner: off | on
-- column run_id: text
-- column seq: int?
SELECT
    wanted.run_id,
    (
        SELECT answer.seq
        FROM run_events AS answer FORCE INDEX (ix_events_run)
        WHERE answer.thread_id = :thread_id
            AND answer.run_id = wanted.run_id
            AND answer.category = 'message'
            AND answer.event_type = 'llm.ai.response'
            /*[ visible=on */
            AND LOCATE('"caller": "middleware', answer.event_metadata) = 0
            AND LOCATE('"caller":"middleware', answer.event_metadata) = 0
            AND (
                answer.content_format = 'text'
                OR (
                    LOCATE('"hide_from_ui": true', answer.content) = 0
                    AND LOCATE('"hide_from_ui":true', answer.content) = 0
                )
            )
            /*]*/
            /*[ owner=on */ AND answer.user_id = :user_id /*]*/
        ORDER BY answer.seq DESC
        LIMIT 1
    ) AS seq
FROM JSON_TABLE(
    :run_ids, '$[*]' COLUMNS (run_id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$')
) AS wanted;

-- name: run_events.count_messages :value
-- doc: How many messages a thread has.
-- plan: run_events.ix_events_thread_cat_seq, forced (the statement fails without it): MariaDB would
-- plan: now and then read the rows by another index, which takes five times as long
-- param thread_id: text
-- param user_id: text
-- variant owner: off | on
-- column messages: int
SELECT COUNT(*) AS messages
FROM run_events FORCE INDEX (ix_events_thread_cat_seq)
WHERE thread_id = :thread_id
    AND category = 'message'
    /*[ owner=on */ AND user_id = :user_id /*]*/;

-- name: run_events.delete_by_thread :affected
-- doc: Delete the events of a thread. The counter keeps the highest seq: none is used again.
-- plan: run_events.uq_events_thread_seq
-- param thread_id: text
-- param user_id: text
-- variant owner: off | on
-- step keep
INSERT INTO run_event_counters (thread_id, last_seq)
SELECT
    thread_id,
    MAX(seq)
FROM run_events
WHERE thread_id = :thread_id
GROUP BY thread_id
ON DUPLICATE KEY UPDATE last_seq = GREATEST(last_seq, VALUES(last_seq));

-- step delete
DELETE FROM run_events
WHERE thread_id = :thread_id
    /*[ owner=on */ AND user_id = :user_id /*]*/;

-- name: run_events.delete_by_run :affected
-- doc: Delete the events of a run. The counter keeps the highest seq: none is used again.
-- plan: run_events.ix_events_run
-- param thread_id: text
-- param run_id: text
-- param user_id: text
-- variant owner: off | on
-- step keep
INSERT INTO run_event_counters (thread_id, last_seq)
SELECT
    thread_id,
    MAX(seq)
FROM run_events
WHERE thread_id = :thread_id
GROUP BY thread_id
ON DUPLICATE KEY UPDATE last_seq = GREATEST(last_seq, VALUES(last_seq));

-- step delete
DELETE FROM run_events
WHERE thread_id = :thread_id
    AND run_id = :run_id
    /*[ owner=on */ AND user_id = :user_id /*]*/;

-- name: run_events.count_events :value
-- doc: How many events there are in all threads.
-- plan: a scan of the smallest index
-- column events: int
SELECT COUNT(*) AS events
FROM run_events;

-- name: run_events.purge_events :affected
-- doc: Delete the events of a thread that is purged from every surface.
-- plan: run_events.uq_events_thread_seq
-- param thread_id: text
DELETE FROM run_events
WHERE thread_id = :thread_id;

-- name: run_events.purge_counter :affected
-- doc: Forget the counter of a thread that is purged: a thread of the same id would be a new one.
-- plan: run_event_counters primary key
-- param thread_id: text
DELETE FROM run_event_counters
WHERE thread_id = :thread_id;
