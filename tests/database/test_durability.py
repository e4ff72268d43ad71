"""Settings with which a crash loses acknowledged messages are named, with the statement that helps."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore import JdbcStore, Message, StoreConfig
from jdbcstore.testing.polling import wait_until
from jdbcstore.util.checkup import WARNING, Durability
from tests.support.backends import Backend
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database
from tests.support.servers import Server, ServerMissing
from tests.support.servers.replica import MariadbPair

_WAIT = 60.0
_RELOAD = "SELECT pg_reload_conf()"


@pytest.fixture
def store(url: str) -> Iterator[JdbcStore]:
    with JdbcStore(url, StoreConfig(cleanup_period=0.0)) as store:
        yield store


def _durability(store: JdbcStore) -> Durability:
    found = store.durability()
    assert found is not None
    return found


def _risks(store: JdbcStore) -> list[str]:
    return [one.name for one in _durability(store).risks]


def _wait_for(store: JdbcStore, risks: list[str]) -> None:
    wait_until(lambda: _risks(store) == risks, _WAIT, f"the risks {risks}")


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_a_server_with_its_own_defaults_has_no_risk(store: JdbcStore, url: str, tmp_path: Path) -> None:
    found = _durability(store)
    assert found.risks == ()
    assert "survive a crash" in found.survives
    assert store.examine().survives == found.survives
    command = CommandLine(tmp_path, url)
    assert f"durable  {found.survives}" in command.run("status").out
    assert found.survives in command.run("doctor").out


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.backends("postgresql")
def test_settings_of_postgresql(server: Server, backend: Backend, tmp_path: Path) -> None:
    """In one test, because each changes a whole server."""
    database = backend.database(backend.private_url(server))
    with JdbcStore(database.url, StoreConfig(cleanup_period=0.0)) as store, contextlib.ExitStack() as undone:
        undone.callback(server.execute_as_administrator, "ALTER SYSTEM RESET ALL", _RELOAD)
        for setting in ("fsync", "full_page_writes"):
            name = setting.replace("_", " ")
            server.execute_as_administrator(f"ALTER SYSTEM SET {setting} = off", _RELOAD)
            _wait_for(store, [name])
            [one] = [one for one in store.examine().diagnoses if one.name == name]
            assert (one.severity, one.cause) == (WARNING, f"the setting {setting} = off")
            _is_shown(database, tmp_path, name, one.text)
            server.execute_as_administrator(*one.cure.split("; "))
            _wait_for(store, [])
        # The store's own sessions do not inherit it.
        server.execute_as_administrator("ALTER SYSTEM SET synchronous_commit = off", _RELOAD)
        server.execute_as_administrator("ALTER SYSTEM SET synchronous_standby_names = 'standby_b'", _RELOAD)
        wait_until(lambda: "COMMIT waits for standby_b" in _durability(store).survives, _WAIT, "the standby")
        assert _risks(store) == []


def _is_shown(database: Database, folder: Path, name: str, text: str) -> None:
    command = CommandLine(folder, database.url)
    assert f"warning  {text}" in command.run("status").out
    assert json.loads(command.run("status", "--json").out)["risks"] != []
    doctor = command.run("doctor")
    assert doctor.code == 9
    assert f"warning: {name}" in doctor.out


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.backends("mariadb", "mysql")
def test_settings_of_innodb(server: Server, backend: Backend, tmp_path: Path) -> None:
    """In one test, because each changes a whole server."""
    database = backend.database(backend.private_url(server))
    settings = ["innodb_flush_log_at_trx_commit"]
    if backend.id == "mysql":  # MariaDB's binary log is off
        settings.append("sync_binlog")
    with JdbcStore(database.url, StoreConfig(cleanup_period=0.0)) as store:
        for setting in settings:
            name = setting.replace("_", " ")
            server.execute_as_administrator(f"SET GLOBAL {setting} = 0")
            assert _risks(store) == [name]
            [one] = [one for one in store.examine().diagnoses if one.name == name]
            assert (one.severity, one.cause) == (WARNING, f"the setting {setting} = 0")
            _is_shown(database, tmp_path, name, one.text)
            server.execute_as_administrator(one.cure)
            assert _risks(store) == []


@pytest.mark.slow
@pytest.mark.servers
def test_semi_synchronous_replication() -> None:
    try:
        servers = MariadbPair()
    except ServerMissing as missing:
        pytest.skip(str(missing))
    with contextlib.closing(servers), JdbcStore(servers.url, StoreConfig(cleanup_period=0.0)) as store:
        one, other = servers.first, servers.other
        one.execute_as_administrator("SET GLOBAL sync_binlog = 1")
        assert "COMMIT waits for no replica" in _durability(store).survives
        other.execute_as_administrator("SET GLOBAL rpl_semi_sync_slave_enabled = 1", "STOP SLAVE")
        one.execute_as_administrator(
            "SET GLOBAL rpl_semi_sync_master_timeout = 100", "SET GLOBAL rpl_semi_sync_master_enabled = 1"
        )
        other.execute_as_administrator("START SLAVE")
        wait_until(lambda: "COMMIT waits for a replica" in _durability(store).survives, _WAIT, "the replica")
        assert _risks(store) == []
        other.execute_as_administrator("STOP SLAVE")
        store.queue("Q").add_message(Message("after the timeout"))
        assert _risks(store) == ["semi-synchronous replication off"]
        assert "COMMIT waits for none now" in _durability(store).survives
