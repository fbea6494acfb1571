-- What LangGraph's tables lack on MySQL and MariaDB, once LangGraph has made them.

-- name: tables.unfinished_columns :many
-- doc: Columns whose ids do not compare code point by code point, and times without microseconds.
-- plan: system tables
-- column table_name: text
-- column column_name: text
SELECT
    table_name,
    column_name
FROM information_schema.columns
WHERE
    table_schema = DATABASE()
    AND table_name IN ('checkpoints', 'checkpoint_blobs', 'checkpoint_writes', 'store')
    AND (
        (data_type = 'varchar' AND collation_name NOT IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin'))
        OR (data_type = 'timestamp' AND datetime_precision <> 6)
    )
ORDER BY table_name, ordinal_position;
