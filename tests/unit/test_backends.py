"""The test infrastructure itself: what a fixture promises, kept on every backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from jdbcstore.testing.polling import wait_until
from tests.support import docker
from tests.support.backends import BACKENDS, Backend
from tests.support.databases import Database
from tests.support.pool import ServerPool
from tests.support.servers import MysqlServer, Server, ServerMissing, mysql

CREATE = "CREATE TABLE t (a INTEGER)"


def test_database_is_empty_and_keeps_what_is_committed(database: Database) -> None:
    database.execute(CREATE)
    database.execute("INSERT INTO t VALUES (:a)", a=7)

    assert database.rows("SELECT a FROM t") == [(7,)]


def test_databases_do_not_see_each_other(database: Database) -> None:
    # As the test before: it would find the other's table.
    database.execute(CREATE)


def test_connections_counts_those_of_others(database: Database) -> None:
    engine = create_engine(database.url)
    with engine.connect(), database.engine.connect():
        assert database.connections() >= 1

    engine.dispose()
    wait_until(lambda: database.connections() == 0)


def test_jdbc_url_has_no_password(database: Database) -> None:
    assert database.jdbc_url.startswith("jdbc:")
    assert str(database.password) not in database.jdbc_url


@pytest.mark.parametrize("end", [pytest.param("stop", marks=pytest.mark.whole), "kill"])
def test_server_keeps_committed_rows(server: Server, database: Database, end: str) -> None:
    database.execute(CREATE)
    database.execute("INSERT INTO t VALUES (7)")

    getattr(server, end)()
    assert server.pid is None
    server.start()

    assert database.rows("SELECT a FROM t") == [(7,)]


MYSQL = replace(next(backend for backend in BACKENDS if backend.id == "mysql"), private=None)
"""Where MySQL is not unpacked, and has no other server either."""


def no_docker() -> None:
    raise AssertionError("docker is not asked")


@pytest.mark.backends("postgresql", "mariadb", "mariadb-pyodbc", "mysql")
def test_url_variable_comes_first(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(backend.variable, f"{backend.scheme}://user:secret@db.example/test")

    assert ServerPool().address(backend, no_docker).host == "db.example"


def test_backend_without_server_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JDBCSTORE_REQUIRE", raising=False)
    monkeypatch.delenv(MYSQL.variable, raising=False)
    monkeypatch.setattr(docker, "missing", lambda: "no docker here")

    with pytest.raises(pytest.skip.Exception, match="JDBCSTORE_TEST_MYSQL_URL is not set"):
        ServerPool().address(MYSQL, no_docker)


def test_required_backend_without_server_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDBCSTORE_REQUIRE", "sqlite, mysql")
    monkeypatch.delenv(MYSQL.variable, raising=False)
    monkeypatch.setattr(docker, "missing", lambda: "no docker here")

    with pytest.raises(pytest.fail.Exception, match="no docker here"):
        ServerPool().address(MYSQL, no_docker)


def test_a_mysql_that_could_not_be_unpacked_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "why").write_text("apt cannot see sid\n")
    monkeypatch.setattr(mysql, "UNPACKED", tmp_path)
    monkeypatch.setattr(mysql, "REASON", tmp_path / "why")

    with pytest.raises(ServerMissing, match="apt cannot see sid"):
        MysqlServer()


def test_service_that_docker_cannot_start_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JDBCSTORE_REQUIRE", raising=False)
    monkeypatch.delenv(MYSQL.variable, raising=False)
    monkeypatch.setattr(docker, "missing", lambda: None)

    def services() -> None:
        raise RuntimeError("cannot pull")

    with pytest.raises(pytest.skip.Exception, match="cannot pull"):
        ServerPool().address(MYSQL, services)
