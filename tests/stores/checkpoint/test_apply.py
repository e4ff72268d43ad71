"""What a checkpoint writes: under given sequences, once, together with its mark."""

from __future__ import annotations

import pytest

from jdbcstore import Destination, Message, Store, XATransactionId
from jdbcstore.database.statements.store import LISTED
from jdbcstore.errors import JournalPending
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore, JournalMark, SubscriptionKey
from jdbcstore.testing import OpenStore
from jdbcstore.testing.messages import bodies, content, fill, message_id, sequences
from tests.support.databases import Database
from tests.support.statements import ACTIVEMQ_STATEMENTS

STORES = ("memory", "sqlite", "postgresql", "mariadb", "mariadb-pyodbc", "mysql")
pytestmark = pytest.mark.backends(*STORES)
JOURNAL = 86
NEWS = Destination.topic("NEWS")


def mark(applied: int = 0, written: int = 0, journal: int = JOURNAL) -> JournalMark:
    return JournalMark(journal, applied, written)


def base_of(store: Store) -> CheckpointedStore:
    assert isinstance(store, CheckpointedStore)
    return store


@pytest.fixture
def base(open_store: OpenStore) -> CheckpointedStore:
    return base_of(open_store(cleanup_period=0))


def test_all_of_it_is_there_with_its_mark(base: CheckpointedStore) -> None:
    queue, topic = base.queue("Q"), base.topic(NEWS)
    fill(queue, "a", "b")
    [a, b] = queue.recover()
    first = base.last_sequence() + 1_000
    assert base.journal_mark() is None

    base.apply(
        Changes(
            mark(3, first + 7),
            adds=[(first, queue.encode(Message("c"))), (first + 7, topic.encode(Message("news")))],
            updates=[(a.sequence or 0, queue.encode(a.replace(body="A")))],
            removes=[
                ("queue://Q", b.sequence or 0),
                ("queue://Q", first + 5),
                (NEWS.qualified_name, a.sequence or 0),
            ],
        )
    )

    assert content(queue) == ["A", "c"]
    assert (sequences(queue)[1], sequences(topic)) == (first, [first + 7])
    assert base.journal_mark() == mark(3, first + 7)
    assert base.last_sequence() >= first + 7


def test_twice_is_once(base: CheckpointedStore) -> None:
    queue = base.queue("Q")
    first = Changes(mark(1, 12), adds=[(10 + n, queue.encode(Message(f"m{n}"))) for n in range(3)])
    second = Changes(
        mark(2, 13), adds=[(13, queue.encode(Message("m3")))], removes=[("queue://Q", 10), ("queue://Q", 12)]
    )

    for changes in (first, first, second, second, first):
        base.apply(changes)

    assert content(queue) == ["m1", "m3"]
    assert base.journal_mark() == mark(1, 13)


def test_nothing_but_a_mark(base: CheckpointedStore) -> None:
    base.apply(Changes(mark(5)))
    base.apply(Changes(mark(6)))

    assert base.journal_mark() == mark(6)


def test_no_sequence_is_given_again(base: CheckpointedStore) -> None:
    queue = base.queue("Q")
    for last in (20, 25_000, 25_001):
        base.apply(Changes(mark(1, last), adds=[(last, queue.encode(Message("x")))]))
        base.apply(Changes(mark(1, last), removes=[("queue://Q", last)]))
        assert base.last_sequence() >= last
    base.apply(Changes(mark(1, 25_001, journal=0)))

    assert queue.add_message(Message("y")).sequence > 25_001
    queue.acknowledge(*queue.recover())


@pytest.mark.backends(*STORES[1:])
def test_a_store_that_is_opened_again_gives_none_again(open_store: OpenStore) -> None:
    before = base_of(open_store(cleanup_period=0))
    queue = before.queue("Q")
    before.apply(Changes(mark(1, 777, journal=0), adds=[(777, queue.encode(Message("x")))]))
    before.apply(Changes(mark(1, 777, journal=0), removes=[("queue://Q", 777)]))
    before.close()

    again = open_store(cleanup_period=0)

    assert again.last_sequence() == 777
    assert again.queue("Q").add_message(Message("y")).sequence > 777


@pytest.mark.parametrize("prioritized", [False, True])
def test_subscriptions_get_on(base: CheckpointedStore, prioritized: bool) -> None:
    topic = base.topic(NEWS, prioritized=prioritized)
    one, other = topic.subscribe("client", "one"), topic.subscribe("client", "other")
    fill(topic, "m0", "m1")
    one.acknowledge(topic.recover()[1])  # what the store knows from here on is not all there is
    first = base.last_sequence() + 1
    encoded = [topic.encode(Message(f"m{n + 2}", priority=4)) for n in range(4)]
    key, gone = SubscriptionKey(NEWS, "client", "one"), SubscriptionKey(NEWS, "client", "gone")
    zeroth = [pair for message in topic.recover(1) for pair in topic.resolve(message, with_priority=True)]

    for _ in range(2):
        base.apply(
            Changes(
                mark(1, first + 3),
                adds=list(enumerate(encoded, first)),
                acknowledgements={key: [*zeroth, (first, 4), (first + 2, 4)], gone: [(first, 4)]},
            )
        )

    assert content(one) == ["m3", "m5"]
    assert content(other) == [f"m{n}" for n in range(6)]
    assert one.message_count() == 2
    assert bodies(topic.recover()) == [f"m{n}" for n in range(6)]
    one.acknowledge(topic.recover()[3])
    base.apply(Changes(mark(2, first + 3), removes=[(NEWS.qualified_name, first + 3)]))
    other.acknowledge(*topic.recover())
    assert (content(one), content(other)) == ([], [])
    base.cleanup()
    assert content(topic) == []


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")
def test_the_mark_of_a_subscription_moves(base: CheckpointedStore, database: Database) -> None:
    topic = base.topic(NEWS)
    topic.subscribe("client", "one")
    adds = [(10 + n, topic.encode(Message("x"))) for n in range(5)]
    key = SubscriptionKey(NEWS, "client", "one")

    base.apply(Changes(mark(1, 14), adds=adds, acknowledgements={key: [(10, 0), (11, 0), (13, 0)]}))

    assert database.rows("SELECT LAST_ACKED_ID FROM ACTIVEMQ_ACKS") == [(11,)]
    assert database.rows("SELECT ID FROM JDBCSTORE_ACKS") == [(13,)]


@pytest.mark.parametrize("statements", [{}, ACTIVEMQ_STATEMENTS], ids=["ours", "activemq's"])
def test_an_update_of_what_is_gone_is_left_out(open_store: OpenStore, statements: dict[str, str]) -> None:
    base = base_of(open_store(cleanup_period=0, statements=statements))
    queue = base.queue("Q")
    kept, gone = Message("kept", message_id=message_id(1)), Message("gone", message_id=message_id(2))
    base.apply(Changes(mark(1, 11), adds=[(10, queue.encode(kept)), (11, queue.encode(gone))]))
    queue.acknowledge(11)

    new = [(10, queue.encode(kept.replace(body="new"))), (11, queue.encode(gone.replace(body="never")))]
    base.apply(Changes(mark(2, 12), adds=[(12, queue.encode(gone.replace(body="again")))], updates=new))

    assert [(m.sequence, m.body) for m in queue.recover()] == [(10, "new"), (12, "again")]


def test_what_is_present(base: CheckpointedStore) -> None:
    queue, other = base.queue("Q"), base.queue("OTHER")
    many = 2 * LISTED + 7
    adds = [(10 + n, queue.encode(Message("x"))) for n in range(many)]
    base.apply(Changes(mark(1, 5_000), adds=[*adds, (5_000, other.encode(Message("elsewhere")))]))
    transaction = base.xa.start(XATransactionId(1, b"global", b"branch"))
    transaction.queue("Q").acknowledge(12)
    transaction.queue("Q").add_message(Message("in doubt"))
    assert transaction.prepare()

    found = queue.present([*range(5_100)])

    assert set(found) == {10 + n for n in range(many)} - {12}
    assert sum(found.values()) == queue.statistics().message_bytes
    assert queue.present([]) == {}
    assert other.present([10, 5_000]).keys() == {5_000}


def test_what_a_reference_means(base: CheckpointedStore) -> None:
    queue = base.queue("Q", prioritized=True)
    encoded = queue.encode(Message("x", message_id=message_id(1), priority=7))
    base.apply(Changes(mark(1, 11), adds=[(10, encoded), (11, encoded)]))

    assert [number for number, _ in queue.resolve(message_id(1))] == [10, 11]
    assert queue.resolve(11, with_priority=True) == [(11, 7)]
    assert queue.resolve(message_id(2)) == []


def test_two_journals_are_not_mixed(base: CheckpointedStore) -> None:
    queue = base.queue("Q")
    base.apply(Changes(mark(9, 10), adds=[(10, queue.encode(Message("x")))]))

    with pytest.raises(JournalPending, match="number 86 has messages"):
        base.apply(Changes(mark(1, 11, journal=2), adds=[(11, queue.encode(Message("y")))]))

    assert (content(queue), base.journal_mark()) == (["x"], mark(9, 10))
    base.apply(Changes(mark(9, 10, journal=0)))
    base.apply(Changes(mark(1, 11, journal=2), adds=[(11, queue.encode(Message("y")))]))
    assert (content(queue), base.journal_mark()) == (["x", "y"], mark(1, 11, journal=2))
