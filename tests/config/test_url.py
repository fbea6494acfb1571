"""One URL, taken apart: every accepted form, and refusals that never show a password."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerstore.config.url import parse_url, redact_url
from deerstore.errors import ConfigError


@pytest.mark.parametrize(
    ("scheme", "name", "mysql_driver"),
    [
        ("postgres", "postgres", "aiomysql"),
        ("postgresql", "postgres", "aiomysql"),
        ("postgresql+asyncpg", "postgres", "aiomysql"),
        ("PostgreSQL", "postgres", "aiomysql"),
        ("mysql", "mysql", "aiomysql"),
        ("mariadb", "mysql", "aiomysql"),
        ("mysql+aiomysql", "mysql", "aiomysql"),
        ("mysql+asyncmy", "mysql", "asyncmy"),
    ],
)
def test_the_scheme_chooses_the_engine_and_the_mysql_driver(scheme, name, mysql_driver):
    url = parse_url(f"{scheme}://u:p@h:99/d")
    assert (url.engine, url.mysql_driver) == (name, mysql_driver)
    assert (url.username, url.password, url.hosts, url.database) == ("u", "p", (("h", 99),), "d")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:///data/deerflow.db", "data/deerflow.db"),
        ("sqlite:////var/lib/deer%20flow.db", "/var/lib/deer flow.db"),
        ("sqlite:///odd%3Fname%23.db", "odd?name#.db"),
        ("sqlite:///with#hash.db", "with#hash.db"),
    ],
)
def test_a_sqlite_url_names_a_file(text, path):
    assert parse_url(text).database == path


@pytest.mark.parametrize(
    ("place", "hosts"),
    [
        ("h", (("h", None),)),
        ("h:1", (("h", 1),)),
        ("[::1]", (("::1", None),)),
        ("[fe80::1%25eth0]:7", (("fe80::1%eth0", 7),)),
        ("%2Frun%2Fpostgresql", (("/run/postgresql", None),)),
        ("%2Frun%2Fpostgresql:6000", (("/run/postgresql", 6000),)),
        ("a:1,b,[::1]:3", (("a", 1), ("b", None), ("::1", 3))),
        ("", ()),
    ],
)
def test_hosts_of_a_postgres_url(place, hosts):
    assert parse_url(f"postgresql://u@{place}/d").hosts == hosts


@pytest.mark.parametrize(
    ("query", "hosts"),
    [
        ("host=/run/postgresql", (("/run/postgresql", None),)),
        ("host=/run/postgresql&port=6000", (("/run/postgresql", 6000),)),
        ("host=a&host=b:2", (("a", None), ("b", 2))),
        ("host=a,b&port=1,2", (("a", 1), ("b", 2))),
        ("host=::1", (("::1", None),)),
        ("host=a,b&port=9", (("a", 9), ("b", 9))),
    ],
)
def test_hosts_in_the_query_of_a_postgres_url(query, hosts):
    assert parse_url(f"postgresql:///d?{query}").hosts == hosts


def test_a_mysql_socket_may_stand_in_the_query_or_as_the_host():
    for text in (
        "mysql://u@localhost/d?unix_socket=/run/mysqld/mysqld.sock",
        "mysql://u@%2Frun%2Fmysqld%2Fmysqld.sock/d",
    ):
        assert parse_url(text).hosts == (("/run/mysqld/mysqld.sock", None),)


def test_options_that_people_use_are_read():
    url = parse_url(
        "postgresql://h/d?sslmode=verify-full&sslrootcert=/ca.pem&connect_timeout=7"
        "&application_name=deer+flow&options=-c%20statement_timeout%3D5s"
        "&target_session_attrs=read-write&client_encoding=utf8"
    )
    assert url.options == {
        "sslmode": "verify-full",
        "sslrootcert": "/ca.pem",
        "connect_timeout": "7",
        "application_name": "deer flow",
        "options": "-c statement_timeout=5s",
        "target_session_attrs": "read-write",
    }
    assert url.connect_timeout == 7
    assert parse_url("mysql://h/d?charset=utf8mb4&ssl=true").options == {"sslmode": "require"}
    assert parse_url("mysql://h/d?ssl_mode=VERIFY_IDENTITY").sslmode == "verify-full"
    assert parse_url("postgresql://h/d?ssl=off").sslmode == "disable"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deerflow.db", "is not a URL"),
        ("oracle://h/d", "unknown scheme oracle://"),
        ("postgrsql://h/d", "did you mean postgres"),
        ("sqlite://data.db", "three slashes"),
        ("sqlite:///d.db?mode=ro", "option 'mode', which no driver of sqlite knows"),
        ("postgresql://h/d?ssl_mod=require", "option 'ssl_mod', which no driver of postgres knows"),
        ("postgresql://h/d?sslmod=require", "did you mean sslmode?"),
        ("mysql://h/d?options=x", "option 'options', which no driver of mysql knows"),
        ("postgresql://h/d?charset=utf8", "option 'charset', which no driver of postgres knows"),
        ("mysql://h/d?charset=latin1", "always speaks UTF-8"),
        ("postgresql://h/d?sslmode=maybe", "sslmode that is not one of: disable"),
        ("postgresql://h/d?connect_timeout=soon", "not a number of seconds"),
        ("postgresql://h/d?target_session_attrs=any,one", "not one of: any, primary"),
        ("postgresql://h/d?sslmode=require&sslmode=disable", "'sslmode' twice"),
        ("postgresql://h:0/d", "port that is not a number from 1 to 65535"),
        ("postgresql://h:65536/d", "port that is not a number from 1 to 65535"),
        ("postgresql:///d?host=a,b&port=1,2,3", "2 hosts but 3 ports"),
        ("mysql://a,b/d", "several hosts"),
        ("postgresql://::1/d", "write IPv6 as [::1]"),
        ("postgresql://u:%FF@h/d", "not UTF-8"),
        ("postgresql://u:%00@h/d", "U+0000"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(text, message):
    with pytest.raises(ConfigError) as refused:
        parse_url(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:s3cret/tail@h/d",
        "postgresql://u:s3cret?tail@h/d",
        "postgresql://u:s3cret?tail=1&x@h/d",
        "mysql://u:12/s3cret@h/d",
        "postgresql://s3cret:s3cret:s3cret/d",
        "postgresql://u:s3cret@h:s3cret/d",
        "postgresql://u:s3cret%FF@h/d",
        "u:s3cret@h/d",
    ],
)
def test_a_refusal_never_shows_a_piece_of_the_password(text):
    with pytest.raises(ConfigError) as refused:
        parse_url(text)
    assert "s3cret" not in str(refused.value)
    assert refused.value.__context__ is None or "s3cret" not in str(refused.value.__context__)
    assert "s3cret" not in redact_url(text)


@given(
    user=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
    password=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    name=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
)
def test_every_character_survives_when_it_is_escaped(user, password, name):
    text = f"mysql://{quote(user, safe='')}:{quote(password, safe='')}@h/{quote(name, safe='')}"
    url = parse_url(text)
    assert (url.username, url.password, url.database) == (user, password, name)
    assert repr(password) == "''" or f"password={password!r}" not in repr(url)


def test_a_redacted_url_keeps_what_is_not_secret():
    assert redact_url("mysql://u:p@h:1/d?ssl=1") == "mysql://u:***@h:1/d?ssl=1"
    assert redact_url("postgresql:///d?password=p&sslpassword=q&sslmode=require") == (
        "postgresql:///d?password=***&sslpassword=***&sslmode=require"
    )
    assert redact_url("sqlite:///data/deerflow.db") == "sqlite:///data/deerflow.db"
