"""Every call of the API while the server goes down at its statements and answers in turn.

A caller sees a result or ``StoreUnavailable``, never an error of SQLAlchemy or of the driver, and the
same store goes on when the server is back.
"""

from __future__ import annotations

import inspect
import itertools
import uuid
from collections.abc import Callable

import pytest

import jdbcstore
from jdbcstore import Destination, JdbcStore, Message, StoreConfig, XATransactionId, abc
from jdbcstore.errors import StoreUnavailable
from jdbcstore.message.ids import ProducerId
from tests.support.backends import Backend
from tests.support.faults.line import Break, Line

CONFIG = StoreConfig(cleanup_period=0, reconnect_timeout=0.02)
WAIT = 180.0


class MessageStore:
    """A queue with messages, one of which has expired; each method makes the call of its name."""

    def __init__(self, store: JdbcStore) -> None:
        self.messages: abc.MessageStore = store.queue(uuid.uuid4().hex, prioritized=False)
        self.fill()

    def fill(self) -> None:
        self.first, self.second, _ = self.messages.add_messages(
            [Message("a"), Message("b"), Message("c", expiration_ms=1)]
        )
        self.read = self.messages.recover()[0]

    def acknowledge(self) -> None:
        self.messages.acknowledge(self.first)

    def acknowledge_async(self) -> None:
        self.messages.acknowledge_async(self.first, self.second).result(WAIT)

    def add_each_async(self) -> None:
        self.messages.add_each_async([Message("n"), Message("o")]).result(WAIT)

    def add_message(self) -> None:
        self.messages.add_message(Message("n"))

    def add_message_async(self) -> None:
        self.messages.add_message_async(Message("n")).result(WAIT)

    def add_messages(self) -> None:
        self.messages.add_messages([Message("n"), Message("o")])

    def add_messages_async(self) -> None:
        self.messages.add_messages_async([Message("n"), Message("o")]).result(WAIT)

    def get_message(self) -> None:
        self.messages.get_message(self.first.sequence)

    def message_count(self) -> None:
        self.messages.message_count()

    def recover(self) -> None:
        self.messages.recover(limit=1)

    def recover_expired(self) -> None:
        self.messages.recover_expired()

    def remove_all_messages(self) -> None:
        self.messages.remove_all_messages()

    def remove_expired(self) -> None:
        self.messages.remove_expired()

    def statistics(self) -> None:
        self.messages.statistics()

    def update_message(self) -> None:
        self.messages.update_message(self.read)


class TopicMessageStore(MessageStore):
    """A prioritized topic with a durable subscription."""

    def __init__(self, store: JdbcStore) -> None:
        self.topic = store.topic(uuid.uuid4().hex, prioritized=True)
        self.messages = self.topic
        self.reader = self.topic.subscribe("client", "reader")
        self.fill()

    def subscribe(self) -> None:
        self.topic.subscribe("client", "other", selector="a = 1")

    def subscription(self) -> None:
        self.topic.subscription("client", "reader")

    def subscriptions(self) -> None:
        self.topic.subscriptions()

    def unsubscribe(self) -> None:
        self.topic.unsubscribe("client", "reader")


class DurableSubscription:
    """A durable subscription with messages."""

    def __init__(self, store: JdbcStore) -> None:
        topic = TopicMessageStore(store)
        self.reader, self.first = topic.reader, topic.first

    def acknowledge(self) -> None:
        self.reader.acknowledge(self.first)

    def acknowledge_async(self) -> None:
        self.reader.acknowledge_async(self.first).result(WAIT)

    def message_count(self) -> None:
        self.reader.message_count()

    def recover(self) -> None:
        self.reader.recover(limit=1)


class Transaction:
    """A local transaction that adds and acknowledges."""

    def __init__(self, store: JdbcStore) -> None:
        queue = MessageStore(store)
        self.transaction = store.transaction()
        self.transaction.queue("other").add_message(Message("x"))
        self.transaction.queue(queue.messages.destination).acknowledge(queue.first)

    def commit(self) -> None:
        self.transaction.commit()

    def commit_async(self) -> None:
        self.transaction.commit_async().result(WAIT)

    def rollback(self) -> None:
        self.transaction.rollback()


class XATransaction:
    """An XA transaction that was not prepared yet."""

    def __init__(self, store: JdbcStore) -> None:
        self.transaction = store.xa.start(XATransactionId(1, uuid.uuid4().bytes, b"1"))
        self.transaction.queue("other").add_message(Message("x"))

    def commit(self) -> None:
        self.transaction.commit()

    def commit_async(self) -> None:
        self.transaction.commit_async().result(WAIT)

    def prepare(self) -> None:
        self.transaction.prepare()

    def rollback(self) -> None:
        self.transaction.rollback()


class XAResource:
    """A prepared XA transaction."""

    def __init__(self, store: JdbcStore) -> None:
        transaction = XATransaction(store).transaction
        transaction.prepare()
        self.xid, self.xa = transaction.xid, store.xa

    def commit(self) -> None:
        self.xa.commit(self.xid)

    def recover(self) -> None:
        self.xa.recover()

    def rollback(self) -> None:
        self.xa.rollback(self.xid)


class Store:
    """A store with a queue."""

    def __init__(self, store: JdbcStore) -> None:
        self.store = store
        self.queue = MessageStore(store).messages

    def add_each_async(self) -> None:
        messages = [Message(name, destination=Destination.queue(name)) for name in "ab"]
        self.store.add_each_async(messages).result(WAIT)

    def cleanup(self) -> None:
        self.store.cleanup()

    def delete_destination(self) -> None:
        self.store.delete_destination(self.queue.destination)

    def destinations(self) -> None:
        self.store.destinations()

    def last_producer_sequence_id(self) -> None:
        self.store.last_producer_sequence_id(ProducerId("ID:a-1-1-1:1", 1, 1))

    def last_sequence(self) -> None:
        self.store.last_sequence()

    def record_queue(self) -> None:
        self.store.record_queue("RECORDED")

    def drop_record(self) -> None:
        self.store.drop_record(self.queue.destination)

    def check(self) -> None:
        self.store.check()

    def lock(self) -> None:
        self.store.lock()

    def tables(self) -> None:
        self.store.tables()


KINDS: tuple[type, ...] = (
    MessageStore,
    TopicMessageStore,
    DurableSubscription,
    Transaction,
    XATransaction,
    XAResource,
    Store,
)
CALLS = [
    (kind, name)
    for kind in KINDS
    for name, _ in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_") and name != "fill"
]
WITHOUT_STATEMENT: dict[object, set[str]] = {
    MessageStore: {"destination", "prioritized"},
    TopicMessageStore: {"destination", "prioritized"},
    DurableSubscription: {"info"},
    Transaction: {"queue", "topic", "rollback"},
    XATransaction: {"queue", "topic", "rollback", "xid"},
    XAResource: {"start"},
    Store: {"queue", "topic", "transaction", "xa", "commits_in_order", "use_loop", "close"},
}
# SQLAlchemy's inspector does not use the cursors that fail there.
INSPECTED = {"tables"}
GOODBYES = 3
"""The connections of a store that is being closed. Losing the message that ends one refuses nothing."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_call_of_the_contract_is_left_out(kind: type) -> None:
    contract = {name for name in dir(getattr(abc, kind.__name__)) if not name.startswith("_")}

    assert contract - WITHOUT_STATEMENT[kind] <= {name for each, name in CALLS if each is kind}


@pytest.mark.backends("postgresql", "mariadb", "mysql", "sqlite")
@pytest.mark.parametrize(("kind", "name"), CALLS, ids=[f"{kind.__name__}.{name}" for kind, name in CALLS])
def test_an_outage_at_any_point_of_a_call(
    kind: Callable[[JdbcStore], object], name: str, line: Line, backend: Backend
) -> None:
    refused = 0
    with JdbcStore(line.url, CONFIG) as store:
        for first, how in ((1, Break.STATEMENT), (2, Break.ANSWER)):
            for number in itertools.count(first, 2):
                call = getattr(kind(store), name)
                line.arm(how, number, lasting=True)
                try:
                    call()
                except StoreUnavailable:
                    refused += 1
                line.mend()
                store.queue("after").add_message(Message("goes on"))
                if not line.broke:
                    break
        without = name in WITHOUT_STATEMENT[kind]
        inspected = name in INSPECTED and not backend.capabilities.server
        assert (refused == 0) is (without or inspected)


@pytest.mark.backends("postgresql", "mariadb", "mysql", "sqlite")
def test_an_outage_while_opening(line: Line) -> None:
    for how in (Break.STATEMENT, Break.ANSWER):
        refused = 0
        for number in itertools.count(1):
            line.arm(how, number, lasting=True)
            try:
                jdbcstore.open(line.url, cleanup_period=0, reconnect_timeout=0.02).close()
            except StoreUnavailable:
                assert line.broke
                refused += 1
            line.mend()
            if not line.broke:
                break
        assert refused > 3
        assert number - 1 - refused <= GOODBYES
    jdbcstore.open(line.url).close()
