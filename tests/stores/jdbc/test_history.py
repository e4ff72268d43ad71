"""A record of each message that is removed: why, when, and in the transaction that removes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, text

import jdbcstore
from jdbcstore import Message, MessageId, Store, XATransactionId
from jdbcstore.abc import Recorded
from jdbcstore.config import StoreConfig
from jdbcstore.errors import ConfigurationError, SchemaError
from jdbcstore.testing import OpenStore
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import fill, message_id
from tests.support.broker.consuming import consume, message, running, send
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")

CAUSE = "dlqDeliveryFailureCause"
XID = XATransactionId(86, b"\x01", b"\x02")
LARGE = 200 * 1024


@pytest.fixture
def store(open_store: OpenStore, clock: FakeClock) -> Store:
    return open_store(clock=clock, cleanup_period=0, history_retention=60.0)


Read = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def recorded(connection: Connection) -> Read:
    """Columns of the records, in the order of time."""

    def read(*columns: str) -> list[tuple[Any, ...]]:
        query = f"SELECT {', '.join(columns)} FROM JDBCSTORE_HISTORY ORDER BY REMOVED, ID"
        return [tuple(row) for row in connection.execute(text(query))]

    return read


def test_what_is_recorded(store: Store, clock: FakeClock, recorded: Read, connection: Connection) -> None:
    orders = store.queue("ORDERS")
    [first] = orders.add_messages([Message("a", message_id=message_id(7), priority=6, redelivery_counter=2)])
    [size] = connection.execute(text("SELECT LENGTH(MSG) FROM ACTIVEMQ_MSGS")).one()
    produced_ms = clock.now_ms()
    clock.advance(2.5)
    orders.acknowledge(first.sequence)
    [row] = recorded(
        *("CONTAINER", "ID", "MSGID_PROD", "MSGID_SEQ", "OUTCOME", "PRODUCED", "REMOVED", "JMS_PRIORITY"),
        *("MSG_SIZE", "REDELIVERIES", "REASON"),
    )
    assert row == (
        *("queue://ORDERS", first.sequence, str(message_id(7).producer_id), 7, "acknowledged"),
        *(produced_ms, produced_ms + 2500, 6, size, 2, None),
    )


def test_a_message_is_recorded_once_however_often_it_is_acknowledged(store: Store, recorded: Read) -> None:
    orders = store.queue("ORDERS")
    [a, b] = fill(orders, "a", "b")
    orders.acknowledge(a.sequence, a.sequence)
    orders.acknowledge(a.sequence)
    store.queue("OTHER").acknowledge(b.sequence)
    assert recorded("ID", "OUTCOME") == [(a.sequence, "acknowledged")]


def test_why_it_was_removed(store: Store, clock: FakeClock, recorded: Read) -> None:
    orders, dead = store.queue("ORDERS"), store.queue("ActiveMQ.DLQ")
    soon = clock.now_ms() + 1000
    orders.add_message(Message("expired", expiration_ms=soon))
    orders.add_message(Message("dead", expiration_ms=soon))
    orders.add_message(Message("moved"))
    orders.add_message(Message("large" * LARGE))
    orders.add_message(Message("purged"))
    expired, rejected, moved, large, purged = orders.recover()
    clock.advance(2)
    with store.transaction() as transaction:
        letter = rejected.replace(expiration_ms=0, properties={CAUSE: "java.lang.Throwable: " + "no " * 200})
        transaction.queue("ActiveMQ.DLQ").add_message(letter)
        transaction.queue("OTHER").add_message(moved)
        transaction.queue("ORDERS").acknowledge(rejected, moved)
    assert orders.remove_expired() == 1
    orders.acknowledge(large)
    assert orders.remove_all_messages() == 1
    [letter] = dead.recover()
    dead.acknowledge(letter)
    rows = recorded("ID", "OUTCOME", "REASON")
    reason = ("java.lang.Throwable: " + "no " * 200)[: StoreConfig().name_lengths.string_id]
    assert sorted(rows) == [
        (expired.sequence, "expired", None),
        (rejected.sequence, "dead", reason),
        (moved.sequence, "acknowledged", None),
        (large.sequence, "acknowledged", None),
        (purged.sequence, "purged", None),
        (letter.sequence, "acknowledged", None),
    ]


def test_more_messages_than_one_statement_takes(store: Store, recorded: Read) -> None:
    orders = store.queue("ORDERS")
    references = orders.add_messages([Message(str(number)) for number in range(600)])
    orders.acknowledge(*[one.sequence for one in references[:300]] * 2)
    assert orders.remove_all_messages() == 300
    assert sorted(recorded("ID")) == [(one.sequence,) for one in references]


def test_messages_of_topics_when_every_subscription_has_acknowledged(
    store: Store, clock: FakeClock, recorded: Read
) -> None:
    news = store.topic("NEWS")
    one, other = news.subscribe("a", "one"), news.subscribe("a", "other")
    [first, second] = fill(news, "first", "second")
    one.acknowledge(first.sequence, second.sequence)
    other.acknowledge(second.sequence)
    assert store.cleanup() == 1
    assert recorded("ID", "OUTCOME") == [(second.sequence, "acknowledged")]
    other.acknowledge(first.sequence)
    clock.advance(1)
    assert store.cleanup() == 1
    assert recorded("ID") == [(second.sequence,), (first.sequence,)]


def test_what_is_rolled_back_is_not_recorded(store: Store, recorded: Read) -> None:
    orders = store.queue("ORDERS")
    [a, b, c] = fill(orders, "a", "b", "c")
    transaction = store.transaction()
    transaction.queue("ORDERS").acknowledge(a.sequence)
    transaction.rollback()
    for outcome in ("rollback", "commit"):
        branch = store.xa.start(XID)
        branch.queue("ORDERS").acknowledge(b.sequence)
        branch.queue("ORDERS").add_message(Message("added"))
        branch.prepare()
        assert recorded("ID") == []
        (store.xa.rollback if outcome == "rollback" else store.xa.commit)(XID)
    assert recorded("ID") == [(b.sequence,)]
    orders.acknowledge(c.sequence)
    assert recorded("ID") == [(b.sequence,), (c.sequence,)]


def test_it_is_the_transaction_of_the_removal(store: Store, connection: Connection, recorded: Read) -> None:
    """Without the table no record can be written; then nothing is removed."""
    orders = store.queue("ORDERS")
    [a] = fill(orders, "a")
    connection.execute(text("ALTER TABLE JDBCSTORE_HISTORY RENAME TO AWAY"))
    transaction = store.transaction()
    transaction.queue("ORDERS").acknowledge(a.sequence)
    transaction.queue("OTHER").add_message(Message("not added"))
    with pytest.raises(SchemaError):
        transaction.commit()
    assert (orders.message_count(), store.queue("OTHER").message_count()) == (1, 0)
    connection.execute(text("ALTER TABLE AWAY RENAME TO JDBCSTORE_HISTORY"))
    orders.acknowledge(a.sequence)
    assert recorded("ID") == [(a.sequence,)]


def test_cleanup_deletes_old_records(store: Store, clock: FakeClock, recorded: Read) -> None:
    orders = store.queue("ORDERS")
    old = orders.add_messages([Message("old") for _ in range(1500)])
    orders.acknowledge(*(one.sequence for one in old))
    clock.advance(30)
    [young] = fill(orders, "young")
    orders.acknowledge(young.sequence)
    store.cleanup()
    assert len(recorded("ID")) == 1501
    clock.advance(31)
    store.cleanup()
    assert recorded("ID") == [(young.sequence,)]


def test_nothing_is_recorded_unless_asked(
    open_store: OpenStore, database: Database, connection: Connection
) -> None:
    store = open_store(cleanup_period=0)
    [a] = fill(store.queue("ORDERS"), "a")
    store.queue("ORDERS").acknowledge(a.sequence)
    assert "jdbcstore_history" not in {name.lower() for name in inspect(connection).get_table_names()}
    store.close()
    with pytest.raises(SchemaError, match=r"history\.sql"):
        jdbcstore.open(database.url, history_retention=60.0, create_tables_on_startup=False)


def test_another_store_goes_on_with_the_same_table(
    open_store: OpenStore, clock: FakeClock, recorded: Read
) -> None:
    for body in ("a", "b"):
        with open_store(clock=clock, cleanup_period=0, history_retention=60.0) as store:
            [reference] = fill(store.queue("ORDERS"), body)
            store.queue("ORDERS").acknowledge(reference.sequence)
        clock.advance(1)
    assert len(recorded("ID")) == 2


def test_a_prefix_is_that_of_all_tables(open_store: OpenStore, connection: Connection) -> None:
    store = open_store(cleanup_period=0, history_retention=60.0, table_prefix="MINE_")
    [a] = fill(store.queue("ORDERS"), "a")
    store.queue("ORDERS").acknowledge(a.sequence)
    assert connection.execute(text("SELECT count(*) FROM MINE_JDBCSTORE_HISTORY")).scalar_one() == 1


def test_less_than_no_time_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        StoreConfig(history_retention=-1)


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("audit", [False, True])
def test_what_a_broker_does(open_store: OpenStore, recorded: Read, audit: bool) -> None:
    """With the audit, dead letters have an id of their own in the columns."""
    store = open_store(cleanup_period=0, history_retention=60.0, enable_audit=audit)

    async def main() -> None:
        async with running(store, audited=audit) as engine:
            dead, consumer = await consume(engine, "ActiveMQ.DLQ"), await consume(engine, "Q")
            await send(engine, message("rejected"))
            async with asyncio.timeout(180):
                await consumer.subscription.reject(await consumer.got(1))
            await dead.got(1)
            await send(engine, message("consumed"))
            async with asyncio.timeout(180):
                await consumer.subscription.acknowledge((await consumer.got(2))[1:])

    asyncio.run(main())
    assert recorded("CONTAINER", "OUTCOME", "REASON") == [
        ("queue://Q", "dead", "java.lang.Throwable: Rejected by its consumer"),
        ("queue://Q", "acknowledged", None),
    ]


def test_the_records_of_a_message(store: Store, clock: FakeClock, database: Database) -> None:
    assert isinstance(store, Recorded)
    orders, archive = store.queue("ORDERS"), store.queue("ARCHIVE")
    moved = Message("a", message_id=message_id(7), redelivery_counter=1)
    for queue in (orders, archive):
        clock.advance(1.0)
        [reference] = queue.add_messages([moved])
        queue.add_message(Message("another"))
        queue.acknowledge(reference.sequence)
    found = store.removals(message_id(7))
    assert [(str(one.destination), one.outcome, one.redeliveries) for one in found] == [
        ("queue://ORDERS", "acknowledged", 1),
        ("queue://ARCHIVE", "acknowledged", 1),
    ]
    assert store.removals(message_id(7), clock.now_ms()) == found[1:]
    assert store.removals(message_id(7), clock.now_ms() + 1) == []
    assert store.removals(message_id(8)) == []
    assert store.removals(MessageId.parse("ID:of another system")) == []
    with jdbcstore.JdbcStore(database.url, read_only=True) as reader:
        assert reader.removals(message_id(7)) == found
