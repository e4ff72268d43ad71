"""The test infrastructure itself: what a fixture promises, kept on every backend."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine

from tests.databases import Database
from tests.polling import wait_until
from tests.servers import Server

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


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_server_keeps_committed_rows(server: Server, database: Database, end: str) -> None:
    database.execute(CREATE)
    database.execute("INSERT INTO t VALUES (7)")

    getattr(server, end)()
    assert server.pid is None
    server.start()

    assert database.rows("SELECT a FROM t") == [(7,)]
