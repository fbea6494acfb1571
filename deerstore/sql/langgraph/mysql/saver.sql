-- The checkpoints of LangGraph's saver on MySQL and MariaDB, in the tables that it made.
--
-- LangGraph's own statements gather a checkpoint's contents into one JSON value, which is cut off
-- at group_concat_max_len and vanishes above max_allowed_packet. Here every content is a row.

-- name: saver.latest :optional
-- doc: The newest checkpoint of a thread's namespace.
-- plan: checkpoints primary key
-- param thread_id: text
-- param checkpoint_ns: text
-- column thread_id: text
-- column checkpoint_ns: text
-- column checkpoint_id: text
-- column parent_checkpoint_id: text?
-- column checkpoint: json
-- column metadata: json
SELECT
    thread_id,
    checkpoint_ns,
    checkpoint_id,
    parent_checkpoint_id,
    checkpoint,
    metadata
FROM checkpoints
WHERE thread_id = :thread_id
AND checkpoint_ns_hash = UNHEX(MD5(:checkpoint_ns))
ORDER BY checkpoint_id DESC
LIMIT 1;

-- name: saver.list :many
-- doc: Checkpoints, newest first.
-- plan: checkpoints primary key where a thread is given
-- param thread_id: text
-- param checkpoint_ns: text
-- param checkpoint_id: text
-- param before: text
-- param filter: text
-- param limit: int
-- variant thread: off | on
-- variant ns: off | on
-- variant one: off | on
-- variant paged: off | on
-- variant filtered: off | on
-- column thread_id: text
-- column checkpoint_ns: text
-- column checkpoint_id: text
-- column parent_checkpoint_id: text?
-- column checkpoint: json
-- column metadata: json
SELECT
    thread_id,
    checkpoint_ns,
    checkpoint_id,
    parent_checkpoint_id,
    checkpoint,
    metadata
FROM checkpoints
WHERE 1 = 1
/*[ thread=on */ AND thread_id = :thread_id /*]*/
/*[ ns=on */ AND checkpoint_ns_hash = UNHEX(MD5(:checkpoint_ns)) /*]*/
/*[ one=on */ AND checkpoint_id = :checkpoint_id /*]*/
/*[ paged=on */ AND checkpoint_id < :before /*]*/
/*[ filtered=on */ AND JSON_CONTAINS(metadata, :filter) /*]*/
ORDER BY checkpoint_id DESC, thread_id ASC, checkpoint_ns ASC
LIMIT :limit;

-- name: saver.contents :many
-- doc: The contents of channels in the versions that checkpoints name.
-- plan: checkpoint_blobs primary key
-- param thread_id: text
-- param checkpoint_ns: text
-- param versions: json
-- column channel: text
-- column version: text
-- column type: text
-- column content: bytes?
SELECT
    b.channel,
    b.version,
    b.type,
    b.`blob` AS content
FROM JSON_TABLE(
    :versions, '$[*]' COLUMNS (
        channel VARCHAR(150) CHARACTER SET utf8mb4
        /*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */
        PATH '$[0]',
        version VARCHAR(150) CHARACTER SET utf8mb4
        /*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */
        PATH '$[1]'
    )
) AS wanted
INNER JOIN checkpoint_blobs AS b
    ON b.thread_id = :thread_id
    AND b.checkpoint_ns_hash = UNHEX(MD5(:checkpoint_ns))
    AND b.channel = wanted.channel
    AND b.version = wanted.version;

-- name: saver.writes :many
-- doc: The pending writes of checkpoints, each one's in their order.
-- plan: checkpoint_writes primary key
-- param thread_id: text
-- param checkpoint_ns: text
-- param checkpoint_ids: text[]
-- column checkpoint_id: text
-- column task_id: text
-- column channel: text
-- column type: text?
-- column content: bytes
SELECT
    checkpoint_id,
    task_id,
    channel,
    type,
    `blob` AS content
FROM checkpoint_writes
WHERE thread_id = :thread_id
AND checkpoint_ns_hash = UNHEX(MD5(:checkpoint_ns))
AND checkpoint_id IN (
    SELECT given.checkpoint_id
    FROM JSON_TABLE(
        :checkpoint_ids, '$[*]' COLUMNS (
            checkpoint_id VARCHAR(150) CHARACTER SET utf8mb4
            /*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */
            PATH '$'
        )
    ) AS given
)
ORDER BY task_path, task_id, idx;

-- name: saver.sends :many
-- doc: What the parents of checkpoints from before format 4 still had to send.
-- plan: checkpoint_writes primary key
-- param thread_id: text
-- param checkpoint_ns: text
-- param checkpoint_ids: text[]
-- param channel: text
-- column checkpoint_id: text
-- column type: text?
-- column content: bytes
SELECT
    checkpoint_id,
    type,
    `blob` AS content
FROM checkpoint_writes
WHERE thread_id = :thread_id
AND checkpoint_ns_hash = UNHEX(MD5(:checkpoint_ns))
AND checkpoint_id IN (
    SELECT given.checkpoint_id
    FROM JSON_TABLE(
        :checkpoint_ids, '$[*]' COLUMNS (
            checkpoint_id VARCHAR(150) CHARACTER SET utf8mb4
            /*M!100000 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */
            PATH '$'
        )
    ) AS given
)
AND channel = :channel
ORDER BY task_path, task_id, idx;

-- name: saver.put_content :affected
-- doc: Keep the content of a channel in one version; a version never changes.
-- plan: checkpoint_blobs, insert
-- param thread_id: text
-- param checkpoint_ns: text
-- param channel: text
-- param version: text
-- param type: text
-- param content: bytes?
INSERT IGNORE INTO checkpoint_blobs (
    thread_id,
    checkpoint_ns,
    checkpoint_ns_hash,
    channel,
    version,
    type,
    `blob`
)
VALUES (
    :thread_id,
    :checkpoint_ns,
    UNHEX(MD5(:checkpoint_ns)),
    :channel,
    :version,
    :type,
    :content
);

-- name: saver.put_checkpoint :affected
-- doc: Keep a checkpoint; the same id again replaces it.
-- plan: checkpoints, insert
-- param thread_id: text
-- param checkpoint_ns: text
-- param checkpoint_id: text
-- param parent_checkpoint_id: text?
-- param checkpoint: text
-- param metadata: text
INSERT INTO checkpoints (
    thread_id,
    checkpoint_ns,
    checkpoint_ns_hash,
    checkpoint_id,
    parent_checkpoint_id,
    checkpoint,
    metadata
)
VALUES (
    :thread_id,
    :checkpoint_ns,
    UNHEX(MD5(:checkpoint_ns)),
    :checkpoint_id,
    :parent_checkpoint_id,
    :checkpoint,
    :metadata
)
ON DUPLICATE KEY UPDATE
    checkpoint = VALUES(checkpoint),
    metadata = VALUES(metadata);

-- name: saver.put_write :affected
-- doc: Keep a pending write. With again=replace a later one takes its place, else the first stays.
-- plan: checkpoint_writes, insert
-- param thread_id: text
-- param checkpoint_ns: text
-- param checkpoint_id: text
-- param task_id: text
-- param task_path: text
-- param idx: int
-- param channel: text
-- param type: text
-- param content: bytes
-- variant again: keep | replace
INSERT /*[ again=keep */ IGNORE /*]*/ INTO checkpoint_writes (
    thread_id,
    checkpoint_ns,
    checkpoint_ns_hash,
    checkpoint_id,
    task_id,
    task_path,
    idx,
    channel,
    type,
    `blob`
)
VALUES (
    :thread_id,
    :checkpoint_ns,
    UNHEX(MD5(:checkpoint_ns)),
    :checkpoint_id,
    :task_id,
    :task_path,
    :idx,
    :channel,
    :type,
    :content
)
/*[ again=replace */
ON DUPLICATE KEY UPDATE
    channel = VALUES(channel),
    type = VALUES(type),
    `blob` = VALUES(`blob`)
/*]*/;

-- name: saver.packet_limit :value
-- doc: The most bytes that the server takes in one statement.
-- plan: no table
-- column bytes: int
SELECT @@max_allowed_packet AS bytes;
