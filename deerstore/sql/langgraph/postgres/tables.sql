-- What LangGraph's tables lack on PostgreSQL, once LangGraph has made them.

-- name: tables.invalid_indexes :many
-- doc: Indexes that a killed CREATE INDEX CONCURRENTLY left behind, their names quoted where needed.
-- plan: system tables
-- column name: text
SELECT quote_ident(i.relname) AS name
FROM pg_index AS x
INNER JOIN pg_class AS i ON i.oid = x.indexrelid
INNER JOIN pg_class AS t ON t.oid = x.indrelid
INNER JOIN pg_namespace AS n ON n.oid = t.relnamespace
WHERE
    NOT x.indisvalid
    AND n.nspname = current_schema()
    AND t.relname IN ('checkpoints', 'checkpoint_blobs', 'checkpoint_writes', 'store')
ORDER BY i.relname;
