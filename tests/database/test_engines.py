"""The server of a store is named, and refused if its engine cannot keep the store's promises."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

import jdbcstore
from jdbcstore import JdbcStore, Message
from jdbcstore.errors import ConfigurationError
from tests.support.backends import Backend
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database
from tests.support.servers import MariadbServer, ServerMissing

ENGINES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mariadb": "MariaDB", "mysql": "MySQL"}


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_the_server_is_named(
    url: str, backend: Backend, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jdbcstore.database.engine")
    with JdbcStore(url) as store:
        store.queue("Q").add_message(Message("one"))
        server = store.server
        assert server is not None
        assert store.examine().server == server
    assert (server.engine, server.is_tested) == (ENGINES[backend.id], True)
    assert server.role == (None if backend.id == "sqlite" else "primary")
    [line] = [one for one in caplog.records if one.name == "jdbcstore.database.engine"]
    assert line.getMessage().endswith(f": {server}")
    command = CommandLine(tmp_path, url)
    assert f"server   {server}" in command.run("status").out
    status = json.loads(command.run("status", "--json").out)
    assert (status["server"]["engine"], status["server"]["text"]) == (server.engine, str(server))
    doctor = [json.loads(one) for one in command.run("doctor", "--json").out.splitlines()]
    assert doctor[0]["found"].endswith(f": {server}")
    assert [one["server"]["engine"] for one in doctor if "server" in one] == [server.engine]


@pytest.fixture
def named(database: Database) -> Callable[[str], str]:
    """Lets the server name itself otherwise; returns the URL."""

    def named(version: str) -> str:
        database.execute("CREATE SCHEMA IF NOT EXISTS disguise")
        body = f"RETURNS text LANGUAGE sql AS $$ SELECT '{version}' $$"
        database.execute(f"CREATE OR REPLACE FUNCTION disguise.version() {body}")
        database.execute(f'ALTER DATABASE "{database.name}" SET search_path = disguise, pg_catalog')
        return database.url

    return named


@pytest.mark.backends("postgresql")
@pytest.mark.new_database
def test_an_engine_is_refused(named: Callable[[str], str]) -> None:
    with pytest.raises(ConfigurationError, match=r"^CockroachDB is not supported: .* xmin and ctid"):
        jdbcstore.open(named("CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu, built 2024/05/15)"))


@pytest.mark.backends("postgresql")
@pytest.mark.new_database
def test_an_unknown_engine_is_a_warning(
    named: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    with JdbcStore(named("StrangeDB 3.1 on x86_64, compiled by gcc")) as store:
        assert store.server is not None
        assert store.server.engine == "StrangeDB 3.1"
        assert not store.server.is_tested
    [warning] = [one for one in caplog.records if one.name == "jdbcstore.database.engine"]
    assert "StrangeDB 3.1" in warning.getMessage()


class _Disguised(MariadbServer):
    """A MariaDB that names itself TiDB once it is started again."""

    is_disguised = False

    def _options(self, data: Path) -> list[str]:
        names = ["--version=8.0.11-TiDB-v8.5.0"] if self.is_disguised else []
        return [*super()._options(data), *names]

    def _answers(self) -> bool:
        if not self.is_disguised:
            return super()._answers()
        with suppress(pymysql.Error):  # SQLAlchemy would ask what only MySQL knows
            return self.rows("SELECT 1") == [(1,)]
        return False


@pytest.fixture(scope="module")
def tidb() -> Iterator[MariadbServer]:
    try:
        server = _Disguised()
    except ServerMissing as missing:
        pytest.skip(str(missing))
    server.is_disguised = True
    server.restart()
    yield server
    server.close()


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_tidb_is_refused(tidb: MariadbServer, scheme: str) -> None:
    url = tidb.url.set(drivername=f"{scheme}+pymysql").render_as_string(hide_password=False)
    with pytest.raises(ConfigurationError, match=r"^TiDB is not supported: .* locks no row"):
        jdbcstore.open(url)
