"""Cancelling: queued writes can be withdrawn; those that have begun cannot."""

from __future__ import annotations

import sys

import pytest

from jdbcstore import Message, MessageStore, Store
from jdbcstore.errors import StoreClosed
from jdbcstore.testing.messages import message_id
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import NO_WAITING

COUNT = 600
"""More than twice what the writer takes at once, which is 256 of those that are not cancelled by then."""


def test_what_is_written_cannot_be_cancelled(queue: MessageStore) -> None:
    added = queue.add_message_async(Message("x"))
    reference = added.result(180)
    assert not added.cancel()
    removed = queue.acknowledge_async(reference)
    removed.result(180)
    assert not removed.cancel()
    assert queue.message_count() == 0


@NO_WAITING
@pytest.mark.ours
def test_what_is_cancelled_is_not_written(queue: MessageStore, database: RawTables) -> None:
    with database.blocked():
        futures = [queue.add_message_async(Message(str(number))) for number in range(COUNT)]
        cancelled = {number for number in range(0, COUNT, 2) if futures[number].cancel()}
        last = queue.add_message_async(Message("last"))
        assert last.cancel()
        assert last.cancel()
    kept = [number for number in range(COUNT) if number not in cancelled]
    sequences = [futures[number].result(180).sequence for number in kept]
    queue.add_message(Message("behind"))

    # Units that the writer had not taken.
    assert set(range(512, COUNT, 2)) <= cancelled
    assert sequences == sorted(sequences)
    assert [message.body for message in queue.recover(2 * COUNT)] == [*map(str, kept), "behind"]
    assert all(futures[number].cancelled() for number in cancelled)


@pytest.mark.ours
def test_a_cancelled_transaction_leaves_nothing(
    store: Store, queue: MessageStore, database: RawTables
) -> None:
    reference = queue.add_message(Message("old"))
    with database.blocked():
        for number in range(COUNT):
            queue.add_message_async(Message(str(number)))
        transaction = store.transaction()
        transaction.queue("ORDERS").add_message(Message("new"))
        transaction.queue("ORDERS").acknowledge(reference)
        committed = transaction.commit_async()
        assert committed.cancel()
    queue.add_message(Message("behind"))
    bodies = [message.body for message in queue.recover(2 * COUNT)]
    assert bodies == ["old", *map(str, range(COUNT)), "behind"]


@pytest.mark.ours
def test_a_cancelled_message_is_no_duplicate_when_it_comes_again(
    open_store: OpenStore, database: RawTables
) -> None:
    store = open_store(enable_audit=True)
    queue = store.queue("ORDERS")
    with database.blocked():
        futures = [
            queue.add_message_async(Message("x", message_id=message_id(number))) for number in range(COUNT)
        ]
        assert futures[-1].cancel()
    again = queue.add_message(Message("again", message_id=message_id(COUNT - 1)))
    assert again.sequence > 0
    assert queue.add_message(Message("x", message_id=message_id(0))).sequence == -1
    assert queue.message_count() == COUNT


@NO_WAITING
@pytest.mark.ours
def test_a_close_that_gives_up_leaves_the_cancelled_alone(
    store: Store, queue: MessageStore, database: RawTables
) -> None:
    with database.blocked():
        futures = [queue.add_message_async(Message("x")) for _ in range(COUNT)]
        assert futures[-1].cancel()
        with pytest.raises(StoreClosed) as closed:
            store.close(timeout=0.2)
        assert closed.value.unwritten == COUNT - 1
        assert not futures[-2].cancel()
    store.close()


@NO_WAITING
@pytest.mark.ours
def test_a_callback_that_exits_ends_nothing(open_store: OpenStore, database: RawTables) -> None:
    """Others hear of what they wrote with it, and the store continues."""
    queue = open_store().queue("ORDERS")
    heard: list[int] = []
    with database.blocked():
        for number in range(20):
            future = queue.add_message_async(Message(str(number)))
            future.add_done_callback(lambda _: sys.exit("a callback's"))
            future.add_done_callback(lambda done: heard.append(done.result().sequence))
    queue.add_message_async(Message("behind")).result(180)
    assert heard == [*range(1, 21)]
    assert queue.message_count() == 21
