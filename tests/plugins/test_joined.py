"""Tasks that are sent in a transaction of the application's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import kombu
import pytest
from kombu.exceptions import ChannelError
from sqlalchemy import Connection, create_engine
from sqlalchemy.orm import Session

from jdbcstore.plugins.kombu import Channel, LockedOut, Transport, joined
from jdbcstore.plugins.sharing import open_claims
from jdbcstore.stores.claims.lease import Lease
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.kombu.app import make_app

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


@pytest.fixture
def app(database: Database) -> Iterator[Any]:
    """An application whose queue is declared."""
    database.stay()  # a transaction joins claims of its own node only
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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are waited for in vain soon."""
    monkeypatch.setattr("jdbcstore.stores.claims.database._CONFLICTS", 0.1)
    monkeypatch.setattr("jdbcstore.stores.claims.lease._CLOSE_WAIT", 0.1)


def counted(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> list[str]:
    """Gets an item at each call of a method."""
    calls: list[str] = []
    method = getattr(of, name)

    def call(self: Any, *given: Any, **more: Any) -> Any:
        calls.append(name)
        return method(self, *given, **more)

    monkeypatch.setattr(of, name, call)
    return calls


@pytest.mark.backends("sqlite")
def test_what_this_thread_itself_has_locked_is_waited_for_once(
    impatient: None,  # noqa: ARG001
    app: Any,
    work: Connection,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not as often as kombu's policy says, and not for as long as SQLite's driver does."""
    tries = counted(monkeypatch, Channel, "basic_publish")
    with pytest.raises(ChannelError, match="joined"):
        app.send_task("locked", ignore_result=True)
    assert tries == ["basic_publish"]
    work.rollback()
    assert tasks(database) == 1


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("is_joined", [True, False])
def test_a_first_connection_is_tried_once(
    impatient: None,  # noqa: ARG001
    is_joined: bool,
    database: Database,
    app: Any,
    work: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a new process: what it would write is locked by this very thread."""
    app.close()
    open_claims.close()
    other = make_app(database.url, 30.0)
    tries = counted(monkeypatch, Transport, "establish_connection")
    with (
        joined(work) if is_joined else nullcontext(),
        pytest.raises(LockedOut, match="joined"),
    ):
        other.send_task("second", ignore_result=True)
    assert tries == ["establish_connection"]
    work.rollback()

    other.send_task("second", ignore_result=True)  # as if nothing had been
    assert tasks(database) == 2
    other.close()


@pytest.mark.backends("sqlite")
def test_another_connection_does_not_write(app: Any, work: Connection, database: Database) -> None:
    other = make_app(database.url, 30.0)
    with joined(work), kombu.Connection(app.conf.broker_url, transport_options={"lease": 30.0}) as connection:
        connection.connect()
        assert connection.transport.shared.users == 2
        other.send_task("second", ignore_result=True)
    other.close()
    work.commit()
    assert tasks(database) == 2


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("is_joined", [True, False])
def test_a_queue_that_is_not_declared_is_tried_once(
    impatient: None,  # noqa: ARG001
    is_joined: bool,
    app: Any,
    work: Connection,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = counted(monkeypatch, Channel, "exchange_declare")
    with (
        joined(work) if is_joined else nullcontext(),
        pytest.raises(LockedOut, match="connect and declare queues before"),
    ):
        app.send_task("second", queue="undeclared", ignore_result=True)
    assert tries == ["exchange_declare"]
    work.rollback()
    with joined(work):
        app.send_task("second", ignore_result=True)
    work.commit()
    assert tasks(database) == 2


@pytest.mark.backends("sqlite")
def test_a_lease_near_its_end_is_not_renewed_behind_the_lock(
    app: Any, work: Connection, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No master can begin meanwhile; what was there before is seen by the guard."""
    [shared] = open_claims._shared.values()
    shared.claims.database.lease._believed_until = 0.0
    renewed = counted(monkeypatch, Lease, "_keep")
    with joined(work):
        app.send_task("second", ignore_result=True)
    assert renewed == []
    work.commit()
    assert tasks(database) == 2


def test_a_worker_connects_again_and_kombu_does_not() -> None:
    assert LockedOut in Transport.connection_errors
    assert not issubclass(LockedOut, Transport.recoverable_connection_errors)
