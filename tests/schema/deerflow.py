"""Databases as DeerFlow's releases left them: its tables, with rows as it wrote them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import psycopg
import pymysql

from tests.fixtures.fix_databases import configured

SHAPES = {
    path.stem[-1].upper(): json.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "shapes").glob("deerflow_?.json"))
}
OWN_TABLES = ("users", "runs", "run_events", "threads_meta", "feedback")


class Client:
    """A plain connection beside deerstore's: every statement commits by itself."""

    def __init__(self, engine: str, url: str) -> None:
        self.engine = engine
        targets = configured(url).targets
        if engine == "sqlite":
            self._connection: Any = sqlite3.connect(targets.sqlite_path(), isolation_level=None)
        elif engine == "postgres":
            self._connection = psycopg.connect(targets.psycopg_conninfo(), autocommit=True)
        else:
            self._connection = pymysql.connect(**targets.pymysql_kwargs(), autocommit=True)

    def run(self, sql: str, args: Any = ()) -> list[tuple[Any, ...]]:
        """Run one statement; placeholders are `?`."""
        if self.engine == "sqlite":
            return self._connection.execute(sql, args).fetchall()
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(sql.replace("?", "%s") if args else sql, args or None)
            return list(cursor.fetchall()) if cursor.description else []

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def build(
    client: Client,
    shape: str,
    *,
    without: tuple[str, ...] = (),
    rows: bool = True,
    zoned: bool = True,
) -> None:
    """Make the database of one released shape.

    `without` names tables and indexes to leave out; with `zoned=False` PostgreSQL's times have no
    zone, as in a database that was carried over from elsewhere.
    """
    described = SHAPES[shape]
    for name, table in described["tables"].items():
        if name in without:
            continue
        for statement in _create(client.engine, name, table, without, zoned=zoned):
            client.run(statement)
    for name in described["other_tables"]:
        client.run(f"CREATE TABLE {name} (id VARCHAR(64) NOT NULL PRIMARY KEY, payload TEXT)")
        client.run(f"INSERT INTO {name} (id, payload) VALUES (?, ?)", ("x", "untouched"))
    if "alembic_version" in described["tables"] and "alembic_version" not in without:
        for version in described["alembic_version"]:
            client.run("INSERT INTO alembic_version (version_num) VALUES (?)", (version,))
    if rows:
        for name in OWN_TABLES:
            if name not in without:
                fill(client, shape, name)


def _create(
    engine: str, name: str, table: Any, without: tuple[str, ...], *, zoned: bool
) -> list[str]:
    parts = []
    for column in table["columns"]:
        words = [column["name"], _type(engine, name, column, zoned=zoned)]
        if column["default"] is not None:
            words.append(f"DEFAULT {column['default']}")
        if column["notnull"]:
            words.append("NOT NULL")
        parts.append(" ".join(words))
    key = [c["name"] for c in sorted(table["columns"], key=lambda c: c["pk"]) if c["pk"]]
    parts.append(f"PRIMARY KEY ({', '.join(key)})")
    later = []
    for index in table["indexes"]:
        columns = ", ".join(index["columns"])
        if index["name"] in without or index["origin"] == "pk":
            continue
        if index["origin"] == "u":
            parts.append(f"CONSTRAINT {index['name']} UNIQUE ({columns})")
        else:
            unique = "UNIQUE " if index["unique"] else ""
            where = f" WHERE {index['where']}" if index["where"] else ""
            later.append(f"CREATE {unique}INDEX {index['name']} ON {name} ({columns}){where}")
    return [f"CREATE TABLE {name} ({', '.join(parts)})", *later]


def _type(engine: str, table: str, column: Any, *, zoned: bool) -> str:
    if engine == "sqlite":
        return str(column["type"])
    if (table, column["name"]) == ("run_events", "id"):
        return "SERIAL"
    if column["type"] == "DATETIME":
        return "TIMESTAMP WITH TIME ZONE" if zoned else "TIMESTAMP"
    return str(column["type"])


def at(engine: str, text: str) -> str:
    """A UTC time as DeerFlow's driver stored it."""
    return f"2026-05-01 {text}.123456" + ("+00" if engine == "postgres" else "")


BIG = 2**70


def rows_of(engine: str, shape: str, table: str) -> list[dict[str, Any]]:
    """The rows that a table of this shape gets."""
    nan = "NaN" if engine == "sqlite" else "1.5"
    columns = {column["name"] for column in SHAPES[shape]["tables"][table]["columns"]}
    made = {
        "users": _users,
        "runs": _runs,
        "run_events": _events,
        "threads_meta": _threads,
        "feedback": _feedback,
    }[table](engine, shape, nan)
    return [{name: value for name, value in row.items() if name in columns} for row in made]


def fill(client: Client, shape: str, table: str) -> None:
    """Insert the rows of one table."""
    for row in rows_of(client.engine, shape, table):
        marks = ", ".join("?" for _ in row)
        client.run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def _users(engine: str, shape: str, nan: str) -> list[dict[str, Any]]:
    def user(key: str, email: str, time: str, **more: Any) -> dict[str, Any]:
        return {
            "id": key,
            "email": email,
            "password_hash": None,
            "system_role": "user",
            "created_at": at(engine, time),
            "oauth_provider": None,
            "oauth_id": None,
            "needs_setup": False,
            "token_version": 0,
            **more,
        }

    return [
        user("u-mixed", "Mixed.Case@Example.ORG", "08:00:00", system_role="admin"),
        user("u-twin-old", "Twin@example.org", "08:01:00"),
        user("u-twin-new", "twin@EXAMPLE.org", "08:02:00", oauth_provider="x", oauth_id="1"),
    ]


def run_row(
    engine: str, run_id: str, thread_id: str, status: str, time: str, **more: Any
) -> dict[str, Any]:
    """A run as DeerFlow inserts it."""
    counts = (
        "message_count",
        "total_input_tokens",
        "total_output_tokens",
        "total_tokens",
        "llm_call_count",
        "lead_agent_tokens",
        "subagent_tokens",
        "middleware_tokens",
    )
    return {
        "run_id": run_id,
        "thread_id": thread_id,
        "assistant_id": None,
        "user_id": None,
        "status": status,
        "model_name": None,
        "multitask_strategy": "reject",
        "metadata_json": "{}",
        "kwargs_json": "{}",
        "error": None,
        **dict.fromkeys(counts, 0),
        "first_human_message": None,
        "last_ai_message": None,
        "token_usage_by_model": "{}",
        "follow_up_to_run_id": None,
        "created_at": at(engine, time),
        "updated_at": at(engine, time),
        "operation_kind": "run",
        **more,
    }


def _runs(engine: str, shape: str, nan: str) -> list[dict[str, Any]]:
    rows = [
        run_row(
            engine,
            "r1",
            "t1",
            "success",
            "10:00:00",
            user_id="u1",
            total_tokens=12,
            total_input_tokens=5,
            total_output_tokens=7,
            model_name="m",
            kwargs_json="null",
            metadata_json=json.dumps({"big": BIG}),
        ),
        run_row(engine, "r2", "t1", "running", "10:01:00", metadata_json="null"),
        run_row(engine, "r3", "t1", "running", "10:02:00", error=None),
        run_row(
            engine,
            "r4",
            "t1",
            "pending",
            "10:03:00",
            kwargs_json=f'{{"temperature": {nan}}}',
            token_usage_by_model="null",
        ),
        run_row(engine, "r5", "t2", "pending", "10:03:00", user_id="u1"),
        run_row(engine, "r6", "t3", "error", "10:04:00", error="boom" * 20_000),
    ]
    if shape == "E":
        # The shape with an index that allows one active run per thread.
        rows = [row for row in rows if row["run_id"] not in ("r2", "r3")]
    return rows


def _events(engine: str, shape: str, nan: str) -> list[dict[str, Any]]:
    def event(seq: int, content: str, metadata: Any, **more: Any) -> dict[str, Any]:
        return {
            "thread_id": "t1",
            "run_id": "r1",
            "user_id": None,
            "event_type": "llm.ai.response",
            "category": "message",
            "content": content,
            "event_metadata": metadata if isinstance(metadata, str) else json.dumps(metadata),
            "seq": seq,
            "created_at": at(engine, f"10:00:0{seq}"),
            **more,
        }

    return [
        event(1, "plain words", {"caller": "lead_agent"}, event_type="llm.human.input"),
        event(
            2, '{"type": "ai", "content": "hi"}', {"content_is_json": True, "content_is_dict": True}
        ),
        event(3, "[1, 2]", {"content_is_json": True}),
        event(4, '{"looks": "like json"}', {"n": BIG}, user_id="u1"),
        event(5, "trace", f'{{"score": {nan}}}', category="trace"),
        event(6, "no metadata", "null"),
    ]


def _threads(engine: str, shape: str, nan: str) -> list[dict[str, Any]]:
    def thread(key: str, metadata: str, time: str, **more: Any) -> dict[str, Any]:
        return {
            "thread_id": key,
            "assistant_id": None,
            "user_id": None,
            "display_name": None,
            "status": "idle",
            "metadata_json": metadata,
            "created_at": at(engine, time),
            "updated_at": at(engine, time),
            **more,
        }

    long = "é" * (400 if engine == "sqlite" else 256)
    return [
        thread(
            "t1",
            json.dumps({"deerflow_pinned": True, "colour": "blue", "big": BIG}),
            "09:00:00",
            user_id="u1",
        ),
        thread("t2", f'{{"score": {nan}, "colour": "blue"}}', "09:01:00"),
        thread("t3", "null", "09:02:00", display_name=long),
        thread("t4", "[1, 2]", "09:03:00", status="interrupted"),
    ]


def _feedback(engine: str, shape: str, nan: str) -> list[dict[str, Any]]:
    def feedback(key: str, time: str, **more: Any) -> dict[str, Any]:
        return {
            "feedback_id": key,
            "run_id": "r1",
            "thread_id": "t1",
            "user_id": None,
            "message_id": None,
            "rating": 1,
            "comment": None,
            "created_at": at(engine, time),
            **more,
        }

    return [
        feedback("f1", "11:00:00"),
        feedback("f2", "11:02:00", rating=-1, comment="later"),
        feedback("f3", "11:01:00"),
        feedback("f4", "11:03:00", user_id="u1"),
        feedback("f5", "11:03:00", run_id="r6", thread_id="t3"),
    ]


def contents(client: Client, shape: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of DeerFlow's tables, in the columns that the shape has."""
    found = {}
    for name, table in SHAPES[shape]["tables"].items():
        columns = ", ".join(
            f"CAST({c['name']} AS TEXT)"
            if c["type"] == "JSON" and client.engine == "postgres"
            else c["name"]
            for c in table["columns"]
        )
        key = next(c["name"] for c in table["columns"] if c["pk"])
        found[name] = client.run(f"SELECT {columns} FROM {name} ORDER BY {key}")
    for name in SHAPES[shape]["other_tables"]:
        found[name] = client.run(f"SELECT id, payload FROM {name} ORDER BY id")
    return found
