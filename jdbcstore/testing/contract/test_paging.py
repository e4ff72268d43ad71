"""Recovering in pages: each message once, in delivery order, whatever happens between two pages."""

from __future__ import annotations

import random

import pytest

from jdbcstore import Message, MessageStore, Store, TopicMessageStore, pages
from jdbcstore.testing.messages import bodies, content, fill, sequences
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import TOPICS_ELSEWHERE

NUMBERS = list(map(str, range(23)))


@pytest.mark.parametrize("limit", [1, 2, 22, 23, 24, 500, 1 << 63])
def test_pages_of_any_size(store: Store, queue: MessageStore, limit: int) -> None:
    for number in NUMBERS:
        fill(store.queue("BETWEEN"), "not here")
        fill(queue, number)

    all_pages = list(pages(queue, limit))

    assert [body for page in all_pages for body in bodies(page)] == NUMBERS
    assert all(len(page) <= limit for page in all_pages)
    assert [page.at_end for page in all_pages] == [False] * (len(all_pages) - 1) + [True]


@pytest.mark.ours
@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_has_at_least_one_message(store: Store, limit: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        store.queue("ORDERS").recover(limit)
    with pytest.raises(ValueError, match="at least one"):
        store.topic("PRICES").subscribe("client", "ticker").recover(limit)


def test_an_empty_destination(store: Store) -> None:
    page = store.queue("ORDERS").recover()

    assert (page.messages, page.at_end, page.corrupt) == ((), True, ())
    fill(store.queue("ORDERS"), "a")
    assert bodies(store.queue("ORDERS").recover(after=page.cursor)) == ["a"]


def test_a_cursor_is_good_for_ever(queue: MessageStore) -> None:
    references = fill(queue, *NUMBERS)
    first = queue.recover(limit=5)

    queue.acknowledge(*references[:10])
    fill(queue, "new")

    assert bodies(queue.recover(limit=3, after=first.cursor)) == ["10", "11", "12"]
    assert content(queue)[-1] == "new"
    assert bodies(queue.recover(after=first.cursor)) == [*NUMBERS[10:], "new"]


def test_what_is_added_meanwhile_comes_at_the_end(queue: MessageStore) -> None:
    fill(queue, *NUMBERS)
    read: list[object] = []

    for page in pages(queue, 4):
        if len(read) == 8:
            fill(queue, "late")
        read += bodies(page)

    assert read == [*NUMBERS, "late"]


def test_the_page_behind_the_last(queue: MessageStore) -> None:
    fill(queue, "a", "b")
    page = queue.recover(limit=2)
    assert not page.at_end

    behind = queue.recover(limit=2, after=page.cursor)

    assert (behind.messages, behind.at_end) == ((), True)
    fill(queue, "c")
    assert bodies(queue.recover(after=behind.cursor)) == ["c"]


@pytest.mark.parametrize("limit", [1, 3, 500])
def test_a_subscription_s_pages_leave_out_what_it_has_acknowledged(
    topic: TopicMessageStore, limit: int
) -> None:
    subscription = topic.subscribe("client", "ticker")
    references = fill(topic, *NUMBERS)
    done = random.Random(3).sample(range(23), 11)

    subscription.acknowledge(*[references[number] for number in done])

    assert content(subscription, limit) == [NUMBERS[n] for n in range(23) if n not in done]
    assert content(topic, limit) == NUMBERS


def test_acknowledging_page_by_page(queue: MessageStore, topic: TopicMessageStore) -> None:
    subscription = topic.subscribe("client", "ticker")
    fill(queue, *NUMBERS)
    fill(topic, *NUMBERS)

    for source in (queue, subscription):
        read: list[object] = []
        while page := source.recover(limit=4):
            read += bodies(page)
            source.acknowledge(*page)
        assert read == NUMBERS
        assert source.message_count() == 0


@pytest.mark.ours
def test_a_page_is_a_sequence(queue: MessageStore) -> None:
    fill(queue, "a", "b", "c")

    page = queue.recover()

    assert len(page) == 3
    assert page[0].body == "a"
    assert bodies(page[1:]) == ["b", "c"]
    assert page[2] in page
    assert "3" in repr(page)


@pytest.mark.slow
def test_each_page_costs_what_it_holds(store: Store, database: RawTables) -> None:
    """A page behind a cursor far out starts there: no row before it is looked at again."""
    queue = store.queue("ORDERS")
    references = fill(queue, *map(str, range(3_000)))
    page = queue.recover(limit=2_500)
    # Were the rows before the cursor read again, these would show up as corrupt.
    database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = NULL WHERE ID <= :last", last=references[2_000].sequence)

    rest = queue.recover(after=page.cursor)

    assert bodies(rest) == list(map(str, range(2_500, 3_000)))
    assert rest.corrupt == ()


@TOPICS_ELSEWHERE
def test_prepared_messages_are_left_out(store: Store, database: RawTables) -> None:
    """Rows of an XA transaction that an ActiveMQ has prepared."""
    queue, topic = store.queue("ORDERS"), store.topic("PRICES")
    subscription = topic.subscribe("client", "ticker")
    fill(queue, "a", "b")
    fill(topic, "c", "d")
    fill(queue, *map(str, range(3)))
    database.execute("UPDATE ACTIVEMQ_MSGS SET XID = 'xyz' WHERE ID IN (1, 3)")

    assert sequences(queue) == [2, 5, 6, 7]
    assert queue.message_count() == queue.statistics().message_count == 4
    assert sequences(topic) == sequences(subscription) == [4]
    assert subscription.message_count() == 1
    assert queue.remove_all_messages() == 4
    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID") == [(1,), (3,), (4,)]


def test_large_messages(queue: MessageStore) -> None:
    queue.add_messages(Message(bytes([number]) * 300_000) for number in range(5))

    read = [message.body for page in pages(queue, 2) for message in page]

    assert read == [bytes([number]) * 300_000 for number in range(5)]
