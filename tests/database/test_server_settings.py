"""The same short contract on servers whose administrator has changed what a new session inherits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, make_url

import jdbcstore
from jdbcstore import Message
from jdbcstore.database.adapters.mysql import MysqlAdapter
from jdbcstore.errors import StoreError, StoreUnavailable
from tests.support.backends import Backend
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database
from tests.support.pool import memory
from tests.support.require import unavailable
from tests.support.servers import Server, ServerMissing
from tests.support.servers.settings import failure_with

pytestmark = [pytest.mark.slow, pytest.mark.servers]

MYSQL_SETTINGS = (
    "completion_type=CHAIN",
    "autocommit=0",
    "sql_safe_updates=1",
    "max_join_size=1; sql_big_selects=0",
    "sql_select_limit=2",
    "sql_quote_show_create=0",
    "transaction_isolation=SERIALIZABLE; foreign_key_checks=0; unique_checks=0; low_priority_updates=1",
    "time_zone='+12:45'; sql_auto_is_null=1; group_concat_max_len=4; default_storage_engine=MyISAM",
    "init_connect='SET NAMES latin1'; collation_connection=latin1_swedish_ci; old_alter_table=1",
    "auto_increment_increment=3; auto_increment_offset=2; lock_wait_timeout=1; innodb_lock_wait_timeout=1",
    "tmp_table_size=1024; max_heap_table_size=16384; net_write_timeout=5; net_read_timeout=5",
    "sql_mode=''",
    "sql_mode='ANSI,HIGH_NOT_PRECEDENCE,NO_AUTO_VALUE_ON_ZERO,NO_UNSIGNED_SUBTRACTION'",
    "sql_mode='NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
    "sql_mode='TRADITIONAL,ONLY_FULL_GROUP_BY'",
)
ONLY_MYSQL_SETTINGS = ("sql_require_primary_key=1; sql_generate_invisible_primary_key=1",)
ONLY_MARIADB_SETTINGS = ("sql_mode='ORACLE,EMPTY_STRING_IS_NULL'; idle_transaction_timeout=5; big_tables=1",)
POSTGRESQL_SETTINGS = (
    "default_transaction_isolation=serializable; default_transaction_deferrable=on",
    "timezone='Europe/Berlin'; datestyle='German, DMY'; intervalstyle=sql_standard",
    "bytea_output=escape; extra_float_digits=-15; xmloption=document",
    "standard_conforming_strings=off; escape_string_warning=on; backslash_quote=off",
    "quote_all_identifiers=on; transform_null_equals=on; array_nulls=off",
    "client_encoding=latin1; lc_messages='C'; client_min_messages=debug1",
    "search_path=nothing, public",
    "statement_timeout=30000; lock_timeout=1; idle_in_transaction_session_timeout=1000",
    "enable_indexscan=off; plan_cache_mode=force_generic_plan; row_security=off",
)
"""Settings of one configuration are separated by ``; ``."""
PASSWORDS = ("p\u00e4ssword", "p\u20acss", "\u043f\u0430\u0440\u043e\u043b\u044c", "a:b@/?&+%x")


def _failures(
    server: Server, backend: Backend, changes: Mapping[str, tuple[list[str], list[str]]]
) -> list[str]:
    """Run the short contract on a new database after each change; return what failed."""
    failed = []
    for name, (change, undo) in changes.items():
        database = backend.database(backend.private_url(server))
        error = failure_with(server, database, change, undo)
        if error is not None:
            failed.append(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:250]}")
    return failed


@pytest.mark.backends("mariadb", "mysql")
def test_what_a_new_session_inherits_from_mysql(server: Server, backend: Backend) -> None:
    changes = {}
    if backend.id == "mysql":
        settings: tuple[str, ...] = (*MYSQL_SETTINGS, *ONLY_MYSQL_SETTINGS)
    else:
        settings = (
            *(one.replace("transaction_iso", "tx_iso") for one in MYSQL_SETTINGS),
            *ONLY_MARIADB_SETTINGS,
        )
    for configuration in settings:
        parts = configuration.split("; ")
        undo = [f"SET GLOBAL {name} = {_default(server, name)}" for name in map(_name, parts)]
        changes[configuration] = ([f"SET GLOBAL {part}" for part in parts], undo)
    assert not (failed := _failures(server, backend, changes)), "\n".join(failed)


@pytest.mark.backends("postgresql")
def test_what_a_new_session_inherits_from_postgresql(server: Server, backend: Backend) -> None:
    role, changes = f"ALTER ROLE {server.username}", {}
    for configuration in POSTGRESQL_SETTINGS:
        parts = configuration.split("; ")
        do = [f"{role} SET {part.replace('=', ' = ', 1)}" for part in parts]
        changes[configuration] = (do, [f"{role} RESET ALL"])
    assert not (failed := _failures(server, backend, changes)), "\n".join(failed)


def _name(setting: str) -> str:
    return setting.partition("=")[0]


def _default(server: Server, name: str) -> str:
    engine = create_engine(server.administrator_url, poolclass=NullPool)
    with engine.connect() as connection:
        value = connection.exec_driver_sql(f"SELECT @@GLOBAL.{name}").scalar()
    return str(value) if isinstance(value, int) else f"'{value}'"


@pytest.mark.backends("mariadb", "mysql")
@pytest.mark.parametrize("moment", ["2026-10-24T23:59:59", "2026-10-25T00:30:00", "2026-10-25T01:00:01"])
def test_the_clock_does_not_jump_when_daylight_saving_ends(
    backend: Backend, moment: str, zoned: Server
) -> None:
    """At 01:00 UTC clocks in Berlin go back from 03:00 to 02:00."""
    seconds = datetime.fromisoformat(f"{moment}+00:00").timestamp()
    with create_engine(backend.private_url(zoned), poolclass=NullPool).connect() as connection:
        connection.exec_driver_sql(f"SET timestamp = {seconds:.0f}.25")
        now_ms = connection.exec_driver_sql(f"SELECT {MysqlAdapter.now_ms}").scalar()
    assert now_ms == int(seconds * 1000) + 250


@pytest.fixture
def zoned(backend: Backend) -> Iterator[Server]:
    """A server on a machine with a local time."""
    kind: type[Server] = type("Zoned", (backend.private or Server,), {"zone": "Europe/Berlin"})
    try:
        server = kind(memory())
    except ServerMissing as missing:
        unavailable(backend.id, str(missing))
    yield server
    server.close()


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_what_a_server_refuses_is_named(server: Server, backend: Backend, tmp_path: Path) -> None:
    """In one test, because each changes a whole server."""
    database = backend.database(backend.private_url(server))
    with jdbcstore.open(database.url) as store:
        store.queue("ORDERS").add_message(Message("one"))
    _only_reads(server, database, tmp_path)
    _few_connections(server, database)
    if backend.id == "mysql":
        server.execute_as_administrator("SET GLOBAL binlog_format = STATEMENT")
        with pytest.raises(StoreError, match="set binlog_format = ROW or MIXED"):
            _add(database)


def _only_reads(server: Server, database: Database, tmp_path: Path) -> None:
    """As a provider makes a server whose disk is nearly full: what is stored is still read."""
    if server.name == "postgresql":
        switch = "ALTER SYSTEM SET default_transaction_read_only = {}; SELECT pg_reload_conf()"
    else:
        # Its users have the right to write although read_only is set.
        switch = f"SET GLOBAL {'tx' if server.name == 'mariadb' else 'transaction'}_read_only = {{}}"
    server.execute_as_administrator(*switch.format("on").split("; "))
    with pytest.raises(StoreUnavailable, match=r"^cannot use .*the server accepts only reads"):
        _add(database)
    status = CommandLine(tmp_path, database.url).run("status")
    assert (status.code, "ORDERS" in status.out) == (0, True), status
    server.execute_as_administrator(*switch.format("off").split("; "))


def _few_connections(server: Server, database: Database) -> None:
    if server.name == "postgresql":
        limit, none = f"ALTER ROLE {server.username} CONNECTION LIMIT {{}}", (0, -1)
    else:
        limit, none = f"ALTER USER {server.username}@'%' WITH MAX_USER_CONNECTIONS {{}}", (1, 0)
    with database.engine.connect():
        server.execute_as_administrator(limit.format(none[0]))
        with pytest.raises(StoreUnavailable, match=r"^cannot use .*the server accepts no more connections"):
            _add(database)
        server.execute_as_administrator(limit.format(none[1]))


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_passwords_beyond_ascii(server: Server, backend: Backend) -> None:
    for number, password in enumerate(PASSWORDS):
        name, address = f"user{number}", backend.private_url(server)
        quoted = password.replace(":", "\\:")
        if backend.id == "postgresql":
            server.execute_as_administrator(f"CREATE ROLE {name} SUPERUSER LOGIN PASSWORD '{quoted}'")
        else:
            server.execute_as_administrator(
                f"CREATE USER {name}@'%' IDENTIFIED BY '{quoted}'", f"GRANT ALL ON *.* TO {name}@'%'"
            )
        database = backend.database(address)
        url = make_url(database.url).set(username=name, password=password)
        with jdbcstore.open(url.render_as_string(hide_password=False)) as store:
            store.queue("ORDERS").add_message(Message("one"))
            assert [message.body for message in store.queue("ORDERS").recover()] == ["one"]


def _add(database: Database) -> None:
    with jdbcstore.open(database.url, reconnect_timeout=0.5) as store:
        store.queue("ORDERS").add_message(Message("two"))
