-- The Store: long-lived items by namespace, in the table that LangGraph's Store made.
--
-- A namespace is stored as its labels joined with dots, and no label has a dot. What lies under
-- ("a",) is therefore "a" itself and everything from "a." to before "a/", the next character:
-- :first_below and :first_beyond. "ab" is neither.

-- name: store.get_items :many
-- doc: Some items of one namespace.
-- plan: store primary key
-- param namespace: text
-- param keys: text[]
-- column item_key: text
-- column value: json
-- column created_at: timestamp?
-- column updated_at: timestamp?
SELECT
    key AS item_key,
    value,
    created_at,
    updated_at
FROM store
WHERE prefix = :namespace
AND key = ANY(:keys);

-- name: store.put_item :exec
-- doc: Make an item, or give it a new value, which is JSON text; the time of its making stays.
-- plan: store primary key
-- param namespace: text
-- param item_key: text
-- param value: text
-- param now: timestamp
INSERT INTO store (prefix, key, value, created_at, updated_at)
VALUES (:namespace, :item_key, CAST(:value AS jsonb), :now, :now)
ON CONFLICT (prefix, key) DO UPDATE SET
    value = excluded.value,
    updated_at = excluded.updated_at,
    expires_at = NULL,
    ttl_minutes = NULL;

-- name: store.delete_item :affected
-- doc: Remove an item.
-- plan: store primary key
-- param namespace: text
-- param item_key: text
DELETE FROM store
WHERE prefix = :namespace
AND key = :item_key;

-- name: store.search_items :many
-- doc: A page of the items of a namespace and of those below it, last changed first.
-- plan: store, a range of its primary key, sorted
-- param namespace: text
-- param first_below: text
-- param first_beyond: text
-- param limit: int
-- param offset: int
-- variant scope: all | under
-- column prefix: text
-- column item_key: text
-- column value: json
-- column created_at: timestamp?
-- column updated_at: timestamp?
SELECT
    prefix,
    key AS item_key,
    value,
    created_at,
    updated_at
FROM store
/*[ scope=under */
WHERE (
    prefix = :namespace
    OR (prefix ~>=~ :first_below AND prefix ~<~ :first_beyond)
)
/*]*/
ORDER BY updated_at DESC, prefix COLLATE "C" ASC, key COLLATE "C" ASC
LIMIT :limit OFFSET :offset;

-- name: store.scan_items :stream
-- doc: All items of a namespace and of those below it, last changed first, for a search with a
-- doc: filter, which is applied as they come.
-- plan: store, a range of its primary key, sorted
-- param namespace: text
-- param first_below: text
-- param first_beyond: text
-- variant scope: all | under
-- column prefix: text
-- column item_key: text
-- column value: json
-- column created_at: timestamp?
-- column updated_at: timestamp?
SELECT
    prefix,
    key AS item_key,
    value,
    created_at,
    updated_at
FROM store
/*[ scope=under */
WHERE (
    prefix = :namespace
    OR (prefix ~>=~ :first_below AND prefix ~<~ :first_beyond)
)
/*]*/
ORDER BY updated_at DESC, prefix COLLATE "C" ASC, key COLLATE "C" ASC;

-- name: store.list_namespaces :many
-- doc: The namespaces that have items, in the order of their text.
-- plan: store primary key, distinct
-- param namespace: text
-- param first_below: text
-- param first_beyond: text
-- variant scope: all | under
-- column prefix: text
SELECT DISTINCT prefix COLLATE "C" AS prefix
FROM store
/*[ scope=under */
WHERE (
    prefix = :namespace
    OR (prefix ~>=~ :first_below AND prefix ~<~ :first_beyond)
)
/*]*/
ORDER BY prefix;

-- name: store.delete_namespace :affected
-- doc: Remove the items of a namespace and of those below it.
-- plan: store, a range of its primary key
-- param namespace: text
-- param first_below: text
-- param first_beyond: text
DELETE FROM store
WHERE (
    prefix = :namespace
    OR (prefix ~>=~ :first_below AND prefix ~<~ :first_beyond)
);

-- name: store.count_items :value
-- doc: How many items there are.
-- plan: store, all rows
-- column items: int
SELECT COUNT(*) AS items
FROM store;
