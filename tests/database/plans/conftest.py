"""A table that is large enough for a bad plan to show."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

import jdbcstore
from jdbcstore import Message, Store, Transaction, XATransactionId
from jdbcstore.config import StoreConfig
from jdbcstore.database.session import DatabaseSession
from jdbcstore.stores.jdbc.xa.column import ADDED, encode_flag
from tests.support.backends import BACKENDS, Backend
from tests.support.databases import SqliteDatabase
from tests.support.plans.readers import READERS, PlanReader
from tests.support.pool import ServerPool

BIG, RARE, BY_PRIORITY = "queue://BIG", "queue://RARE", "queue://BY.PRIORITY"
TOPIC, OTHER_TOPIC = "topic://NEWS", "topic://T3"
ROUNDS = 150
XID = XATransactionId(1, b"one", b"branch")
PREPARED = encode_flag(ADDED, XID)
"""The XID of messages that a prepared transaction adds."""


@dataclass
class Large:
    """An open session on the filled tables."""

    session: DatabaseSession
    plans: PlanReader
    last: int


@pytest.fixture(
    scope="package",
    params=[backend for backend in BACKENDS if backend.id in READERS],
    ids=lambda backend: backend.id,
)
def large(
    request: pytest.FixtureRequest, server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Large]:
    backend: Backend = request.param
    if backend.capabilities.server:
        address = server_pool.address(backend, lambda: request.getfixturevalue("docker_services"))
        database = backend.database(address)
    else:
        database = SqliteDatabase(tmp_path_factory.mktemp("plans"))
    with jdbcstore.open(database.url, cleanup_period=0) as store:
        fill(store)
        last = store.last_sequence()
    with (
        closing(DatabaseSession(database.url, StoreConfig())) as session,
        closing(session.connect()) as connection,
    ):
        plans = READERS[backend.id](connection.cursor)
        plans.analyze([str(table.name) for table in session.tables.all])
        yield Large(session, plans, last)
    database.close()


def fill(store: Store) -> None:
    """Some 45,000 messages of many destinations, mixed as they are where many clients send."""
    for name in ("half", "early", "many"):
        store.topic("NEWS").subscribe("client", name)
    for number, client in itertools.product(range(10), range(10)):
        store.topic(f"T{number}").subscribe(f"client {client}", "s")
    store.queue("BY.PRIORITY", prioritized=True)
    for round_ in range(ROUNDS):
        with store.transaction() as transaction:
            fill_round(transaction, rare=round_ % 5 == 0)
    acknowledge(store)
    prepare(store)


def prepare(store: Store) -> None:
    """Leave two transactions in doubt."""
    for number, xid in enumerate((XID, XATransactionId(1, b"another", b"branch"))):
        transaction = store.xa.start(xid)
        for _ in range(20):
            transaction.queue("BIG").add_message(Message("in doubt"))
        transaction.queue("BIG").acknowledge(*store.queue("BIG").recover(20))
        client = f"client {number + 1}"
        news = store.topic("T3").subscription(client, "s").recover(20)[1:]
        transaction.topic("T3").acknowledge_subscription(client, "s", *news)
        assert transaction.prepare()


def fill_round(transaction: Transaction, *, rare: bool) -> None:
    for number in range(100):
        message = Message("x" * 100, expiration_ms=1 if number == 7 else 0)
        transaction.queue("BIG").add_message(message)
        transaction.queue(f"Q{number % 40}").add_message(message)
        if number % 2:
            transaction.topic("NEWS").add_message(message)
            transaction.queue("BY.PRIORITY").add_message(message)
        if number % 10 == 0:
            transaction.topic(f"T{number // 10}").add_message(message)
    if rare:
        transaction.queue("RARE").add_message(Message("rare"))


def acknowledge(store: Store) -> None:
    """In order, and ahead of marks, by many subscriptions; one holds its topic's messages from cleanup."""
    topic = store.topic("NEWS")
    news = topic.recover(10_000)
    topic.subscription("client", "half").acknowledge(*news[: len(news) // 2], *news[-2_000:-1_500])
    topic.subscription("client", "many").acknowledge(*news[1:4_000])
    for number, client in itertools.product(range(10), range(10)):
        subscription = store.topic(f"T{number}").subscription(f"client {client}", "s")
        subscription.acknowledge(*subscription.recover()[client::7])
