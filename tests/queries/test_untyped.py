"""A declared type counts where the engine could not tell it from the parameter's surroundings."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from deerstore.config import StorageConfig
from deerstore.database import Database


def sql(catalog, name="q"):
    (step,) = catalog[name].compiled("postgres").steps
    return step.sql.removeprefix("SELECT /* q */ ")


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("SELECT :n", "$1::bigint"),
        ("SELECT :n AS n, a, :n FROM t", "$1::bigint AS n, a, $1::bigint FROM t"),
        (
            "SELECT a FROM t WHERE (:n IS NULL OR a = :n)",
            "a FROM t WHERE ($1::bigint IS NULL OR a = $1)",
        ),
        ("SELECT a FROM t WHERE :n is not null", "a FROM t WHERE $1::bigint is not null"),
        ("SELECT (SELECT :n), a", "(SELECT $1::bigint), a"),
        # Its surroundings tell the type, or the author did.
        ("SELECT :n::int, CAST(:n AS int)", "$1::int, CAST($1 AS int)"),
        ("SELECT f(a, :n), :n + 1, coalesce(:n, 1)", "f(a, $1), $1 + 1, coalesce($1, 1)"),
        ("SELECT a FROM t WHERE a = :n IS NULL", "a FROM t WHERE a = $1 IS NULL"),
        ("SELECT a FROM t WHERE :n IS DISTINCT FROM a", "a FROM t WHERE $1 IS DISTINCT FROM a"),
        ("SELECT a FROM t ORDER BY a LIMIT 1 OFFSET :n", "a FROM t ORDER BY a LIMIT 1 OFFSET $1"),
    ],
)
def test_a_cast_stands_where_the_type_cannot_be_told(load, written, sent):
    assert sql(load(postgres=f"-- name: q :many\n-- param n: int\n{written};")) == sent


def test_the_target_of_an_insert_tells_the_type(load):
    catalog = load(
        postgres="-- name: q :exec\n-- param n: int\nINSERT INTO t (a, b) SELECT :n, b FROM s;"
    )
    assert "SELECT $1, b" in sql(catalog)


def test_a_list_has_its_type_where_any_array_fits(load):
    catalog = load(
        postgres="-- name: q :many\n-- param ids: text[]\n"
        "SELECT x FROM unnest(:ids) AS x WHERE x = ANY(:ids) AND cardinality(:ids) > 1"
    )
    assert sql(catalog) == (
        "x FROM unnest($1::text[]) AS x WHERE x = ANY($1) AND cardinality($1::text[]) > 1"
    )


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("a FROM t WHERE a <= :at", "a FROM t WHERE a <= $1::timestamptz"),
        ("coalesce(:at, a), :at::date", "coalesce($1::timestamptz, a), $1::timestamptz::date"),
        ("CAST(:at AS timestamp)", "CAST($1::timestamptz AS timestamp)"),
        ("CAST(:at AS timestamptz), :at::timestamptz", "CAST($1 AS timestamptz), $1::timestamptz"),
    ],
)
def test_a_time_has_its_zone_wherever_it_stands(load, written, sent):
    text = f"-- name: q :many\n-- param at: timestamp\nSELECT {written};"
    assert sql(load(postgres=text)) == sent


def test_a_list_of_times_has_its_zone_too(load):
    text = "-- name: q :exec\n-- param at: timestamp[]\nDELETE FROM t WHERE a = ANY(:at);"
    (step,) = load(postgres=text)["q"].compiled("postgres").steps
    assert step.sql.endswith("a = ANY($1::timestamptz[])")


@pytest.mark.engines("postgres", why="only it has times with and without a zone")
async def test_a_time_meets_columns_of_both_kinds(load, storage_url):
    catalog = load(
        postgres="-- name: q.make :exec\nCREATE TABLE t (a TIMESTAMP, b TIMESTAMPTZ, c DATE);\n"
        "-- name: q.put :affected\n-- param at: timestamp\n"
        "INSERT INTO t (a, b, c) VALUES (:at, :at, :at);\n"
        "-- name: q.found :one\n-- param at: timestamp\n-- param all: timestamp[]\n"
        "-- column a: timestamp\n-- column b: timestamp\n"
        "SELECT a, b FROM t WHERE a = :at AND b = ANY(:all) AND a = ANY(:all) AND c <= :at;\n"
    )
    at = VALUES["timestamp"]
    async with await Database.open(StorageConfig(database_url=storage_url)) as database:
        await database.execute(catalog["q.make"])
        assert await database.execute(catalog["q.put"], at=at) == 1
        assert tuple((await database.fetch_one(catalog["q.found"], at=at, all=[at])).values()) == (
            at,
            at,
        )


VALUES = {
    "text": "a%",
    "int": 2**62,
    "float": 1.5,
    "bool": True,
    "timestamp": datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "json": {"a": [1, None]},
    "bytes": b"\x00\xff",
}


@pytest.mark.parametrize("kind", VALUES)
async def test_a_parameter_may_stand_alone_on_every_engine(load, storage_url, kind):
    catalog = load(
        f"-- name: q.value :value\n-- param x: {kind}\n-- column x: {kind}\nSELECT :x AS x;\n"
        f"-- name: q.given :value\n-- param x: {kind}?\n-- column given: bool\n"
        "SELECT CASE WHEN :x IS NULL THEN 0 = 1 ELSE 0 = 0 END AS given;\n"
    )
    async with await Database.open(StorageConfig(database_url=storage_url)) as database:
        assert await database.fetch_value(catalog["q.value"], x=VALUES[kind]) == VALUES[kind]
        assert await database.fetch_value(catalog["q.given"], x=VALUES[kind]) is True
        assert await database.fetch_value(catalog["q.given"], x=None) is False
