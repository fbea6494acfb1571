"""What the driver gets: placeholders, variants, steps, and what is known of a statement."""

from __future__ import annotations

import pytest

from deerstore.errors import InvalidValueError, QueryFileError

GET = """
-- name: runs.get_run :optional
-- doc: One run
--   by its key.
-- doc: Never two.
-- plan: primary key
-- param run_id: text
-- param user_id: text
-- variant owner: off | on
-- variant order: created | recent
-- column run_id: text
-- column created_at: timestamp?
SELECT run_id, created_at, '100%' AS share -- :run_id is no placeholder here
FROM runs /* nor :run_id here */
WHERE run_id = :run_id AND thread_id <> :run_id
    /*[ owner=on */ AND user_id = :user_id /*]*/
/*[ order=created */ ORDER BY created_at DESC /*]*/
/*[ order=recent: ORDER BY updated_at DESC, ':x' ]*/;

-- A comment between two queries.

-- name: runs.count :value
SELECT COUNT(*) FROM runs;
"""


def sql(catalog, name, engine, **choices):
    (step,) = catalog[name].variant(**choices).compiled(engine).steps
    return step.sql


def test_each_driver_gets_its_own_placeholders(load):
    catalog = load(GET)
    assert sql(catalog, "runs.get_run", "sqlite") == (
        "/* runs.get_run */ SELECT run_id, created_at, '100%' AS share\n"
        "FROM runs\nWHERE run_id = ? AND thread_id <> ?\nORDER BY created_at DESC"
    )
    assert sql(catalog, "runs.get_run", "postgres") == (
        "SELECT /* runs.get_run */ run_id, created_at, '100%' AS share\n"
        "FROM runs\nWHERE run_id = $1 AND thread_id <> $1\nORDER BY created_at DESC"
    )
    assert sql(catalog, "runs.get_run", "mysql") == (
        "/* runs.get_run */ SELECT run_id, created_at, '100%%' AS share\n"
        "FROM runs\nWHERE run_id = %s AND thread_id <> %s\nORDER BY created_at DESC"
    )


def test_a_repeated_name_is_one_value(load):
    query = load(GET)["runs.get_run"]
    given = {"run_id": "r"}
    assert query.compiled("sqlite").bind(given) == (("r", "r"),)
    assert query.compiled("postgres").bind(given) == (("r",),)
    assert query.compiled("mysql").bind(given) == (("r", "r"),)
    assert query.compiled("mysql").steps[0].order == ("run_id", "run_id")


def test_variants_are_every_combination_the_first_choices_first(load):
    query = load(GET)["runs.get_run"]
    assert query.choices == {"owner": ("off", "on"), "order": ("created", "recent")}
    assert [variant.binding for variant in query.variants] == [
        {"owner": "off", "order": "created"},
        {"owner": "off", "order": "recent"},
        {"owner": "on", "order": "created"},
        {"owner": "on", "order": "recent"},
    ]
    assert query.binding == {"owner": "off", "order": "created"}
    texts = {variant.compiled("sqlite").steps[0].sql for variant in query.variants}
    assert len(texts) == 4


def test_a_variant_shows_plain_and_hidden_blocks_as_chosen(load):
    catalog = load(GET)
    text = sql(catalog, "runs.get_run", "sqlite", owner=True, order="recent")
    assert text.endswith("AND user_id = ?\nORDER BY updated_at DESC, ':x'")
    assert "created_at DESC" not in text


def test_variant_handles_are_cached_and_build_on_each_other(load):
    query = load(GET)["runs.get_run"]
    owned = query.variant(owner=True)
    assert owned is query.variant(owner="on") is query.variant(owner=True)
    assert owned.variant(order="recent").binding == {"owner": "on", "order": "recent"}
    assert owned.variant(order="recent") is query.variant(order="recent", owner=True)
    assert owned.variant(owner=False) is query
    assert query.variant() is query
    assert owned.compiled("sqlite") is owned.compiled("sqlite")


def test_unknown_variants_and_choices_are_refused_with_what_there_is(load):
    query = load(GET)["runs.get_run"]
    with pytest.raises(InvalidValueError, match=r"no variant 'ownr'; did you mean 'owner'\?"):
        query.variant(ownr=True)
    with pytest.raises(InvalidValueError, match="'order' has no choice 'oldest'; it has created, "):
        query.variant(order="oldest")
    with pytest.raises(InvalidValueError, match="'order' has no choice 'on'"):
        query.variant(order=True)
    with pytest.raises(InvalidValueError, match="it has none"):
        load(GET)["runs.count"].variant(owner=True)


def test_blocks_nest_once(load):
    catalog = load(
        "-- name: q :many\n-- variant a: off | on\n-- variant b: x | y\n"
        "SELECT 1 /*[ a=on */ , 2 /*[ b=y */ , 3 /*]*/ /*[ b=x: , 4 ]*/ /*]*/"
    )
    shown = {
        tuple(variant.binding.values()): "".join(
            char for char in variant.compiled("sqlite").steps[0].sql if char.isdigit()
        )
        for variant in catalog["q"].variants
    }
    assert shown == {("off", "x"): "1", ("off", "y"): "1", ("on", "x"): "124", ("on", "y"): "123"}


def test_a_header_is_kept(load):
    query = load(GET)["runs.get_run"]
    assert query.doc == "One run by its key. Never two."
    assert query.plan == "primary key"
    assert [(column.name, column.type, column.nullable) for column in query.columns] == [
        ("run_id", "text", False),
        ("created_at", "timestamp", True),
    ]
    assert [str(parameter.type) for parameter in query.params] == ["text", "text"]
    assert {engine: source.line for engine, source in query.sources.items()} == dict.fromkeys(
        ("sqlite", "postgres", "mysql"), 2
    )
    assert query.compiled("mysql").steps[0].line == 13


@pytest.mark.parametrize("written", ["text", "text?", "int[]", "int?[]", "int[]?", "json?[]?"])
def test_types_are_read_as_written(load, written):
    query = load(f"-- name: q :exec\n-- param x: {written}\nDELETE FROM t WHERE a = :x")["q"]
    assert str(query.params[0].type) == written


APPEND = """
-- name: events.append :many
-- param thread_id: text
-- param contents: text[]
-- column seq: int
-- step allocate -> base, top
UPDATE counters SET last = last + 1 WHERE thread_id = :thread_id RETURNING last, last + 1;
-- step insert :each
INSERT INTO events (thread_id, seq, content) VALUES (:thread_id, :base, :contents);
-- step read
SELECT seq FROM events WHERE thread_id = :thread_id AND seq BETWEEN :base AND :top;
"""


def test_steps_are_statements_with_their_own_arguments(load):
    query = load(APPEND)["events.append"].compiled("sqlite")
    assert [step.name for step in query.steps] == ["allocate", "insert", "read"]
    assert [step.keyword for step in query.steps] == ["UPDATE", "INSERT", "SELECT"]
    assert [step.writes for step in query.steps] == [True, True, False]
    assert [step.each for step in query.steps] == [False, True, False]
    assert query.steps[0].returns == ("base", "top")
    assert query.steps[0].sql.startswith("/* events.append allocate */ UPDATE counters")
    assert query.result_step == 2
    first, second, third = query.bind({"thread_id": "t", "contents": ["a", "b"]})
    assert first == ("t",)
    assert third == ("t", None, None)
    found = {"base": 5, "top": 6}
    assert query.steps[0].fill(first, found) == ("t",)
    assert query.steps[1].fill(second, found) == [("t", 5, "a"), ("t", 5, "b")]
    assert query.steps[2].fill(third, found) == ("t", 5, 6)
    assert query.steps[2].fill(third, {}) == ("t", None, None)


def test_a_step_without_a_line_of_its_own_may_come_first(load):
    query = load(
        "-- name: q :affected\nDELETE FROM a WHERE 1 = 1;\n-- step b\nDELETE FROM b WHERE 1 = 1"
    )
    compiled = query["q"].compiled("postgres")
    assert [step.sql for step in compiled.steps] == [
        "DELETE /* q */ FROM a WHERE 1 = 1",
        "DELETE /* q b */ FROM b WHERE 1 = 1",
    ]
    assert compiled.result_step == 1


@pytest.mark.parametrize(
    ("statement", "keyword", "writes", "returns_rows"),
    [
        ("SELECT 1", "SELECT", False, True),
        ("(SELECT 1) UNION (SELECT 2)", "SELECT", False, True),
        ("VALUES (1)", "VALUES", False, True),
        ("SELECT a FROM t FOR UPDATE", "SELECT", True, True),
        ("SELECT a FROM t FOR NO KEY UPDATE SKIP LOCKED", "SELECT", True, True),
        ("SELECT a FROM t LOCK IN SHARE MODE", "SELECT", True, True),
        ("SELECT replace(a, 'x', 'y'), \"update\" FROM t -- FOR UPDATE", "SELECT", False, True),
        ("SELECT a INTO b FROM t", "SELECT", True, True),
        ("WITH x AS (SELECT 1) SELECT a FROM x", "SELECT", False, True),
        ("WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x", "SELECT", True, True),
        ("WITH x AS MATERIALIZED (UPDATE t SET a = 1) SELECT 1", "SELECT", True, True),
        ("WITH x AS (SELECT 1), y AS (SELECT 2) INSERT INTO t (a) SELECT 1", "INSERT", True, False),
        ("WITH RECURSIVE values AS (SELECT 1) DELETE FROM t WHERE a = 1", "DELETE", True, False),
        ("INSERT INTO t (a) VALUES (1) RETURNING a", "INSERT", True, True),
        ("INSERT INTO t (a) SELECT (SELECT 1 /* RETURNING */)", "INSERT", True, False),
        ("INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 2", "INSERT", True, False),
        ("REPLACE INTO t (a) VALUES (1)", "REPLACE", True, False),
        ("PRAGMA user_version", "PRAGMA", False, True),
        ("PRAGMA user_version = 3", "PRAGMA", True, True),
        ("EXPLAIN SELECT 1", "EXPLAIN", False, True),
        ("EXPLAIN ANALYZE DELETE FROM t WHERE a = 1", "EXPLAIN", True, True),
        ("CREATE TABLE t (a INT)", "CREATE", True, True),
    ],
)
def test_what_a_statement_does_is_known_from_its_words(
    load, statement, keyword, writes, returns_rows
):
    catalog = load(f"-- name: q :exec\n{statement}")
    for engine in ("sqlite", "postgres", "mysql"):
        (step,) = catalog["q"].compiled(engine).steps
        assert (step.keyword, step.writes, step.returns_rows) == (keyword, writes, returns_rows)
    assert catalog["q"].writes is writes


def test_on_mysql_a_write_hands_on_the_number_that_it_set(load):
    text = (
        "-- name: q :value\n-- step raise -> {names}\nUPDATE t SET n = {value} WHERE a = 1;\n"
        "-- step note\nINSERT INTO u (n, m) VALUES ({names_used})"
    )

    def loaded(engine: str, value: str, names: str = "top"):
        used = ", ".join(f":{name}" for name in names.split(", "))
        return load(**{engine: text.format(names=names, value=value, names_used=used)})["q"]

    query = loaded("mysql", "LAST_INSERT_ID(n + 1)").compiled("mysql")
    step = query.steps[0]
    assert (step.gives_id, step.returns_rows, step.returns) == (True, False, ("top",))
    assert query.result_step == 0
    for engine, value, names in (
        ("mysql", "n + 1 /* LAST_INSERT_ID */ + length('LAST_INSERT_ID(1)')", "top"),
        ("mysql", "LAST_INSERT_ID(n + 1)", "top, base"),
        ("sqlite", "LAST_INSERT_ID(n + 1)", "top"),
        ("postgres", "LAST_INSERT_ID(n + 1)", "top"),
    ):
        with pytest.raises(QueryFileError, match="returns no row to take names from"):
            loaded(engine, value, names)


def test_only_the_variant_that_locks_counts_as_a_write(load):
    query = load(
        "-- name: q :many\n-- variant lock: off | on\n"
        "SELECT a FROM t /*[ lock=on */ FOR UPDATE /*]*/"
    )["q"]
    assert [query.variant(lock=lock).compiled("mysql").writes for lock in (False, True)] == [
        False,
        True,
    ]


def test_hints_and_executable_comments_stay_in_the_text(load):
    catalog = load(
        mysql="-- name: q :many\nSELECT /*+ MAX_EXECUTION_TIME(9) */ 1 /*!80000 , 2 */ /* gone */"
    )
    assert sql(catalog, "q", "mysql") == (
        "/* q */ SELECT /*+ MAX_EXECUTION_TIME(9) */ 1 /*!80000 , 2 */"
    )
