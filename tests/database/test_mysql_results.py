"""Results read in chunks, beside the driver's own reading of the same answers."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import aiomysql
import pytest
from aiomysql import connection as driver_module

from deerstore.config import StorageConfig
from deerstore.database import mysql_results
from deerstore.database.mysql_drivers import driver_named
from tests.database.proxy import Proxy

pytestmark = pytest.mark.engines("mysql", why="aiomysql is MySQL's driver")

CHUNKS = (1, 2, 3, 5, 7, 64, 1000, 1 << 18)
SIZES = (0, 1, 249, 250, 251, 252, 255, 256, 1023, 65534, 65535, 65536, 65537, 300_000)


class Pair:
    """Two connections alike; the second reads as the driver does."""

    def __init__(self, chunked: Any, plain: Any) -> None:
        self.chunked = chunked
        self.plain = plain

    async def same(self, sql: str, times: int = 1) -> list[Any]:
        """Ask both, the one several times, and give what both have answered."""
        (*_, expected) = [await answers(self.plain, sql) for _ in range(times)]
        for _ in range(times):
            found = await answers(self.chunked, sql)
            assert repr(found) == repr(expected)
        assert self.chunked._ahead == b""
        return expected

    async def same_failure(self, sql: str) -> tuple[type[Exception], int]:
        """The same for a statement that fails."""
        failures = [await failure(raw, sql) for raw in (self.plain, self.chunked)]
        assert failures[0] == failures[1]
        assert self.plain.closed == self.chunked.closed
        return failures[0]


async def answers(raw: Any, sql: str) -> list[Any]:
    """Everything that a caller can see of a statement's results."""
    seen = []
    cursor = await raw.cursor()
    raw.statement = re.sub(r"\d+", "?", sql)
    await cursor.execute(sql)
    while True:
        result = raw._result
        seen.append(
            (
                *(cursor.description, await cursor.fetchall(), cursor.rowcount, cursor.lastrowid),
                *(result.warning_count, result.has_next, result.message, result.server_status),
                *(raw._next_seq_id, raw.server_status, raw.affected_rows(), raw.insert_id()),
                [vars(field) for field in getattr(result, "fields", ())],
            )
        )
        if not await cursor.nextset():
            return seen


async def failure(raw: Any, sql: str) -> tuple[type[Exception], int]:
    with pytest.raises(aiomysql.Error) as caught:
        await answers(raw, sql)
    return type(caught.value), caught.value.args[0]


Connect = Callable[..., Any]


@pytest.fixture
async def connect(storage_url: str) -> AsyncIterator[Connect]:
    """Connections with deerstore's settings."""
    opened = []

    async def connect(*, chunked: bool | None = True, url: str = storage_url) -> Any:
        kwargs = StorageConfig(database_url=url).targets.aiomysql_kwargs()
        raw = await driver_named("aiomysql").connect(kwargs)
        opened.append(raw)
        if chunked is not None:
            assert raw._chunked
            raw._chunked = chunked
        return raw

    yield connect
    for raw in opened:
        raw.close()
    await asyncio.sleep(0)


@pytest.fixture
async def pair(connect: Connect) -> Pair:
    return Pair(await connect(), await connect(chunked=False))


@pytest.fixture(params=CHUNKS)
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many bytes one read takes."""
    monkeypatch.setattr(mysql_results, "_CHUNK", request.param)
    return request.param


COLUMNS = {
    "flag TINYINT(1)": lambda r: r.randint(0, 1),
    "tiny TINYINT": lambda r: r.randint(-128, 127),
    "small SMALLINT UNSIGNED": lambda r: r.randint(0, 65535),
    "medium MEDIUMINT": lambda r: r.randint(-(2**23), 2**23 - 1),
    "whole INT": lambda r: r.randint(-(2**31), 2**31 - 1),
    "padded INT(8) ZEROFILL": lambda r: r.randint(0, 99),
    "big BIGINT UNSIGNED": lambda r: r.randint(0, 2**64 - 1),
    "single FLOAT": lambda r: r.uniform(-1e10, 1e10),
    "twofold DOUBLE": lambda r: r.choice((0.0, 1e-300, 1.5, r.uniform(-1e300, 1e300))),
    "exact DECIMAL(30,10)": lambda r: f"{r.randint(-(10**18), 10**18)}.{r.randint(0, 10**9)}",
    "entire DECIMAL(40,0)": lambda r: str(r.randint(-(10**39), 10**39)),
    "bit1 BIT(1)": lambda r: r.randint(0, 1),
    "bit64 BIT(64)": lambda r: r.randint(0, 2**64 - 1),
    "day DATE": lambda r: f"{r.randint(1000, 9999)}-0{r.randint(1, 9)}-1{r.randint(0, 9)}",
    "span TIME(6)": lambda r: f"{r.randint(-838, 838)}:15:59.{r.randint(0, 999999):06}",
    "moment DATETIME(6)": lambda r: f"{r.randint(1, 9999):04}-02-03 04:05:06.{r.randint(0, 99)}",
    "second DATETIME": lambda r: f"{r.randint(1000, 9999)}-02-03 04:05:06",
    "stamp TIMESTAMP(6) NULL": lambda r: f"{r.randint(1971, 2037)}-12-31 23:59:59.5",
    "season YEAR": lambda r: r.randint(1901, 2155),
    "fixed CHAR(20)": lambda r: text(r, 20),
    "short VARCHAR(255)": lambda r: text(r, 255),
    "swedish VARCHAR(50) CHARACTER SET latin1": lambda r: "åäö"[: r.randint(0, 3)] + "x",
    "small_text TINYTEXT": lambda r: text(r, 60),
    "plain TEXT": lambda r: text(r, 400),
    "long_text LONGTEXT": lambda r: text(r, 20_000 if r.random() < 0.1 else 300),
    "raw BINARY(5)": lambda r: r.randbytes(r.randint(0, 5)),
    "varied VARBINARY(300)": lambda r: r.randbytes(r.randint(0, 300)),
    "blob_ BLOB": lambda r: r.randbytes(r.choice((0, 250, 251, 252, 1000))),
    "large LONGBLOB": lambda r: r.randbytes(r.randint(0, 70_000) if r.random() < 0.1 else 3),
    "one ENUM('a','ü')": lambda r: r.choice("aü"),
    "some SET('a','b')": lambda r: r.choice(("", "a", "a,b")),
    "doc JSON": lambda r: '{"a": [1, "ü"]}',
    "place POINT": lambda r: None,
}


def text(r: random.Random, most: int) -> str:
    alphabet = r.choice(("ab c'\\%", "aü→😀\u0000\n", "\u0800x"))
    return "".join(r.choices(alphabet, k=r.choice((0, 1, most // 2, most)))).rstrip()


async def filled(raw: Any, rows: int, seed: int) -> None:
    """A table of every type, with values, NULLs and zero dates in it."""
    r = random.Random(seed)
    cursor = await raw.cursor()
    await cursor.execute("SET sql_mode = ''")
    await cursor.execute(f"CREATE TABLE kinds (n INT PRIMARY KEY, {', '.join(COLUMNS)})")
    for number in range(rows):
        values = [None if r.random() < 0.2 else make(r) for make in COLUMNS.values()]
        marks = ", ".join("%s" for _ in values)
        await cursor.execute(f"INSERT INTO kinds VALUES (%s, {marks})", (number, *values))
    await cursor.execute(
        "INSERT INTO kinds (n, day, moment, second, stamp, span, place) VALUES "
        "(%s, '0000-00-00', '0000-00-00', '0000-00-00 00:00:00', '0000-00-00', '-00:00:00.1', "
        "POINT(1, 2))",
        (rows,),
    )


async def test_every_type_is_read_as_the_driver_reads_it(pair: Pair, chunk: int):
    await filled(pair.plain, rows=60, seed=chunk)
    ((description, rows, *_),) = await pair.same("SELECT * FROM kinds ORDER BY n", times=3)
    assert len(rows) == 61
    assert len(description) == len(COLUMNS) + 1
    await pair.same("SELECT * FROM kinds WHERE n < 0", times=2)
    await pair.same("SELECT * FROM kinds WHERE n = 7", times=2)


@pytest.mark.parametrize("size", SIZES)
async def test_values_of_every_length_are_read(pair: Pair, size: int, chunk: int):
    if size > 70_000 and chunk < 64:
        pytest.skip("byte by byte it takes too long")
    sql = f"SELECT REPEAT('x', {size}), NULL, '', REPEAT('ü', {size}), 1, CAST('é' AS BINARY)"
    await pair.same(sql, times=2)


@pytest.mark.parametrize("beyond", [-1, 0, 1, 5_000_000])
async def test_rows_around_the_size_of_a_packet_are_read(pair: Pair, beyond: int):
    # Two values with lengths of four bytes in front of them; and a row that follows.
    half = (0xFFFFFF + beyond) // 2
    rest = 0xFFFFFF + beyond - half - 8
    ((_, rows, *_),) = await pair.same(
        f"SELECT REPEAT('x', {half}), REPEAT('y', {rest}) UNION ALL SELECT 'a', 'b'"
    )
    assert [len(value) for row in rows for value in row] == [half, rest, 1, 1]


async def test_many_rows_wrap_the_numbers_of_packets(pair: Pair, chunk: int):
    ((_, rows, *_),) = await pair.same(
        "WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 800) "
        "SELECT n, IF(n % 3, NULL, REPEAT('z', n)) FROM t",
        times=2,
    )
    assert len(rows) == 800


async def test_several_results_are_read_one_after_the_other(pair: Pair, chunk: int):
    cursor = await pair.plain.cursor()
    await cursor.execute(
        "CREATE PROCEDURE three() BEGIN SELECT 1 AS a UNION ALL SELECT 2; SELECT 'b' AS b; "
        "DO 1; SELECT NULL AS c WHERE FALSE; END"
    )
    assert len(await pair.same("CALL three()", times=2)) == 4
    # The next statement does not wait until somebody has read the rest.
    unread = await pair.chunked.cursor()
    await unread.execute("CALL three()")
    await pair.same("SELECT 5")
    await unread.execute("CALL three()")
    streaming = await pair.chunked.cursor(aiomysql.SSCursor)
    await streaming.execute("SELECT 6 UNION ALL SELECT 7")
    assert list(await streaming.fetchall()) == [(6,), (7,)]
    await streaming.close()
    await pair.same("SELECT 8")


async def test_what_is_no_result_is_read(pair: Pair, chunk: int):
    await pair.same("DO 1")
    await pair.same("CREATE TEMPORARY TABLE t (n INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(2))")
    await pair.same("INSERT INTO t (s) VALUES ('a'), ('b')")
    await pair.same("UPDATE t SET s = 'c'")
    await pair.same("BEGIN")
    await pair.same("SELECT * FROM t")
    await pair.same("COMMIT")
    await pair.same("SELECT * FROM t")
    ((_, _, _, _, warnings, *_),) = await pair.same("SELECT CAST('x' AS SIGNED)", times=2)
    assert warnings == 1


async def test_errors_are_the_drivers(pair: Pair, chunk: int):
    assert await pair.same_failure("SELECT nothing") == (aiomysql.OperationalError, 1054)
    assert (await pair.same_failure("SELEC 1"))[1] == 1064
    await pair.same("SELECT 1")


MANY = "WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 900) "


async def test_an_error_after_some_rows_is_the_drivers(pair: Pair, chunk: int):
    # The rows before it fill the server's buffer several times.
    sql = f"{MANY}SELECT IF(n < 800, REPEAT('x', 999), (SELECT 1 UNION SELECT n)) FROM t"
    assert (await pair.same_failure(sql))[1] == 1242
    await pair.same("SELECT 1")
    assert (await pair.same_failure(sql))[1] == 1242


async def test_a_statement_that_is_killed_after_some_rows_fails_as_before(
    pair: Pair, connect: Connect
):
    killer = await connect()

    async def kill(raw: Any, what: str) -> None:
        await asyncio.sleep(0.1)
        await (await killer.cursor()).execute(f"KILL {what} {raw.thread_id()}")

    sql = f"{MANY}SELECT REPEAT('x', 9999), IF(n < 100, 0, SLEEP(0.05)) FROM t"
    for what in ("QUERY", "CONNECTION"):
        failures = []
        for raw in (pair.plain, pair.chunked):
            found, _ = await asyncio.gather(failure(raw, sql), kill(raw, what))
            failures.append((*found, raw.closed))
        assert failures[0] == failures[1]
        if what == "QUERY":
            await pair.same("SELECT 1")


@pytest.mark.parametrize("rows", [0, 50], ids=["before the first row", "between rows"])
async def test_a_connection_cut_while_it_is_read_is_lost(
    connect: Connect, storage_url: str, rows: int
):
    sql = f"{MANY}SELECT REPEAT('x', 9999), IF(n < {rows}, 0, SLEEP(0.1)) FROM t"
    async with Proxy(storage_url) as proxy:
        pair = Pair(*[await connect(url=proxy.url, chunked=each) for each in (True, False)])
        both = asyncio.gather(*(failure(raw, sql) for raw in (pair.plain, pair.chunked)))
        await asyncio.sleep(0.2)
        proxy.cut()
        assert set(await both) == {(aiomysql.OperationalError, 2013)}
        assert pair.chunked.closed


@pytest.mark.parametrize("rows", [0, 50], ids=["before the first row", "between rows"])
async def test_a_cancelled_reader_has_closed_its_connection(
    pair: Pair, connect: Connect, rows: int
):
    sql = f"{MANY}SELECT REPEAT('x', 9999), IF(n < {rows}, 0, SLEEP(0.1)) FROM t"
    killer = await (await connect()).cursor()
    for raw in (pair.plain, pair.chunked):
        reading = asyncio.ensure_future(answers(raw, sql))
        await asyncio.sleep(0.2)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert raw.closed
        with pytest.raises(aiomysql.InterfaceError, match="Cancelled during execution"):
            await raw.begin()
        with suppress(aiomysql.Error):
            await killer.execute(f"KILL {raw.thread_id()}")


@pytest.fixture
def definitions(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The column definitions that the driver has parsed."""
    parsed: list[bytes] = []

    class Counted(driver_module.FieldDescriptorPacket):
        def __init__(self, data: bytes, encoding: str) -> None:
            parsed.append(data)
            super().__init__(data, encoding)

    monkeypatch.setattr(driver_module, "FieldDescriptorPacket", Counted)
    return parsed


async def test_columns_are_understood_once_per_statement(
    pair: Pair, definitions: list[bytes], chunk: int
):
    await filled(pair.plain, rows=3, seed=1)
    for number in range(3):
        await answers(pair.chunked, f"SELECT * FROM kinds WHERE n = {number}")
        assert len(definitions) == len(COLUMNS) + 1
    await answers(pair.chunked, "BEGIN")
    await answers(pair.chunked, "SELECT * FROM kinds WHERE n = 1")
    assert len(definitions) == len(COLUMNS) + 1


async def test_columns_that_have_changed_are_understood_anew(pair: Pair, chunk: int):
    await answers(pair.plain, "CREATE TABLE t (a INT, b VARCHAR(10))")
    await answers(pair.plain, "INSERT INTO t VALUES (1, '2')")
    sql = "SELECT * FROM t"
    ((_, before, *_),) = await pair.same(sql, times=2)
    assert before == ((1, "2"),)
    for change, row in (
        ("MODIFY b INT", (1, 2)),
        ("MODIFY b VARBINARY(10)", (1, b"2")),
        ("ADD c INT", (1, b"2", None)),
        ("DROP a, DROP b", (None,)),
    ):
        await answers(pair.plain, f"ALTER TABLE t {change}")
        ((_, after, *_),) = await pair.same(sql, times=2)
        assert after == (row,)
    # One statement's text may have columns as its values are.
    for value in (1, 10**15, 1, 10**15):
        await pair.same(f"SELECT {value}, REPEAT('x', {value % 9})")


async def test_no_more_statements_are_remembered_than_there_is_room(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mysql_results, "_LAYOUTS", 2)
    for name in "abcab":
        await pair.same(f"SELECT 1 AS {name}")
        assert len(pair.chunked.layouts) <= 2


@pytest.mark.parametrize("names", ["_METHODS", "_STATE", "_OF_RESULTS"])
async def test_another_release_of_the_driver_reads_its_own_way(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, names: str
):
    monkeypatch.setattr(mysql_results, names, ("_renamed",))
    raw = await connect(chunked=None)
    assert not raw._chunked
    ((_, rows, *_),) = await answers(raw, "SELECT 1, 'a'")
    assert rows == ((1, "a"),)
    assert raw.layouts == {}


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_procedures_further_results_and_errors_are_its_own(
    connect: Connect, chunked: bool
) -> None:
    raw = await connect()
    raw._chunked = chunked
    cursor, driver = await raw.cursor(), driver_named("aiomysql")
    await cursor.execute(
        "CREATE PROCEDURE several(fails INT) BEGIN SELECT 1; SELECT 2, 3; "
        "IF fails THEN SELECT (SELECT 4 UNION SELECT 5); END IF; SELECT 6; END"
    )
    for number in range(3):
        await driver.execute(raw, cursor, "CALL several(%s)", (0,))
        assert await cursor.fetchall() in ([(1,)], ((1,),))
        with pytest.raises(aiomysql.Error, match="1242"):
            await driver.execute(raw, cursor, "CALL several(%s)", (1,))
        await driver.execute(raw, cursor, "SELECT %s", (number,))
        assert await cursor.fetchall() in ([(number,)], ((number,),))
