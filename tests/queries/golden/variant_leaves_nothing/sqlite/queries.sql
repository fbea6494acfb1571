-- name: runs.count :value
-- variant really: off | on
/*[ really=on */ SELECT COUNT(*) FROM runs /*]*/;
