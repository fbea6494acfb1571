"""One database URL, taken apart once for every driver.

The drivers read URLs differently (aiomysql decodes nothing, yoyo decodes only the password,
asyncpg sends what it does not know to the server), so none of them ever sees the user's text:
:func:`parse_url` splits and decodes it, and :mod:`deerstore.config.targets` builds each driver's
form.

Everything outside the separators may be percent-encoded. No error repeats a part of the URL that
could belong to a password.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, NoReturn
from urllib.parse import unquote, unquote_plus

from deerstore.errors import ConfigError

__all__ = ["DEFAULT_PORTS", "DatabaseURL", "Engine", "MySQLDriver", "parse_url", "redact_url"]

Engine = Literal["sqlite", "postgres", "mysql"]
MySQLDriver = Literal["aiomysql", "asyncmy"]

DEFAULT_PORTS: Mapping[str, int] = MappingProxyType({"postgres": 5432, "mysql": 3306})

_SCHEMES: Mapping[str, tuple[Engine, MySQLDriver]] = {
    "sqlite": ("sqlite", "aiomysql"),
    "sqlite+aiosqlite": ("sqlite", "aiomysql"),
    "postgres": ("postgres", "aiomysql"),
    "postgresql": ("postgres", "aiomysql"),
    "postgresql+asyncpg": ("postgres", "aiomysql"),
    "postgresql+psycopg": ("postgres", "aiomysql"),
    "mysql": ("mysql", "aiomysql"),
    "mariadb": ("mysql", "aiomysql"),
    "mysql+aiomysql": ("mysql", "aiomysql"),
    "mariadb+aiomysql": ("mysql", "aiomysql"),
    "mysql+asyncmy": ("mysql", "asyncmy"),
    "mariadb+asyncmy": ("mysql", "asyncmy"),
}

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SESSION_ATTRS = ("any", "primary", "standby", "prefer-standby", "read-write", "read-only")
_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"0", "false", "no", "off"})

# An option under several spellings, by the name it has inside deerstore.
_COMMON_OPTIONS = {
    "sslmode": "sslmode",
    "ssl": "sslmode",
    "connect_timeout": "connect_timeout",
    "application_name": "application_name",
}
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "sqlite": {},
    "postgres": {
        **_COMMON_OPTIONS,
        **{
            name: name
            for name in (
                "options",
                "target_session_attrs",
                "passfile",
                "sslrootcert",
                "sslcert",
                "sslkey",
                "sslpassword",
                "sslcrl",
                "sslnegotiation",
                "ssl_min_protocol_version",
                "ssl_max_protocol_version",
                "channel_binding",
                "keepalives",
                "keepalives_idle",
                "keepalives_interval",
                "keepalives_count",
                "tcp_user_timeout",
            )
        },
        "client_encoding": "charset",
    },
    "mysql": {
        **_COMMON_OPTIONS,
        "ssl_mode": "sslmode",
        "ssl-mode": "sslmode",
        "ssl_ca": "sslrootcert",
        "ssl_cert": "sslcert",
        "ssl_key": "sslkey",
        "sslrootcert": "sslrootcert",
        "sslcert": "sslcert",
        "sslkey": "sslkey",
        "program_name": "application_name",
        "charset": "charset",
    },
}
# Options that say where and as whom to connect, as libpq and the MySQL clients spell them.
_PLACES: Mapping[str, Mapping[str, str]] = {
    "sqlite": {},
    "postgres": {
        "host": "host",
        "port": "port",
        "user": "user",
        "password": "password",
        "dbname": "dbname",
    },
    "mysql": {"unix_socket": "host", "user": "user", "password": "password"},
}
_ESCAPING = (
    "in a user name or a password the characters @ : / ? # % must be URL-escaped (@ is written %40)"
)


@dataclass(frozen=True, slots=True)
class DatabaseURL:
    """Where a database is and how to connect to it, decoded.

    ``hosts`` are pairs of host and port; a host that starts with ``/`` is a unix socket (on
    PostgreSQL its directory, on MySQL the socket itself) and a port of ``None`` means that none
    was given. ``options`` hold only names that deerstore gives to at least one driver, each with a
    checked value. ``database`` is the file's path on SQLite.
    """

    engine: Engine
    database: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    hosts: tuple[tuple[str, int | None], ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    mysql_driver: MySQLDriver = "aiomysql"

    @property
    def sslmode(self) -> str | None:
        """The mode of TLS in libpq's words, ``None`` when the URL does not say."""
        return self.options.get("sslmode")

    @property
    def connect_timeout(self) -> float | None:
        """Seconds to wait for a connection; 0 for ever; ``None`` when the URL does not say."""
        value = self.options.get("connect_timeout")
        return None if value is None else float(value)


def parse_url(text: str) -> DatabaseURL:
    """Take a database URL apart.

    Raises :class:`~deerstore.errors.ConfigError` for an unknown scheme, an option that no driver
    knows, and whatever cannot be read unambiguously.
    """
    scheme, separator, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if not separator or not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
        _refuse("is not a URL; write it like postgresql://user:password@host:5432/database")
    if scheme not in _SCHEMES:
        near = difflib.get_close_matches(scheme, _SCHEMES, n=1)
        hint = f"; did you mean {near[0]}://?" if near else f"; known are {', '.join(_SCHEMES)}"
        _refuse(f"has the unknown scheme {scheme}://{hint}")
    engine, mysql_driver = _SCHEMES[scheme]
    if engine == "sqlite":
        return _parse_sqlite(rest)

    place, _, query = rest.partition("?")
    authority, _, path = place.partition("/")
    if "@" not in authority and "@" in rest:
        # Most likely an unescaped password was cut in two: nothing of it may be shown.
        _refuse(f"cannot be read: {_ESCAPING}")
    userinfo, at, hostlist = authority.rpartition("@")
    user, colon, password = userinfo.partition(":")
    url = DatabaseURL(
        engine=engine,
        mysql_driver=mysql_driver,
        username=(_decode(user) or None) if at else None,
        password=_decode(password) if colon else None,
        database=_decode(path) or None,
        hosts=_parse_hosts(hostlist),
    )
    return _apply_options(url, _parse_query(query, engine))


def redact_url(text: str) -> str:
    """The URL with the password, and every option that may hold one, replaced by ``***``."""
    try:
        parse_url(text)
    except ConfigError:
        # Where the password ends in a broken URL nobody can say.
        return "***"
    scheme, _, rest = text.partition("://")
    place, question, query = rest.partition("?")
    userinfo, at, tail = place.rpartition("@")
    user, colon, _ = userinfo.partition(":")
    secret = ":***" if colon else ""
    return f"{scheme}://{user}{secret}{at}{tail}{question}{_masked(query)}"


def _masked(query: str) -> str:
    return re.sub(r"((?:^|&)[^=&]*pass[^=&]*=)[^&]*", r"\1***", query, flags=re.IGNORECASE)


def _refuse(why: str) -> NoReturn:
    raise ConfigError(f"database_url {why}")


def _decode(text: str, *, plus: bool = False) -> str:
    try:
        value = (unquote_plus if plus else unquote)(text, errors="strict")
    except UnicodeDecodeError:
        value = "\0"  # raised below: the codec's own error would carry the bytes
    if "\0" in value or re.search("[\ud800-\udfff]", value):
        _refuse("holds an escape that is not UTF-8, or U+0000")
    return value


def _parse_sqlite(rest: str) -> DatabaseURL:
    if not rest.startswith("/"):
        _refuse("must have three slashes for a file: sqlite:///data/deerflow.db")
    path, question, query = rest[1:].partition("?")
    if question and query:
        name = query.partition("=")[0].partition("&")[0]
        _refuse(f"has the option {name!r}, which no driver of sqlite knows")
    return DatabaseURL(engine="sqlite", database=_decode(path) or None)


def _parse_hosts(text: str) -> tuple[tuple[str, int | None], ...]:
    if not text:
        return ()
    return tuple(_parse_host(part) for part in text.split(","))


def _parse_host(text: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"\[([^\]]+)\](?::(.*))?", text) or re.fullmatch(
        r"([^:\[\]]*)(?::([^:]*))?", text
    )
    if match is None:
        _refuse(f"has a host that cannot be read; write IPv6 as [::1]; {_ESCAPING}")
    host, port = match.groups()
    return _decode(host) or "localhost", _port(port) if port else None


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or not 0 < int(text) < 65536:
        _refuse(f"has a port that is not a number from 1 to 65535; {_ESCAPING}")
    return int(text)


def _parse_query(query: str, engine: Engine) -> list[tuple[str, str, str]]:
    """The options as (spelling, name inside deerstore, value)."""
    known = {**_OPTIONS[engine], **_PLACES[engine]}
    options: list[tuple[str, str, str]] = []
    for pair in filter(None, query.split("&")):
        raw, _, value = pair.partition("=")
        spelling = _decode(raw, plus=True)
        name = known.get(spelling)
        if name is None:
            near = difflib.get_close_matches(spelling, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            _refuse(f"has the option {spelling!r}, which no driver of {engine} knows{hint}")
        if name != "host" and any(name == other for _, other, _ in options):
            _refuse(f"gives the option {spelling!r} twice")
        options.append((spelling, name, _decode(value, plus=True)))
    return options


def _apply_options(url: DatabaseURL, given: list[tuple[str, str, str]]) -> DatabaseURL:
    options: dict[str, str] = {}
    hosts: list[tuple[str, int | None]] = []
    ports: list[int] = []
    for spelling, name, value in given:
        if name == "host":
            hosts += _query_hosts(value)
        elif name == "port":
            ports = [_port(part) for part in value.split(",")]
        elif name == "user":
            url = replace(url, username=value)
        elif name == "password":
            url = replace(url, password=value)
        elif name == "dbname":
            url = replace(url, database=value)
        elif name == "charset":
            if value.lower().replace("-", "") not in ("utf8", "utf8mb4"):
                _refuse(f"sets {spelling}, but deerstore always speaks UTF-8 (utf8mb4)")
        else:
            options[name] = _checked(spelling, name, value)
    if hosts:
        url = replace(url, hosts=tuple(hosts))
    if ports:
        url = replace(url, hosts=_with_ports(url.hosts or (("localhost", None),), ports))
    if url.engine == "mysql" and len(url.hosts) > 1:
        _refuse("names several hosts, which the MySQL drivers cannot do")
    return replace(url, options=options)


def _query_hosts(value: str) -> list[tuple[str, int | None]]:
    """Hosts from the query, where a socket's path and an IPv6 address may stand as they are."""

    def is_bare(part: str) -> bool:
        return part.startswith("/") or (part.count(":") > 1 and not part.startswith("["))

    return [(part, None) if is_bare(part) else _parse_host(part) for part in value.split(",")]


def _with_ports(
    hosts: tuple[tuple[str, int | None], ...], ports: list[int]
) -> tuple[tuple[str, int | None], ...]:
    if len(ports) == 1:
        ports = ports * len(hosts)
    if len(ports) != len(hosts):
        _refuse(f"names {len(hosts)} hosts but {len(ports)} ports")
    return tuple((host, own or port) for (host, own), port in zip(hosts, ports, strict=True))


def _checked(spelling: str, name: str, value: str) -> str:
    if name == "sslmode":
        return _ssl_mode(spelling, value)
    if name == "connect_timeout" and not re.fullmatch(r"[0-9]{1,8}(\.[0-9]+)?", value):
        _refuse(f"has a {spelling} that is not a number of seconds")
    if name == "target_session_attrs" and value not in _SESSION_ATTRS:
        _refuse(f"has a {spelling} that is not one of: {', '.join(_SESSION_ATTRS)}")
    return value


def _ssl_mode(spelling: str, value: str) -> str:
    mode = value.lower().replace("_", "-")
    # MySQL's own words for the same thing.
    mode = {
        "disabled": "disable",
        "preferred": "prefer",
        "required": "require",
        "verify-identity": "verify-full",
    }.get(mode, mode)
    if spelling == "ssl":
        mode = "require" if mode in _ON else "disable" if mode in _OFF else mode
    if mode not in SSL_MODES:
        _refuse(f"has a {spelling} that is not one of: {', '.join(SSL_MODES)}")
    return mode
