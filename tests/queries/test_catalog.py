"""Folders and names: what is found, what is said when it is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

import deerstore
from deerstore.errors import InvalidValueError, NotFoundError, QueryFileError
from deerstore.queries import LazyCatalog, UnknownQueryError, load_queries

A = "-- name: a.one :value\nSELECT 1;\n"
B = "-- name: b.two :value\nSELECT 2;\n"


def put(folder, name, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def test_a_catalog_is_a_mapping_in_the_order_of_the_files(tmp_path):
    put(tmp_path / "sqlite", "2.sql", A)
    put(tmp_path / "sqlite", "1.sql", B)
    put(tmp_path / "postgres", "1.sql", "-- name: c :value\nSELECT 3")
    catalog = load_queries(tmp_path)
    assert catalog.names() == tuple(catalog) == ("b.two", "a.one", "c")
    assert len(catalog) == 3
    assert "a.one" in catalog
    assert "a" not in catalog
    assert catalog.engines == ("sqlite", "postgres")
    assert catalog["c"].engines == ("postgres",)
    assert repr(catalog["c"]) == "<Query c :value>"
    assert deerstore.load_queries is load_queries


def test_an_unknown_name_is_a_key_error_with_the_near_one(load):
    with pytest.raises(KeyError) as caught:
        load(A)["a.on"]
    assert isinstance(caught.value, NotFoundError)
    assert str(caught.value).endswith("; did you mean 'a.one'?")


def test_a_query_says_which_engines_it_has(load):
    query = load(sqlite=A, mysql=A)["a.one"]
    with pytest.raises(UnknownQueryError, match=r"no postgres version; it has sqlite \(.*:1\), "):
        query.compiled("postgres")


def test_only_the_engines_asked_for_are_read(tmp_path):
    put(tmp_path / "sqlite", "q.sql", A)
    put(tmp_path / "mysql", "q.sql", "SELECT broken")
    assert load_queries(tmp_path, engines=("sqlite",)).engines == ("sqlite",)
    with pytest.raises(QueryFileError, match="SQL before"):
        load_queries(tmp_path)
    with pytest.raises(QueryFileError, match="no engine folder here: looked for postgres/"):
        load_queries(tmp_path, engines=("postgres",))
    with pytest.raises(InvalidValueError, match="unknown engine 'oracle'"):
        load_queries(tmp_path, engines=("oracle",))


def test_other_files_and_folders_are_left_alone(tmp_path):
    put(tmp_path / "sqlite", "q.sql", A)
    put(tmp_path / "sqlite", "README.md", "SELECT")
    put(tmp_path / "sqlite", "._q.sql", b"\x00\xff")
    put(tmp_path / "sqlite" / "old.sql", "q.sql", "SELECT")
    put(tmp_path / "drafts", "q.sql", "SELECT")
    assert load_queries(tmp_path).names() == ("a.one",)


@pytest.mark.parametrize("name", ["postgresql", "PG", "mariadb", "Postgres", "sqlite3", "mysqll"])
def test_a_folder_that_was_meant_for_an_engine_is_not_passed_over(tmp_path, name):
    if name != "sqlite3":
        put(tmp_path / "sqlite", "q.sql", A)
    put(tmp_path / name, "q.sql", A)
    with pytest.raises(QueryFileError, match=f"folder '{name}' is not one of"):
        load_queries(tmp_path)


def test_a_path_that_is_no_folder_says_so(tmp_path):
    with pytest.raises(QueryFileError, match="No such file or directory"):
        load_queries(tmp_path / "nowhere")
    put(tmp_path, "file", "")
    with pytest.raises(QueryFileError, match="Not a directory"):
        load_queries(tmp_path / "file")


def test_an_unreadable_file_says_so(tmp_path):
    put(tmp_path / "sqlite", "q.sql", A)
    (tmp_path / "sqlite" / "r.sql").symlink_to(tmp_path / "gone.sql")
    with pytest.raises(QueryFileError, match=r"r\.sql:1:1: cannot read the file: No such file"):
        load_queries(tmp_path)


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_line_ends_and_a_byte_order_mark_do_not_count(tmp_path, end):
    text = "-- name: q :value\n-- doc: one\n--   two\nSELECT 'a\nb', 2\n-- end\n;\n"
    put(tmp_path / "sqlite", "q.sql", b"\xef\xbb\xbf" + text.replace("\n", end).encode())
    query = load_queries(tmp_path)["q"]
    assert query.doc == "one two"
    assert query.compiled("sqlite").steps[0].sql == "/* q */ SELECT 'a\nb', 2"


def test_importing_the_registry_loads_no_driver_and_no_yaml():
    script = (
        "import sys, deerstore.queries;"
        "print([m for m in ('yaml', 'sqlite3', 'aiosqlite', 'asyncpg', 'pymysql', 'difflib')"
        " if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_a_lazy_catalog_reads_an_engine_when_its_first_query_is_compiled(tmp_path):
    variant = "-- variant b: off | on\nSELECT 1 /*[ b=on */ , 2 /*]*/"
    put(tmp_path / "sqlite", "q.sql", f"-- name: a :many\n{variant}")
    put(tmp_path / "mysql", "q.sql", f"-- name: a :many\n{variant}")
    put(tmp_path / "postgres", "q.sql", "SELECT broken")
    catalog = LazyCatalog(tmp_path)
    assert catalog.engines == ()
    assert catalog.load("mysql").engines == ("mysql",)
    query = catalog["a"].variant(b=True)
    assert catalog.names() == ("a",)
    assert query.compiled("mysql").steps[0].sql == "/* a */ SELECT 1 , 2"
    assert catalog.engines == ("mysql",)
    assert query.compiled("sqlite").steps[0].sql == "/* a */ SELECT 1 , 2"
    assert catalog.engines == ("mysql", "sqlite")
    assert catalog["a"].variant(b=True) is query
    with pytest.raises(QueryFileError, match="SQL before"):
        query.compiled("postgres")
    with pytest.raises(UnknownQueryError, match="no oracle version"):
        query.compiled("oracle")


def test_a_lazy_catalog_that_is_asked_first_reads_the_first_engine(tmp_path):
    put(tmp_path / "sqlite", "q.sql", A)
    assert "a.one" in LazyCatalog(tmp_path)
    assert len(LazyCatalog(tmp_path)) == 1
    assert list(LazyCatalog(tmp_path)) == ["a.one"]
