"""Which destinations there are, under names that keep every character."""

from __future__ import annotations

import gc

import pytest

from jdbcstore import (
    Destination,
    JdbcStore,
    JournaledStore,
    MemoryStore,
    Message,
    Store,
)
from jdbcstore.errors import SchemaError, SubscriptionNotFound
from jdbcstore.stores.jdbc.acknowledgements import AcknowledgementTracker
from jdbcstore.stores.jdbc.queue import JdbcMessageStore
from jdbcstore.stores.memory.destinations import MemoryMessageStore
from jdbcstore.stores.memory.shelf import Shelf
from jdbcstore.testing import OpenStore
from jdbcstore.testing.contract.test_destinations import *
from jdbcstore.testing.messages import content, fill
from tests.support.databases import Database


@pytest.mark.new_database
@pytest.mark.backends("mariadb", "mariadb-pyodbc", "mysql")
@pytest.mark.parametrize("place", [("PRICES", "client", "ticker"), ("Prices", "CLIENT", "Ticker")])
def test_subscriptions_that_the_key_takes_for_one(
    store: Store, database: Database, place: tuple[str, str, str]
) -> None:
    """A collation that knows no case: the second is refused, and nobody gets at the first by its name."""
    for column in ("CONTAINER", "CLIENT_ID", "SUB_NAME"):
        database.execute(
            f"ALTER TABLE ACTIVEMQ_ACKS MODIFY {column} VARCHAR(250) COLLATE utf8mb4_general_ci NOT NULL"
        )
    first = store.topic("Prices").subscribe("client", "ticker")
    name, client_id, subscription = place
    topic = store.topic(name)
    fill(store.topic("Prices"), "a")

    with pytest.raises(SchemaError, match="'ticker' of 'client' on topic://Prices"):
        topic.subscribe(client_id, subscription)
    with pytest.raises(SubscriptionNotFound):
        topic.subscription(client_id, subscription)
    with pytest.raises(SubscriptionNotFound):
        topic.unsubscribe(client_id, subscription)
    with pytest.raises(SubscriptionNotFound), store.transaction() as transaction:
        transaction.topic(name).acknowledge_subscription(client_id, subscription, 1)

    assert content(first) == ["a"]
    assert database.rows("SELECT CLIENT_ID, SUB_NAME FROM ACTIVEMQ_ACKS") == [("client", "ticker")]


@pytest.mark.new_database
@pytest.mark.backends("mariadb", "mariadb-pyodbc", "mysql")
def test_subscriptions_that_differ_by_case_under_a_key_that_knows_it(
    open_store: OpenStore, database: Database
) -> None:
    """ACTIVEMQ_ACKS as the error advises; JDBCSTORE_ACKS is made so."""
    open_store().close()
    for column in ("CONTAINER", "CLIENT_ID", "SUB_NAME"):
        database.execute(
            f"ALTER TABLE ACTIVEMQ_ACKS MODIFY {column} VARCHAR(250) COLLATE utf8mb4_bin NOT NULL"
        )
    store = open_store()
    names = [("Prices", "client"), ("PRICES", "client"), ("Prices", "CLIENT")]
    readers = {name: store.topic(name[0]).subscribe(name[1], "ticker") for name in names}
    for topic in ("Prices", "PRICES"):
        fill(store.topic(topic), *"abc")

    for number, name in enumerate(names):
        readers[name].acknowledge(readers[name].recover()[1 + number % 2])

    assert [content(readers[name]) for name in names] == [["a", "c"], ["a", "b"], ["a", "c"]]
    assert [reader.message_count() for reader in readers.values()] == [2, 2, 2]
    assert store.cleanup() == 2
    store.topic("Prices").unsubscribe("CLIENT", "ticker")
    assert content(readers["Prices", "client"]) == ["a", "c"]
    assert content(readers["PRICES", "client"]) == ["a", "b"]


def alive(kind: type) -> int:
    gc.collect()
    return sum(isinstance(one, kind) for one in gc.get_objects())


@pytest.mark.backends("sqlite")
@pytest.mark.variants("sqlite-renamed", "sqlite-journaled")
def test_what_is_deleted_takes_no_memory(store: Store) -> None:
    """A store lives long, and clients invent names."""
    topic, kept = store.topic("KEPT"), store.queue("KEPT")
    before = [alive(kind) for kind in (JdbcMessageStore, AcknowledgementTracker)]
    for number in range(20):
        fill(store.queue(f"Q{number}"), "a")
        reader = store.topic(f"T{number}").subscribe("client", "reader")
        fill(store.topic(f"T{number}"), "a", "b")
        reader.acknowledge(reader.recover()[1])
        store.delete_destination(Destination.queue(f"Q{number}"))
        store.delete_destination(Destination.topic(f"T{number}"))
        reader = topic.subscribe(f"client-{number}", "reader")
        reader.acknowledge(*fill(topic, "a"))
        topic.unsubscribe(f"client-{number}", "reader")
    del reader

    assert [alive(kind) for kind in (JdbcMessageStore, AcknowledgementTracker)] == before
    fill(kept, "a")
    assert store.delete_destination(kept.destination) == 1
    # Whoever still has it uses the same one as all others.
    assert store.queue("KEPT") is kept


@pytest.mark.backends("sqlite")
@pytest.mark.variants("sqlite-renamed", "sqlite-journaled")
def test_queues_of_long_ago_take_no_memory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (JdbcStore, JournaledStore):
        monkeypatch.setattr(kind, "_most_queues", 20)
    kept, before = store.queue("KEPT"), alive(JdbcMessageStore)
    by_priority = [store.queue(f"P{number}", prioritized=True).destination for number in range(3)]
    store.topic("T").subscribe("client", "reader")
    for number in range(100):
        store.add_each_async([Message("a", destination=Destination.queue(f"Q{number}"))]).result()
    assert alive(JdbcMessageStore) - before <= 20
    assert store.queue("KEPT") is kept
    assert [store.queue(name).prioritized for name in by_priority] == [True] * 3
    assert [store.queue(f"Q{number}").message_count() for number in range(100)] == [1] * 100
    assert alive(JdbcMessageStore) - before <= 20


def test_what_is_deleted_in_memory_takes_none() -> None:
    with MemoryStore() as store:
        kept = store.queue("KEPT")
        before = [alive(kind) for kind in (MemoryMessageStore, Shelf)]
        for number in range(20):
            fill(store.queue(f"Q{number}"), "a")
            store.topic(f"T{number}").subscribe("client", "reader")
            fill(store.topic(f"T{number}"), "a", "b")
            store.delete_destination(Destination.queue(f"Q{number}"))
            store.delete_destination(Destination.topic(f"T{number}"))
        assert [alive(kind) for kind in (MemoryMessageStore, Shelf)] == before

        # A caller that still has a deleted queue uses the same one as all others.
        fill(kept, "a")
        assert store.delete_destination(kept.destination) == 1
        assert store.destinations() == []
        fill(kept, "b")
        assert store.destinations() == [kept.destination]
        assert store.queue("KEPT") is kept
