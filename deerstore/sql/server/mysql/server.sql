-- What only a server can be asked: who else is at work.

-- name: server.others_change_schema :value
-- doc: Whether another session is running a statement that changes a table, as far as this user
--   can see.
-- plan: the server's list of sessions
-- column found: bool
SELECT EXISTS (
    SELECT 1
    FROM information_schema.processlist
    WHERE
        db = DATABASE()
        AND id <> CONNECTION_ID()
        AND command = 'Query'
        AND info REGEXP '^[[:space:]]*(ALTER|CREATE|DROP)'
) AS found;
