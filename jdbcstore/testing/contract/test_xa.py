"""XA transactions: prepared writes survive, are hidden until their outcome, and have one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jdbcstore import (
    Message,
    PreparedTransaction,
    PreparedWrites,
    Store,
    XATransaction,
    XATransactionId,
)
from jdbcstore.errors import (
    InvalidMessage,
    MessageNotFound,
    SubscriptionNotFound,
    TransactionError,
    TransactionNotFound,
)
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import PRODUCER, content, fill, message_id
from jdbcstore.testing.provider import Capabilities, OpenStore

pytestmark = [pytest.mark.variants("postgresql-statements"), pytest.mark.needs("xa")]

XID = XATransactionId(86, b"\x01\x02\x03\x04", b"\x09\x02")
OTHER = XATransactionId(86, b"\x01\x02\x03\x04", b"\x09\x03")

Restart = Callable[[Store], Store]


@pytest.fixture
def restart(open_store: OpenStore, capabilities: Capabilities) -> Restart:
    """Return a function that closes a store and opens it again, if it is durable."""

    def restart(store: Store) -> Store:
        if not capabilities.durable:
            return store
        store.close()
        return open_store()

    return restart


def decide(store: Store, outcome: str, xid: XATransactionId = XID) -> None:
    (store.xa.commit if outcome == "commit" else store.xa.rollback)(xid)


def prepared(store: Store, write: Callable[[XATransaction], None], xid: XATransactionId = XID) -> None:
    """Prepare a branch, which has something to decide."""
    transaction = store.xa.start(xid)
    write(transaction)
    assert transaction.prepare()


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
@pytest.mark.parametrize("restarted", [False, True], ids=["live", "restarted"])
@pytest.mark.parametrize("prioritized", [False, True], ids=["in order", "by priority"])
def test_both_phases(
    store: Store, restart: Restart, prioritized: bool, restarted: bool, outcome: str
) -> None:
    orders = store.queue("ORDERS", prioritized=prioritized)
    events = store.topic("EVENTS", prioritized=prioritized)
    reader, witness = events.subscribe("client", "reader"), events.subscribe("client", "witness")
    fill(orders, "taken", "left", priority=7)
    fill(events, "read", "unread", priority=7)

    transaction = store.xa.start(XID)
    assert transaction.xid == XID
    transaction.queue("ORDERS").acknowledge(orders.recover()[0])
    transaction.queue("ORDERS").add_message(Message("new", priority=7))
    transaction.topic("EVENTS").acknowledge_subscription("client", "reader", reader.recover()[0])
    transaction.topic("EVENTS").add_message(Message("news", priority=7))
    for body in ("first", "second"):
        transaction.queue("DONE").add_message(Message(body, priority=2))
    assert content(orders) == ["taken", "left"]
    assert transaction.prepare()

    if restarted:
        store = restart(store)
    orders, events = store.queue("ORDERS"), store.topic("EVENTS")
    reader, witness = (events.subscription("client", name) for name in ("reader", "witness"))
    assert content(orders) == ["left"]
    assert content(events) == ["read", "unread"]
    assert content(reader) == ["unread"]
    assert content(witness) == ["read", "unread"]
    assert [orders.message_count(), reader.message_count(), store.queue("DONE").message_count()] == [1, 1, 0]
    assert store.xa.recover() == [
        PreparedTransaction(
            XID,
            (
                PreparedWrites(store.queue("DONE").destination, added=2),
                PreparedWrites(orders.destination, added=1, acknowledged=1),
                PreparedWrites(events.destination, added=1),
                PreparedWrites(events.destination, 0, 1, "client", "reader"),
            ),
        )
    ]
    fill(orders, "between", priority=7)
    fill(events, "between", priority=7)

    decide(store, outcome)

    committed = outcome == "commit"
    for _ in range(2):
        orders, events = store.queue("ORDERS"), store.topic("EVENTS")
        new, news = (["new"], ["news"]) if committed else ([], [])
        read = [] if committed else ["read"]
        assert content(orders) == [*([] if committed else ["taken"]), "left", "between", *new]
        assert content(events) == ["read", "unread", "between", *news]
        assert content(events.subscription("client", "reader")) == [*read, "unread", "between", *news]
        assert content(events.subscription("client", "witness")) == ["read", "unread", "between", *news]
        assert content(store.queue("DONE")) == (["first", "second"] if committed else [])
        assert store.xa.recover() == []
        store = restart(store)
    for phase in (store.xa.commit, store.xa.rollback):
        with pytest.raises(TransactionNotFound, match="committed or rolled back"):
            phase(XID)


def test_in_one_phase(store: Store) -> None:
    [old] = fill(store.queue("ORDERS"), "old")
    with store.xa.start(XID) as transaction:
        transaction.queue("ORDERS").add_message(Message("new"))
        transaction.queue("ORDERS").acknowledge(old)
    dropped = store.xa.start(XID)
    dropped.queue("ORDERS").add_message(Message("dropped"))
    dropped.rollback()

    [message] = store.queue("ORDERS").recover()
    assert (message.body, message.transaction_id) == ("new", XID)
    assert store.xa.recover() == []
    with pytest.raises(TransactionError, match="begin another"):
        transaction.prepare()


def test_a_branch_that_does_nothing_is_over_when_it_is_prepared(store: Store) -> None:
    topic = store.topic("EVENTS")
    topic.subscribe("client", "reader")
    [gone] = fill(store.queue("ORDERS"), "gone")
    store.queue("ORDERS").acknowledge(gone)
    [read] = fill(topic, "read")
    topic.subscription("client", "reader").acknowledge(read)

    transaction = store.xa.start(XID)
    transaction.queue("ORDERS").acknowledge(gone)
    transaction.topic("EVENTS").acknowledge_subscription("client", "reader", read)

    assert not store.xa.start(OTHER).prepare()
    assert not transaction.prepare()
    assert store.xa.recover() == []
    with pytest.raises(TransactionNotFound):
        store.xa.commit(XID)


@pytest.mark.ours
def test_a_branch_is_prepared_once(store: Store, restart: Restart) -> None:
    prepared(store, lambda tx: tx.queue("ORDERS").add_message(Message("a")))
    store = restart(store)

    again = store.xa.start(XID)
    again.queue("ORDERS").add_message(Message("b"))
    with pytest.raises(TransactionError, match="prepared already"):
        again.prepare()

    store.xa.commit(XID)
    assert content(store.queue("ORDERS")) == ["a"]


def test_branches_are_decided_one_by_one(store: Store, restart: Restart) -> None:
    references = fill(store.queue("ORDERS"), *"abc")
    xids = [
        XID,
        OTHER,
        XATransactionId(-7, b"\x00" * 64, b"\xff" * 16),
        XATransactionId(87, b"gtrid", b""),
    ]
    for xid, reference in zip(xids, references, strict=False):
        prepared(store, lambda tx, reference=reference: tx.queue("ORDERS").acknowledge(reference), xid)  # type: ignore[misc]
    prepared(store, lambda tx: tx.queue("ORDERS").add_message(Message("d")), xids[3])
    store = restart(store)

    assert [branch.xid for branch in store.xa.recover()] == [xids[2], XID, OTHER, xids[3]]
    store.xa.commit(xids[3])
    store.xa.rollback(OTHER)
    store.xa.commit(XID)
    assert content(store.queue("ORDERS")) == ["b", "d"]
    assert [branch.xid for branch in store.xa.recover()] == [xids[2]]


def test_nothing_else_touches_what_is_in_doubt(open_store: OpenStore, clock: FakeClock) -> None:
    store = open_store(clock=clock)
    orders, events = store.queue("ORDERS"), store.topic("EVENTS")
    reader = events.subscribe("client", "reader")
    expired = clock.now_ms() - 1
    taken, _ = fill(orders, "taken", "plain", expiration_ms=expired)
    read, passed = fill(events, "read", "passed", expiration_ms=expired)

    def write(transaction: XATransaction) -> None:
        transaction.queue("ORDERS").acknowledge(taken)
        transaction.topic("EVENTS").acknowledge_subscription("client", "reader", read)
        for destination in (transaction.queue("ORDERS"), transaction.topic("EVENTS")):
            destination.add_message(Message("new", message_id=message_id(9), expiration_ms=expired))

    prepared(store, write)
    for queue in (orders, events):
        with pytest.raises(MessageNotFound):
            queue.get_message(message_id(9))
        queue.acknowledge(message_id(9))
    with pytest.raises(MessageNotFound):
        orders.get_message(taken.sequence)
    with pytest.raises(MessageNotFound):
        orders.update_message(Message("x", message_id=taken.message_id))
    orders.acknowledge(taken, taken.sequence, taken.message_id)
    with store.transaction() as transaction:
        transaction.queue("ORDERS").acknowledge(taken)
        transaction.topic("EVENTS").acknowledge_subscription("client", "reader", read, message_id(9))
    reader.acknowledge(read, passed, message_id(9))
    assert len(orders.recover_expired()) == 1
    assert orders.statistics().message_count == 1
    assert orders.remove_expired() == 1
    assert orders.remove_all_messages() == 0
    assert store.cleanup() == 1
    assert store.last_producer_sequence_id(PRODUCER) == 9

    store.xa.rollback(XID)

    assert content(orders) == ["taken"]
    assert content(events) == content(reader) == ["read"]
    assert store.cleanup() == 0


@pytest.mark.parametrize("outcome", ["rollback", "commit"])
def test_what_a_subscription_has_in_doubt_is_removed_by_nothing(
    open_store: OpenStore, restart: Restart, clock: FakeClock, outcome: str
) -> None:
    store = open_store(clock=clock)
    topic = store.topic("EVENTS")
    reader, witness = topic.subscribe("client", "reader"), topic.subscribe("client", "witness")
    expired = clock.now_ms() - 1
    first, read, _ = fill(topic, "first", "read", "other", expiration_ms=expired)
    reader.acknowledge(first)

    def write(transaction: XATransaction) -> None:
        transaction.topic("EVENTS").acknowledge_subscription("client", "reader", read)

    prepared(store, write)
    assert topic.remove_expired() == 2
    topic.acknowledge(read, read.sequence, read.message_id, *fill(topic, "for all"))
    with store.transaction() as transaction:
        transaction.topic("EVENTS").acknowledge(read, *fill(topic, "for all"))
    fill(topic, "purged", "purged")
    assert topic.remove_all_messages() == 2
    fill(topic, "with its topic")
    assert content(topic) == content(witness) == ["read", "with its topic"]
    assert store.delete_destination(topic.destination) == 1
    with pytest.raises(SubscriptionNotFound):
        witness.recover()

    store = restart(store)
    topic = store.topic("EVENTS")
    assert [info.subscription_name for info in topic.subscriptions()] == ["reader"]
    assert content(topic.subscription("client", "reader")) == []
    decide(store, outcome)

    reader = topic.subscription("client", "reader")
    assert content(reader) == (["read"] if outcome == "rollback" else [])
    reader.acknowledge(*reader.recover())
    assert store.cleanup() == 1
    store.delete_destination(topic.destination)
    assert store.destinations() == []


def test_a_sequence_of_another_destination_is_not_taken(store: Store) -> None:
    orders, events = store.queue("ORDERS"), store.topic("EVENTS")
    reader = events.subscribe("client", "reader")
    theirs = [*fill(store.queue("THEIRS"), "a"), *fill(store.topic("THEIRS"), "b")]
    [mine] = fill(orders, "mine")

    def write(transaction: XATransaction) -> None:
        transaction.queue("ORDERS").acknowledge(mine, *theirs, theirs[0].sequence)
        transaction.topic("EVENTS").acknowledge_subscription("client", "reader", *theirs)

    prepared(store, write)

    [branch] = store.xa.recover()
    assert branch.writes == (PreparedWrites(orders.destination, acknowledged=1),)
    assert content(store.queue("THEIRS")) == ["a"]
    store.xa.commit(XID)
    assert content(store.queue("THEIRS")) == ["a"]
    assert content(store.topic("THEIRS")) == ["b"]
    assert content(orders) == content(reader) == []


def test_what_is_added_comes_behind_what_readers_have_seen(store: Store) -> None:
    queue, topic = store.queue("ORDERS"), store.topic("EVENTS")
    subscription = topic.subscribe("client", "reader")

    def add(transaction: XATransaction) -> None:
        transaction.queue("ORDERS").add_message(Message("late"))
        transaction.topic("EVENTS").add_message(Message("late"))

    prepared(store, add)
    fill(queue, "early")
    fill(topic, "early")
    cursors = [source.recover().cursor for source in (queue, topic, subscription)]
    subscription.acknowledge(*subscription.recover())

    store.xa.commit(XID)

    for source, cursor in zip((queue, topic, subscription), cursors, strict=True):
        assert [message.body for message in source.recover(after=cursor)] == ["late"]
    assert store.last_sequence() == max(
        message.sequence or 0 for message in (*queue.recover(), *topic.recover())
    )
    assert content(subscription) == ["late"]


@pytest.mark.parametrize("prioritized", [False, True], ids=["in order", "by priority"])
@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_acknowledgements_out_of_order(
    store: Store, restart: Restart, prioritized: bool, outcome: str
) -> None:
    topic = store.topic("EVENTS", prioritized=prioritized)
    reader = topic.subscribe("client", "reader")
    a, b, c, d, e, f = fill(topic, *"abcdef", priority=3)
    reader.acknowledge(c)

    def acknowledge(*messages: object) -> Callable[[XATransaction], None]:
        def write(transaction: XATransaction) -> None:
            inside = transaction.topic("EVENTS")
            inside.acknowledge_subscription("client", "reader", *messages)  # type: ignore[arg-type]

        return write

    prepared(store, acknowledge(b, e))
    prepared(store, acknowledge(a, f), OTHER)
    store = restart(store)
    reader = store.topic("EVENTS").subscription("client", "reader")
    assert content(reader) == ["d"]
    reader.acknowledge(d)
    assert store.cleanup() == 2

    decide(store, outcome, OTHER)

    there = [] if outcome == "commit" else ["a", "f"]
    assert content(reader) == there
    store = restart(store)
    reader = store.topic("EVENTS").subscription("client", "reader")
    assert content(reader) == there
    store.xa.rollback(XID)
    assert content(reader) == sorted([*there, "b", "e"])
    reader.acknowledge(*reader.recover())
    store.cleanup()
    assert content(store.topic("EVENTS")) == []


def test_an_unsubscribed_acknowledgement_ends_with_its_subscription(store: Store) -> None:
    topic = store.topic("EVENTS")
    topic.subscribe("client", "reader")
    [read] = fill(topic, "read")

    def write(transaction: XATransaction) -> None:
        transaction.topic("EVENTS").acknowledge_subscription("client", "reader", read)
        transaction.queue("ORDERS").add_message(Message("a"))

    prepared(store, write)
    topic.unsubscribe("client", "reader")
    again = topic.subscribe("client", "reader", retroactive=True)

    [branch] = store.xa.recover()
    assert [(str(write.destination), write.added, write.acknowledged) for write in branch.writes] == [
        ("queue://ORDERS", 1, 0)
    ]
    store.xa.commit(XID)

    assert content(store.queue("ORDERS")) == ["a"]
    assert content(again) == ["read"]


def test_one_that_cannot_be_prepared_writes_nothing(store: Store) -> None:
    orders, topic = store.queue("ORDERS"), store.topic("EVENTS")
    topic.subscribe("client", "gone")
    [old] = fill(orders, "old")
    [read] = fill(topic, "read")
    transaction = store.xa.start(XID)
    transaction.queue("ORDERS").acknowledge(old)
    transaction.queue("ORDERS").add_message(Message("new"))
    transaction.topic("EVENTS").acknowledge_subscription("client", "gone", read)
    topic.unsubscribe("client", "gone")

    with pytest.raises(SubscriptionNotFound):
        transaction.prepare()

    assert content(orders) == ["old"]
    assert store.xa.recover() == []
    with pytest.raises(TransactionError):
        transaction.commit()


@pytest.mark.ours
def test_what_it_cannot_do_is_refused_as_it_comes(store: Store) -> None:
    [read] = fill(store.topic("EVENTS"), "read")
    transaction = store.xa.start(XID)
    with pytest.raises(TransactionError, match="outside"):
        transaction.queue("ORDERS").update_message(Message("x", message_id=message_id(1)))
    with pytest.raises(TransactionError, match="acknowledge_subscription"):
        transaction.topic("EVENTS").acknowledge(read)
    with pytest.raises(InvalidMessage):
        transaction.queue("ORDERS").acknowledge(Message("x"))

    for bad in (
        XATransactionId(1, b"", b"b"),
        XATransactionId(1, b"g" * 65, b""),
        XATransactionId(1, b"g", b"b" * 65),
        XATransactionId(1 << 31, b"g", b"b"),
    ):
        with pytest.raises(TransactionError, match="not an XID"):
            store.xa.start(bad)


def test_many_writes(store: Store, restart: Restart) -> None:
    queue, topic = store.queue("ORDERS"), store.topic("EVENTS")
    topic.subscribe("client", "reader")
    old = fill(queue, *map(str, range(1200)))
    news = fill(topic, *map(str, range(1200)))

    def write(transaction: XATransaction) -> None:
        transaction.queue("ORDERS").acknowledge(*old[:1100])
        transaction.topic("EVENTS").acknowledge_subscription("client", "reader", *news[:1100])
        for number in range(1100):
            transaction.queue("ORDERS").add_message(Message(f"new {number}"))

    prepared(store, write)
    store = restart(store)
    store.xa.commit(XID)

    assert store.queue("ORDERS").message_count() == 1200
    assert content(store.queue("ORDERS"))[98:102] == ["1198", "1199", "new 0", "new 1"]
    assert store.topic("EVENTS").subscription("client", "reader").message_count() == 100
    assert store.cleanup() == 1100


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_the_audit_knows_what_is_in_doubt(open_store: OpenStore, outcome: str) -> None:
    store = open_store(enable_audit=True)
    queue = store.queue("ORDERS")

    def add(transaction: XATransaction) -> None:
        transaction.queue("ORDERS").add_message(Message("a", message_id=message_id(1)))

    prepared(store, add)
    assert queue.add_message(Message("again", message_id=message_id(1))).sequence == -1
    duplicate = store.xa.start(OTHER)
    add(duplicate)
    assert not duplicate.prepare()

    decide(store, outcome)

    again = queue.add_message(Message("again", message_id=message_id(1))).sequence
    assert (again == -1) is (outcome == "commit")
    assert content(queue) == ["a" if outcome == "commit" else "again"]
