-- Threads. threads_meta_index follows by triggers; nothing here writes to it.

-- name: threads.create_thread :affected
-- doc: Store a new thread. 0 rows: its id is taken.
-- plan: threads_meta primary key
-- param thread_id: text
-- param assistant_id: text?
-- param user_id: text?
-- param display_name: text?
-- param status: text
-- param metadata: text
-- param created_at: timestamp
INSERT INTO threads_meta
    (
        thread_id,
        assistant_id,
        user_id,
        display_name,
        status,
        metadata_json,
        created_at,
        updated_at
    )
VALUES
    (
        :thread_id,
        :assistant_id,
        :user_id,
        :display_name,
        :status,
        :metadata,
        :created_at,
        :created_at
    )
ON CONFLICT (thread_id) DO NOTHING;

-- name: threads.get_thread :optional
-- doc: One thread by its id.
-- plan: threads_meta primary key
-- param thread_id: text
-- param user_id: text
-- variant owner: off | on
-- column thread_id: text
-- column assistant_id: text?
-- column user_id: text?
-- column display_name: text?
-- column status: text
-- column metadata_json: text
-- column created_at: timestamp
-- column updated_at: timestamp
SELECT
    thread_id,
    assistant_id,
    user_id,
    display_name,
    status,
    metadata_json,
    created_at,
    updated_at
FROM threads_meta
WHERE thread_id = :thread_id
    /*[ owner=on */ AND user_id = :user_id /*]*/;

-- name: threads.get_owner :optional
-- doc: The owner of a thread; null for a shared one, no row for a thread that is not there.
-- plan: threads_meta primary key
-- param thread_id: text
-- column user_id: text?
SELECT user_id
FROM threads_meta
WHERE thread_id = :thread_id;

-- name: threads.lock_metadata :optional
-- doc: The metadata of a thread, locked until the end of the transaction. An update that changes
-- doc: nothing takes the file's write lock.
-- plan: threads_meta primary key
-- param thread_id: text
-- param user_id: text
-- variant owner: off | on
-- column metadata_json: text
UPDATE threads_meta
SET thread_id = thread_id
WHERE thread_id = :thread_id
    /*[ owner=on */ AND user_id = :user_id /*]*/
RETURNING metadata_json;

-- name: threads.write_metadata :affected
-- doc: Replace the metadata of a thread; `touch` makes it recent.
-- plan: threads_meta primary key
-- param thread_id: text
-- param metadata: text
-- param updated_at: timestamp
-- variant touch: off | on
UPDATE threads_meta
SET
    /*[ touch=on */ updated_at = :updated_at, /*]*/
    metadata_json = :metadata
WHERE thread_id = :thread_id;

-- name: threads.update_thread :affected
-- doc: Change what is given of a thread; null keeps. The thread becomes recent.
-- plan: threads_meta primary key
-- param thread_id: text
-- param display_name: text?
-- param status: text?
-- param metadata: text?
-- param updated_at: timestamp
-- param user_id: text
-- variant owner: off | on
UPDATE threads_meta
SET
    display_name = COALESCE(:display_name, display_name),
    status = COALESCE(:status, status),
    metadata_json = COALESCE(:metadata, metadata_json),
    updated_at = :updated_at
WHERE thread_id = :thread_id
    /*[ owner=on */ AND user_id = :user_id /*]*/;

-- name: threads.set_display_name :affected
-- doc: Name a thread, or with null take its name away. The thread becomes recent.
-- plan: threads_meta primary key
-- param thread_id: text
-- param display_name: text?
-- param updated_at: timestamp
-- param user_id: text
-- variant owner: off | on
UPDATE threads_meta
SET
    display_name = :display_name,
    updated_at = :updated_at
WHERE thread_id = :thread_id
    /*[ owner=on */ AND user_id = :user_id /*]*/;

-- name: threads.update_owner :affected
-- doc: Give a thread to a user; null makes it shared. The thread becomes recent.
-- plan: threads_meta primary key
-- param thread_id: text
-- param owner_user_id: text?
-- param updated_at: timestamp
-- param user_id: text
-- variant owner: off | on
UPDATE threads_meta
SET
    user_id = :owner_user_id,
    updated_at = :updated_at
WHERE thread_id = :thread_id
    /*[ owner=on */ AND user_id = :user_id /*]*/;

-- name: threads.delete_thread :affected
-- doc: Delete the row of a thread; its runs, events and feedback stay.
-- plan: threads_meta primary key
-- param thread_id: text
-- param user_id: text
-- variant owner: off | on
DELETE FROM threads_meta
WHERE thread_id = :thread_id
    /*[ owner=on */ AND user_id = :user_id /*]*/;

-- name: threads.count_threads :value
-- doc: How many threads there are.
-- plan: a scan of the smallest index
-- column threads: int
SELECT COUNT(*) AS threads
FROM threads_meta;
