"""Batches: many messages, or many acknowledgements, in one call with one future."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from jdbcstore import (
    Destination,
    Message,
    MessageId,
    MessageReference,
    MessageStore,
    Store,
    TopicMessageStore,
)
from jdbcstore.errors import InvalidMessage, StoreClosed
from jdbcstore.testing.messages import content, fill, message_id, sequences
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import NO_WAITING

COUNT = 300
"""More than the writer takes at once."""


def batch(*bodies: object) -> list[Message]:
    return [Message(str(body)) for body in bodies]


def test_a_batch_is_stored_in_its_order(queue: MessageStore) -> None:
    before = queue.add_message_async(Message("before"))
    added = queue.add_messages_async(batch(*range(COUNT)))
    behind = queue.add_message_async(Message("behind"))
    references = added.result(180)

    assert [reference.sequence for reference in references] == [
        *range(before.result(180).sequence + 1, behind.result(180).sequence)
    ]
    assert content(queue) == ["before", *map(str, range(COUNT)), "behind"]
    assert sequences(queue)[1:-1] == [reference.sequence for reference in references]
    stored = queue.recover(COUNT + 2).messages[1:-1]
    assert [message.message_id for message in stored] == [reference.message_id for reference in references]


def test_an_empty_batch(store: Store, queue: MessageStore) -> None:
    assert queue.add_messages_async([]).result(180) == []
    assert queue.add_each_async([]).result(180) == []
    queue.acknowledge_async().result(180)
    assert store.last_sequence() == 0


def test_a_batch_of_a_topic_reaches_its_subscriptions(topic: TopicMessageStore) -> None:
    ticker = topic.subscribe("client", "ticker")
    first = topic.add_messages_async(message for message in batch("a", "b")).result(180)
    [second] = topic.add_each_async(batch("c")).result(180)

    assert content(ticker) == ["a", "b", "c"]
    assert isinstance(second, MessageReference)
    ticker.acknowledge_async(*first, second).result(180)
    assert content(ticker) == []


@pytest.mark.ours
@pytest.mark.variants("journaled")
def test_a_batch_with_a_message_that_cannot_be_stored_is_refused_at_once(queue: MessageStore) -> None:
    unfit = Message("x", message_id=MessageId.parse("x" * 300 + ":1:1:1"))
    with pytest.raises(InvalidMessage):
        queue.add_messages_async([*batch("good"), unfit, *batch("good")])
    assert content(queue) == []


@pytest.mark.variants("journaled", "filtered")
def test_each_of_a_batch_has_its_own_outcome(store: Store) -> None:
    """It needs no destination of its own here; a given one is remembered."""
    queue = store.queue("ORDERS")
    unfit = Message("x", message_id=MessageId.parse("x" * 300 + ":1:1:1"))
    sent_to = Destination.queue("ELSEWHERE")
    outcomes = queue.add_each_async(
        [*batch("a"), unfit, Message("b", destination=sent_to), *batch("c")]
    ).result(180)

    assert isinstance(outcomes[1], InvalidMessage)
    stored = [outcome for outcome in outcomes if isinstance(outcome, MessageReference)]
    assert content(queue) == ["a", "b", "c"]
    assert sequences(queue) == [reference.sequence for reference in stored]
    assert queue.get_message(stored[1].sequence).original_destination == sent_to
    assert queue.get_message(stored[0].sequence).original_destination is None


@pytest.mark.ours
def test_duplicates_in_a_batch(open_store: OpenStore) -> None:
    queue = open_store(enable_audit=True).queue("ORDERS")
    fill(queue, "seen", message_id=message_id(1))
    again = [Message("x", message_id=message_id(number)) for number in (1, 2, 2, 3)]
    together = queue.add_messages_async(again).result(180)
    each = queue.add_each_async([*again, Message("new", message_id=message_id(4))]).result(180)

    assert [reference.sequence > 0 for reference in together] == [False, True, False, True]
    is_new = [reference.sequence > 0 for reference in each if isinstance(reference, MessageReference)]
    assert is_new == [False, False, False, False, True]
    assert queue.message_count() == 4


@NO_WAITING
@pytest.mark.ours
def test_a_cancelled_batch_leaves_nothing(queue: MessageStore, database: RawTables) -> None:
    old = fill(queue, "old", "gone")
    with database.blocked():
        for number in range(COUNT):
            queue.add_message_async(Message(str(number)))
        together = queue.add_messages_async(batch(*"abc"))
        each = queue.add_each_async(batch(*"def"))
        removed = queue.acknowledge_async(*old)
        kept = queue.add_messages_async(batch(*"xyz"))
        assert together.cancel()
        assert each.cancel()
        assert removed.cancel()
    assert [reference.sequence for reference in kept.result(180)] == sequences(queue)[-3:]
    assert content(queue) == ["old", "gone", *map(str, range(COUNT)), "x", "y", "z"]
    assert not kept.cancel()


@NO_WAITING
@pytest.mark.ours
def test_a_close_writes_the_batches_that_are_queued(open_store: OpenStore, database: RawTables) -> None:
    store = open_store()
    queue = store.queue("ORDERS")
    closing = threading.Thread(target=store.close)
    with database.blocked():
        futures: list[Future[Any]] = [queue.add_messages_async(batch(*range(10))) for _ in range(5)]
        futures.append(queue.add_each_async(batch(*range(10))))
        closing.start()
    closing.join(180)
    assert [len(future.result(180)) for future in futures] == [10] * 6
    assert open_store().queue("ORDERS").message_count() == 60


@NO_WAITING
@pytest.mark.ours
def test_a_close_that_abandons_a_batch_notifies_its_caller(
    open_store: OpenStore, database: RawTables
) -> None:
    store = open_store()
    queue = store.queue("ORDERS")
    with database.blocked():
        for number in range(COUNT):
            queue.add_message_async(Message(str(number)))
        together = queue.add_messages_async(batch(*"abc"))
        with pytest.raises(StoreClosed):
            store.close(timeout=0.2)
        with pytest.raises(StoreClosed):
            together.result(180)
    assert not {"a", "b", "c"} & {*content(open_store().queue("ORDERS"))}


@pytest.mark.ours
def test_no_batch_is_accepted_after_a_close(store: Store, queue: MessageStore) -> None:
    store.close()
    with pytest.raises(StoreClosed):
        queue.add_messages_async(batch("a"))
    with pytest.raises(StoreClosed):
        queue.add_each_async(batch("a"))


@pytest.mark.ours
@pytest.mark.variants("journaled")
def test_batches_larger_than_the_queue_are_written_whole(open_store: OpenStore) -> None:
    """A batch counts as one write, with the bytes of all its messages."""
    queue = open_store(max_pending_count=1, max_pending_bytes=10_000).queue("ORDERS")
    futures = [
        queue.add_messages_async([Message(f"{number} " + "x" * 5_000) for _ in range(10)])
        for number in range(20)
    ]
    batches = [future.result(180) for future in futures]
    assert [[reference.sequence for reference in some] for some in batches] == [
        [*range(number * 10 + 1, number * 10 + 11)] for number in range(20)
    ]
    assert [str(body).split()[0] for body in content(queue)] == [
        str(number) for number in range(20) for _ in range(10)
    ]


@pytest.mark.ours
def test_tasks_await_batches(queue: MessageStore) -> None:
    async def work() -> None:
        every = await asyncio.gather(*(queue.add_messages_async(batch(*range(10))) for _ in range(20)))
        await asyncio.gather(*(queue.acknowledge_async(*references[1:]) for references in every))

    asyncio.run(asyncio.wait_for(work(), 180))
    assert content(queue) == ["0"] * 20


def test_acknowledging_old_and_recent_messages_in_one_call(store: Store) -> None:
    """Of one queue only, by any name, and those that are gone or never were have no effect."""
    queue, other = store.queue("ORDERS"), store.queue("OTHER")
    old = fill(queue, *map(str, range(10)))
    queue.acknowledge(old[0])
    [elsewhere] = fill(other, "elsewhere")
    checkpoint = getattr(store, "checkpoint", None)
    if checkpoint is not None:
        checkpoint()
    recent = queue.add_messages_async(batch(*range(10, 20))).result(180)

    queue.acknowledge_async(
        *recent[:3],
        recent[0].sequence,
        old[0],
        *queue.recover(2),
        recent[3].message_id,
        elsewhere,
        recent[-1].sequence + 1000,
        old[-1].sequence,
    ).result(180)

    assert content(queue) == [*map(str, range(3, 9)), *map(str, range(14, 20))]
    assert content(other) == ["elsewhere"]
