"""Closing a store: accepted messages are written, or their callers are notified."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from jdbcstore import Message, MessageReference, MessageStore, ProducerId, Store, TopicMessageStore
from jdbcstore.errors import StoreClosed
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import NO_WAITING


def every_operation(
    store: Store, queue: MessageStore, topic: TopicMessageStore
) -> list[Callable[[], object]]:
    subscription, transaction = topic.subscribe("client", "ticker"), store.transaction()
    reference = queue.add_message(Message("a"))
    message = queue.get_message(reference.sequence)
    transaction.queue("ORDERS").add_message(message)
    return [
        lambda: queue.add_message(Message("b")),
        lambda: queue.add_message_async(Message("b")),
        lambda: queue.add_messages([Message("b")]),
        lambda: queue.acknowledge(reference),
        lambda: queue.acknowledge(reference.message_id),
        lambda: queue.acknowledge_async(reference),
        lambda: queue.update_message(message),
        lambda: queue.get_message(reference.sequence),
        lambda: queue.recover(),
        lambda: queue.recover_expired(),
        lambda: queue.remove_expired(),
        lambda: queue.remove_all_messages(),
        lambda: queue.message_count(),
        lambda: queue.statistics(),
        lambda: topic.acknowledge(reference),
        lambda: topic.subscribe("client", "other"),
        lambda: topic.subscription("client", "ticker"),
        lambda: topic.subscriptions(),
        lambda: topic.unsubscribe("client", "ticker"),
        lambda: subscription.recover(),
        lambda: subscription.message_count(),
        lambda: subscription.acknowledge(reference),
        lambda: subscription.acknowledge_async(reference),
        lambda: transaction.commit(),
        lambda: store.queue("NEW"),
        lambda: store.topic("NEW").message_count(),
        lambda: store.destinations(),
        lambda: store.delete_destination(queue.destination),
        lambda: store.last_sequence(),
        lambda: store.last_producer_sequence_id(ProducerId("a", 1, 1)),
        lambda: store.cleanup(),
    ]


@pytest.mark.ours
def test_nothing_works_after_the_close(store: Store) -> None:
    operations = every_operation(store, store.queue("ORDERS"), store.topic("PRICES"))
    store.close()

    for operation in operations:
        with pytest.raises(StoreClosed, match="open it again"):
            operation()


@pytest.mark.ours
def test_closing_again_does_nothing(store: Store) -> None:
    store.queue("ORDERS").add_message(Message("a"))

    store.close()
    store.close()
    store.close(timeout=1.0)


@pytest.mark.ours
def test_a_block_closes_at_its_end(open_store: OpenStore) -> None:
    with open_store() as store:
        store.queue("ORDERS").add_message(Message("a"))

    with pytest.raises(StoreClosed):
        store.queue("ORDERS").message_count()


def test_what_was_accepted_is_written(store: Store, queue: MessageStore, database: RawTables) -> None:
    futures = [queue.add_message_async(Message(str(number))) for number in range(1_000)]
    transaction = store.transaction()
    transaction.queue("ORDERS").add_message(Message("last"))
    commit = transaction.commit_async()

    store.close()

    assert [future.result(0).sequence for future in futures] == list(range(1, 1_001))
    assert commit.result(0)[0].sequence == 1_001
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(1_001,)]


@NO_WAITING
@pytest.mark.ours
def test_callers_wait_while_the_queue_is_full(open_store: OpenStore, database: RawTables) -> None:
    store = open_store(max_pending_count=3)
    queue = store.queue("ORDERS")
    accepted: list[Future[MessageReference]] = []

    def send() -> None:
        for number in range(40):
            accepted.append(queue.add_message_async(Message(str(number))))

    thread = threading.Thread(target=send)
    with database.blocked():
        thread.start()
        thread.join(0.3)
        # Three wait, and as many may have been taken before the first met the lock.
        assert 3 <= len(accepted) <= 6
        assert thread.is_alive()
    thread.join(180)

    assert [future.result(180).sequence for future in accepted] == list(range(1, 41))


@NO_WAITING
@pytest.mark.ours
def test_callers_wait_while_too_many_bytes_are_queued(open_store: OpenStore, database: RawTables) -> None:
    store = open_store(max_pending_bytes=100_000)
    queue = store.queue("ORDERS")
    accepted: list[Future[MessageReference]] = []

    def send() -> None:
        for _ in range(40):
            accepted.append(queue.add_message_async(Message(b"x" * 40_000)))

    thread = threading.Thread(target=send)
    with database.blocked():
        thread.start()
        thread.join(0.3)
        assert 3 <= len(accepted) <= 6
    thread.join(180)

    assert len({future.result(180) for future in accepted}) == 40
    # One that is larger than the bound alone is taken all the same.
    assert queue.add_message(Message(b"x" * 200_000)).sequence == 41


@NO_WAITING
@pytest.mark.ours
def test_a_caller_that_waits_for_room_learns_of_the_close(open_store: OpenStore, database: RawTables) -> None:
    store = open_store(max_pending_count=1)
    queue = store.queue("ORDERS")
    ends: list[StoreClosed] = []

    def send() -> None:
        try:
            for number in range(40):
                queue.add_message_async(Message(str(number)))
        except StoreClosed as closed:
            ends.append(closed)

    thread = threading.Thread(target=send)
    with database.blocked():
        thread.start()
        thread.join(0.2)
        with pytest.raises(StoreClosed):
            store.close(timeout=0.1)
        thread.join(180)

    assert len(ends) == 1
