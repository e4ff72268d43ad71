"""The real ActiveMQ works on tables of older ones that jdbcstore has migrated."""

from __future__ import annotations

import pytest

from tests.interop.conftest import OpenStore, StartBroker
from tests.support.databases import Database
from tests.support.interop.activemq import NUMBER
from tests.support.interop.catalogue import catalogue
from tests.support.interop.messages import text
from tests.support.interop.recorded import recorded_ddl
from tests.support.migrations.generations import BEFORE_PRIORITY, BEFORE_XID, LATEST, Generation, rows_of
from tests.support.migrations.schemas import differences, migrate, report
from tests.support.recordings import postgres

pytestmark = pytest.mark.backends("postgresql", "mariadb", "mysql")
SUBSCRIPTION = ("topic://FX.TOPIC", "fx-client", "plain")


@pytest.mark.parametrize("generation", [BEFORE_PRIORITY, BEFORE_XID], ids=lambda one: one.id)
def test_the_real_broker_runs_on_what_was_migrated(
    database: Database, activemq: StartBroker, open_jdbcstore: OpenStore, generation: Generation
) -> None:
    generation.create(database)
    generation.fill(database)
    rows = rows_of(database)
    migrate(database)
    schema = catalogue(database)

    with activemq() as broker:
        assert rows_of(database) == rows
        sent = [row for row in postgres().messages if row.container == "queue://FX.PROPS"]
        received = broker.receive("queue://FX.PROPS", len(sent))
        assert [one["message_id"] for one in received] == [row.sent["jms_message_id"] for row in sent]
        broker.send("topic://FX.TOPIC", [text("sent while nobody listens")])
        pending = broker.durable_receive(*SUBSCRIPTION, 10, timeout_ms=1000)
        assert pending[-1]["body"]["v"] == "sent while nobody listens"

    assert catalogue(database) == schema
    with open_jdbcstore() as store:
        assert store.queue("FX.PROPS").message_count() == 0
        assert store.topic("FX.TOPIC").subscription("fx-client", "plain").message_count() == 0


def test_the_recorded_tables_only_get_ours_beside_them(database: Database) -> None:
    for statement in recorded_ddl(database):
        database.execute(statement)
    database.execute("INSERT INTO ACTIVEMQ_LOCK (ID) VALUES (1)")
    LATEST.fill(database)
    schema, rows = catalogue(database), rows_of(database)

    migrate(database)

    assert catalogue(database) == schema
    assert rows_of(database) == rows
    assert differences(database) == []
    assert report(database).fits
    assert report(database).notes == ()


def test_the_real_brokers_tables_only_get_ours_beside_them(database: Database, activemq: StartBroker) -> None:
    with activemq() as broker:
        broker.subscribe("topic://T", "client", "name")
        broker.send("queue://Q", [text("hello")])
        broker.send("topic://T", [text("world")])
    schema, rows = catalogue(database), rows_of(database)

    migrate(database)

    assert catalogue(database) == schema
    assert rows_of(database) == rows
    assert report(database).fits
    with activemq() as broker:
        assert [one["body"]["v"] for one in broker.receive("queue://Q", 1)] == ["hello"]
        [pending] = broker.durable_receive("topic://T", "client", "name", 1)
        assert pending["body"]["v"] == "world"


@pytest.mark.backends("mysql")
def test_tables_that_it_makes_with_a_driver_that_it_does_not_know(
    database: Database, activemq: StartBroker
) -> None:
    """As every ActiveMQ before 5.18.4 does with MySQL's driver of these days: MSG holds 64 KiB."""
    if NUMBER >= (5, 18, 4):
        pytest.skip("this ActiveMQ knows the driver")
    sent = [text("a" * 60_000), text("b")]
    with activemq(detects_adapter=True) as broker:
        broker.subscribe("topic://T", "client", "name")
        broker.send("queue://Q", sent)
        broker.send("topic://T", sent)
    [(type_,)] = database.rows(
        "SELECT COLUMN_TYPE FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'ACTIVEMQ_MSGS' AND COLUMN_NAME = 'MSG'"
    )
    assert type_ == "blob"
    rows = rows_of(database)
    assert report(database).missing[0] == "make MSG of ACTIVEMQ_MSGS hold more than 64 KiB"

    migrate(database)

    assert rows_of(database) == rows
    assert differences(database) == []
    assert report(database).fits
    large = text("c" * 100_000)
    with activemq() as broker:
        broker.send("queue://Q", [large])
        bodies = [one["body"]["v"] for one in broker.receive("queue://Q", 3)]
        assert bodies == [one["body"]["v"] for one in [*sent, large]]
        pending = broker.durable_receive("topic://T", "client", "name", 2)
        assert [one["body"]["v"] for one in pending] == [one["body"]["v"] for one in sent]


def test_without_migrating_it_forgets_subscriptions_of_before_priority(
    database: Database, activemq: StartBroker
) -> None:
    """Its own upgrade numbers them 5, and it looks for 0: why ours does not do the same."""
    BEFORE_PRIORITY.create(database)
    BEFORE_PRIORITY.fill(database)

    with activemq() as broker:
        broker.send("topic://FX.TOPIC", [text("sent while nobody listens")])

    assert database.rows("SELECT DISTINCT PRIORITY FROM ACTIVEMQ_ACKS") == [(5,)]
    last = "SELECT MAX(ID) FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'topic://FX.TOPIC'"
    assert database.rows(last)[0][0] <= max(row.sequence for row in postgres().messages)
