"""A database initialised by jdbcstore and one initialised by ActiveMQ 5.17.2 have the same schema."""

from __future__ import annotations

import pytest

from tests.interop.conftest import OpenStore, StartBroker
from tests.support.databases import Database
from tests.support.interop.catalogue import catalogue
from tests.support.interop.messages import text
from tests.support.interop.recorded import drop_tables, recorded_ddl

pytestmark = pytest.mark.backends("postgresql", "mariadb", "mysql")


@pytest.mark.backends("postgresql", "mariadb")
def test_the_recorded_schema_is_what_jdbcstore_creates(database: Database, open_jdbcstore: OpenStore) -> None:
    for statement in recorded_ddl(database):
        database.execute(statement)
    recorded = catalogue(database)
    assert all(recorded.values())
    drop_tables(database)

    open_jdbcstore().close()

    assert catalogue(database) == recorded


def test_the_real_broker_creates_what_jdbcstore_creates(
    database: Database, activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq():
        pass
    real = catalogue(database)
    assert all(real.values())
    lock_rows = database.rows("SELECT * FROM ACTIVEMQ_LOCK")
    drop_tables(database)

    open_jdbcstore().close()

    assert catalogue(database) == real
    assert database.rows("SELECT * FROM ACTIVEMQ_LOCK") == lock_rows


def test_opening_the_real_brokers_tables_changes_none_of_them(
    database: Database, activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq():
        pass
    before = catalogue(database)

    open_jdbcstore().close()

    assert catalogue(database) == before


def test_the_real_broker_runs_on_jdbcstores_tables_and_changes_none(
    database: Database, activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    open_jdbcstore().close()
    before = catalogue(database)

    with activemq() as broker:
        broker.send("queue://Q", [text("hello")])
        assert [message["body"]["v"] for message in broker.receive("queue://Q", 1)] == ["hello"]

    assert catalogue(database) == before
