-- name: settings.look :one
-- doc: What a connection works with.
SELECT
    @@session.time_zone AS zone,
    @@session.tx_isolation AS isolation,
    @@session.sql_mode AS sql_mode,
    @@session.character_set_connection AS charset,
    @@session.innodb_lock_wait_timeout AS lock_wait,
    @@session.autocommit AS autocommit;
