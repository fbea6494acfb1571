-- name: runs.get_run :optional
-- param run_id: text
-- variant a: off | on
-- variant b: off | on
-- variant c: off | on
SELECT run_id
FROM runs
WHERE run_id = :run_id
/*[ a=on */ AND 1 = 1 /*[ b=on */ AND 2 = 2 /*[ c=on */ AND 3 = 3 /*]*/ /*]*/ /*]*/;
