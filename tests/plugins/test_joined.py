"""Tasks that are sent in a transaction of the application's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kombu.exceptions import ChannelError
from sqlalchemy import Connection, create_engine
from sqlalchemy.orm import Session

from jdbcstore.plugins.kombu import Channel, joined
from jdbcstore.plugins.sharing import open_claims
from tests.support.databases import Database
from tests.support.kombu.app import make_app
from tests.support.polling import wait_until

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb")


@pytest.fixture
def app(database: Database) -> Iterator[Any]:
    """An application whose queue is declared."""
    app = make_app(database.url, 30.0)
    app.conf.result_backend = None
    app.send_task("first", ignore_result=True)
    yield app
    app.close()
    open_claims.close()
    wait_until(lambda: database.connections() == 0, what="that closing left no connection")


@pytest.fixture
def work(database: Database, app: Any) -> Iterator[Connection]:  # noqa: ARG001 - the tables are there
    """A connection of the application's, in a transaction that has written."""
    engine = create_engine(database.url)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE work (id INTEGER)")
        connection.commit()
        connection.exec_driver_sql("INSERT INTO work VALUES (1)")
        yield connection
        connection.rollback()
    engine.dispose()


def tasks(database: Database) -> int:
    [(count,)] = database.rows("SELECT count(*) FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://celery'")
    return int(count)


def test_they_exist_if_and_only_if_it_commits(app: Any, work: Connection, database: Database) -> None:
    with joined(work):
        app.send_task("second", ignore_result=True)
    assert tasks(database) == 1
    work.rollback()
    assert tasks(database) == 1

    work.exec_driver_sql("INSERT INTO work VALUES (2)")
    with joined(work):
        app.send_task("second", ignore_result=True)
        app.send_task("third", ignore_result=True)
    work.commit()
    assert tasks(database) == 3
    app.send_task("outside", ignore_result=True)
    assert tasks(database) == 4


def test_an_orm_session_and_a_connection_of_the_driver(
    app: Any, work: Connection, database: Database
) -> None:
    with joined(work.connection.dbapi_connection):
        app.send_task("driver", ignore_result=True)
    work.commit()
    with Session(work.engine) as session:
        with joined(session):
            app.send_task("orm", ignore_result=True)
        session.commit()
    assert tasks(database) == 3


@pytest.mark.backends("sqlite")
def test_what_this_thread_itself_has_locked_is_waited_for_once(
    database: Database, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Not as often as kombu's policy says, and not for as long as SQLite's driver does."""
    monkeypatch.setattr("jdbcstore.stores.claims.claims._CONFLICTS", 0.1)
    monkeypatch.setattr("jdbcstore.stores.claims.lease._CLOSE_WAIT", 0.1)
    app = request.getfixturevalue("app")
    work = request.getfixturevalue("work")
    tries: list[str] = []
    publish = Channel.basic_publish

    def counted(self: Any, *given: Any, **more: Any) -> None:
        tries.append("once")
        publish(self, *given, **more)

    monkeypatch.setattr(Channel, "basic_publish", counted)

    with pytest.raises(ChannelError, match="joined"):
        app.send_task("locked", ignore_result=True)

    assert tries == ["once"]
    work.rollback()
    assert tasks(database) == 1
