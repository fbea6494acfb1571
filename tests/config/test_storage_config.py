"""StorageConfig: what is accepted, what holds afterwards, and that no password gets out."""

from __future__ import annotations

import copy
import json
import logging
import os
import pickle
import traceback
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from deerstore.config import (
    AppConfig,
    DatabaseConfig,
    StorageConfig,
    load_config,
    storage_config_from_database_config,
)
from deerstore.errors import ConfigError


def test_every_field_says_what_it_is_and_what_holds_without_it():
    for model in (StorageConfig, DatabaseConfig, AppConfig):
        for name, field in model.model_fields.items():
            assert field.description, name
            assert "Default:" in field.description, name
            assert not field.is_required(), name
            if name.endswith("_timeout"):
                assert "econds" in field.description, name


def test_defaults():
    config = StorageConfig()
    assert config.driver == "sqlite"
    assert config.sqlite_file == "deerflow.db"
    assert (config.pool_size, config.acquire_timeout, config.command_timeout) == (5, 30, 30)
    assert (config.busy_timeout, config.echo_sql, config.postgres_schema) == (30, False, "")


@pytest.mark.parametrize(
    ("driver", "name", "port"),
    [
        ("sqlite", "sqlite", None),
        ("postgres", "postgres", 5432),
        ("postgresql", "postgres", 5432),
        ("mysql", "mysql", 3306),
    ],
)
def test_the_default_port_follows_the_driver(driver, name, port):
    config = StorageConfig(driver=driver)
    assert (config.engine, config.port) == (name, port)
    if port is not None:
        assert StorageConfig(driver=driver, port=9).port == 9


def test_a_configuration_cannot_be_changed():
    config = StorageConfig()
    with pytest.raises(ValidationError):
        config.pool_size = 9


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"driver": "memory"}, "durable storage has no memory mode"),
        ({"driver": "postgre"}, "did you mean 'postgres'?"),
        ({"driver": None, "pool_sise": 3}, "no field 'pool_sise'; did you mean 'pool_size'?"),
        ({"pasword": "x"}, "did you mean 'password'?"),
        ({"pool_size": 0}, "pool_size"),
        ({"acquire_timeout": 0}, "acquire_timeout"),
        ({"port": 70000}, "port"),
        ({"sqlite_file": ":memory:"}, "durable storage has no memory mode"),
        ({"database_url": "sqlite:///:memory:"}, "durable storage has no memory mode"),
        ({"database_url": "sqlite:///"}, "names no file"),
        ({"database_url": "mysql://u@h"}, "names no database"),
        ({"driver": "mysql", "postgres_schema": "s"}, "postgres_schema cannot be used with mysql"),
        ({"driver": "mysql", "host": "a,b"}, "several hosts"),
        ({"driver": "postgres", "db_name": ""}, "db_name must not be empty"),
        ({"sqlite_synchronous": "OFF"}, "sqlite_synchronous"),
    ],
)
def test_a_mistake_is_named(fields, message):
    with pytest.raises(ConfigError) as refused:
        StorageConfig(**fields)
    assert message in str(refused.value)


def test_the_url_wins_and_the_parts_fill_what_it_leaves_out():
    config = StorageConfig(
        driver="sqlite",
        database_url="mysql://url_user@url_host/url_db",
        username="part_user",
        password="part_password",
        host="part_host",
        port=3307,
        db_name="part_db",
    )
    assert config.driver == "mysql"
    assert (config.username, config.host, config.db_name) == ("url_user", "url_host", "url_db")
    kwargs = config.targets.aiomysql_kwargs()
    assert (kwargs["password"], kwargs["port"]) == ("part_password", 3307)
    assert StorageConfig(database_url="mysql://h", db_name="d").db_name == "d"


def test_the_parts_alone_are_enough():
    config = StorageConfig(
        driver="postgres", username="u", password="p:/@", host="::1", db_name="d"
    )
    kwargs = config.targets.asyncpg_kwargs()
    assert (kwargs["user"], kwargs["password"]) == ("u", "p:/@")
    assert (kwargs["host"], kwargs["port"], kwargs["database"]) == (["::1"], [5432], "d")
    assert config.location == "postgres://[::1]:5432/d"
    socket = StorageConfig(driver="mysql", host="/run/mysqld/mysqld.sock").targets
    assert socket.aiomysql_kwargs()["unix_socket"] == "/run/mysqld/mysqld.sock"


def test_a_relative_sqlite_path_does_not_follow_a_later_change_of_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    by_url = StorageConfig(database_url="sqlite:///data/x.db")
    by_parts = StorageConfig(sqlite_dir="data", sqlite_file="x.db")
    monkeypatch.chdir("/")
    for config in (by_url, by_parts):
        assert config.targets.sqlite_path() == str(tmp_path / "data" / "x.db") == config.location


def test_a_dumped_configuration_makes_the_same_one_again():
    for config in (
        StorageConfig(database_url="postgresql://u:p@a:1,b:2/d?sslmode=require"),
        StorageConfig(driver="mysql", username="u", password="p", host="h", port=1),
        StorageConfig(database_url="sqlite:////tmp/x.db", pool_size=2),
    ):
        again = StorageConfig(**config.model_dump())
        assert again == config
        assert again.targets == config.targets
        assert pickle.loads(pickle.dumps(config)).targets == config.targets
        assert copy.deepcopy(config).targets == config.targets


SECRET = "s3cr3t-w0rd"
WITH_PASSWORD: list[dict[str, Any]] = [
    {"driver": "postgres", "password": SECRET},
    {"database_url": f"postgresql://u:{SECRET}@h/d"},
    {"database_url": f"mysql://h/d?password={SECRET}&user=u"},
]


@pytest.mark.parametrize("fields", WITH_PASSWORD)
def test_the_password_is_in_no_text_made_of_the_configuration(fields, caplog):
    config = StorageConfig(**fields)
    app = AppConfig(storage=config)
    for thing in (config, app, config.model_dump(), config.targets, [config], config.__dict__):
        for text in (repr(thing), str(thing), f"{thing}", f"{thing!r}"):
            assert SECRET not in text
    assert SECRET not in config.model_dump_json()
    assert SECRET not in json.dumps(config.model_dump(mode="json"))
    assert SECRET not in config.location
    with caplog.at_level(logging.INFO):
        logging.getLogger("test").info("using %s and %r", config, config)
    assert SECRET not in caplog.text
    assert config.targets.url.password == SECRET


@pytest.mark.parametrize(
    "fields",
    [
        {"driver": "postgres", "password": [SECRET]},
        {"driver": SECRET},
        {"pool_size": SECRET},
        {"database_url": f"postgresql://u:{SECRET}@h:{SECRET}/d"},
        {"database_url": f"postgresql://u:{SECRET}@h/d?sslmode={SECRET}"},
        {"database_url": f"postgresql://u:{SECRET}@h/d", "pool_sise": SECRET},
        {"database_url": f"postgresql://u:{SECRET}@h", "pool_size": 1},
        {"database_url": SECRET},
        {"password": SECRET, "port": -1},
    ],
)
def test_no_refusal_shows_a_value(fields):
    for make in (StorageConfig, StorageConfig.model_validate):
        with pytest.raises(ConfigError) as refused:
            make(**fields) if make is StorageConfig else make(fields)
        # The class of a caller's own value aside, nothing of pydantic's error is chained.
        shown = "".join(traceback.format_exception_only(refused.value))
        assert SECRET not in shown + repr(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__context__ is None


def test_an_app_configuration_refuses_a_storage_section_without_showing_it():
    with pytest.raises(ConfigError) as refused:
        AppConfig(storage={"driver": "postgres", "password": SECRET, "pool_sise": 1})
    assert SECRET not in str(refused.value)
    assert "did you mean 'pool_size'?" in str(refused.value)


# -- the older shape -------------------------------------------------------------------------------


def test_the_older_database_shape_in_every_form():
    url = "postgresql+asyncpg://u:p@h:6/d"
    for shape in (
        {"backend": "postgres", "postgres_url": url, "echo_sql": True, "pool_size": 7},
        DatabaseConfig(backend="postgres", postgres_url=url, echo_sql=True, pool_size=7),
        SimpleNamespace(backend="postgres", postgres_url=url, echo_sql=True, pool_size=7),
    ):
        config = storage_config_from_database_config(shape)
        assert (config.driver, config.echo_sql, config.pool_size) == ("postgres", True, 7)
        assert config.targets.asyncpg_kwargs()["port"] == [6]
    sqlite = storage_config_from_database_config({"backend": "sqlite", "sqlite_dir": "/x"})
    assert sqlite.targets.sqlite_path() == "/x/deerflow.db"
    assert storage_config_from_database_config(DatabaseConfig()).driver == "sqlite"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({}, "database.backend is missing"),
        ({"backend": "memory"}, "'memory' is unsupported"),
        ({"backend": "mysql"}, "'mysql' is unsupported"),
        ({"backend": "postgres"}, "database.postgres_url is missing"),
        ({"backend": "postgres", "postgres_url": ""}, "database.postgres_url is missing"),
        ({"backend": "postgres", "postgres_url": "mysql://u:s3cret@h/d"}, "a URL of mysql"),
        ({"backend": "postgres", "postgres_url": "postgresql://u:s3cret@h:x/d"}, "port"),
    ],
)
def test_the_older_shape_says_what_is_missing_or_unsupported(shape, message):
    with pytest.raises(ConfigError) as refused:
        storage_config_from_database_config(shape)
    assert message in str(refused.value)
    assert "s3cret" not in str(refused.value)


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)

    def write(text: str, name: str = "config.yaml") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def test_the_path_given_comes_before_the_variable_before_the_working_directory(write, monkeypatch):
    write("storage: {sqlite_file: here.db}")
    named = write("storage: {sqlite_file: named.db}", "named.yaml")
    given = write("storage: {sqlite_file: given.db}", "given.yaml")
    assert load_config().storage.sqlite_file == "here.db"
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", named)
    assert load_config().storage.sqlite_file == "named.db"
    assert load_config(given).storage.sqlite_file == "given.db"


def test_a_missing_file_is_named_with_where_it_was_looked_for(write, monkeypatch):
    with pytest.raises(ConfigError, match=r"config\.yaml .*DEER_FLOW_CONFIG_PATH is not set"):
        load_config()
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", "/no/such.yaml")
    with pytest.raises(ConfigError, match=r"/no/such\.yaml \(named by DEER_FLOW_CONFIG_PATH\)"):
        load_config()


def test_variables_are_resolved_in_the_section_that_is_read(write, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "$p:w")
    monkeypatch.setenv("DB_POOL", "9")
    write(
        "models: [{api_key: $NOT_SET_ANYWHERE}]\n"
        "storage:\n  driver: postgres\n  password: $DB_PASSWORD\n  pool_size: $DB_POOL\n"
        "  username:\n  command_timeout: null\n"
    )
    config = load_config().storage
    assert config.targets.url.password == "$p:w"
    assert (config.pool_size, config.username, config.command_timeout) == (9, None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("storage: {password: $DB_UNSET_X}", "storage.password .*DB_UNSET_X, which is not set"),
        ("database: {backend: $DB_UNSET_X}", "database.backend .*DB_UNSET_X, which is not set"),
        ("storage: {password: $s3cret-word!}", "storage.password starts with"),
        ("models: []", "neither a storage: nor a database: section"),
        ("", "neither a storage: nor a database: section"),
        ("storage: [s3cret]", "section storage: must be a mapping"),
        ("- s3cret", "must hold a mapping"),
        ("storage: {password: 's3cret", r"not YAML at line 1, column \d+"),
        ("storage: {driver: memory}", "no memory mode"),
        ("storage: {}\ntimezone: Mars/Base", "not the name of a time zone"),
    ],
)
def test_a_wrong_file_is_refused_without_showing_its_values(write, text, message):
    write(text)
    with pytest.raises(ConfigError, match=message) as refused:
        load_config()
    assert "s3cret" not in str(refused.value)
    assert refused.value.__context__ is None


def test_the_storage_section_holds_where_both_are_given(write):
    write("storage: {sqlite_file: new.db}\ndatabase: {backend: memory}")
    assert load_config().storage.sqlite_file == "new.db"
    write("database: {backend: sqlite, sqlite_dir: old, unknown_key: 1}\ntimezone: Asia/Shanghai")
    config = load_config()
    assert config.storage.location == os.path.join(os.getcwd(), "old", "deerflow.db")
    assert config.timezone == "Asia/Shanghai"
