"""Expired messages: found and removed when asked, by the store's clock."""

from __future__ import annotations

from jdbcstore import MessageStore, Store, pages
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import bodies, content, fill
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables


def fill_over_time(destination: MessageStore, clock: FakeClock) -> None:
    now = clock.now_ms()
    fill(destination, "never")
    fill(destination, "in 3 s", expiration_ms=now + 3_000)
    fill(destination, "past", expiration_ms=now - 1)
    fill(destination, "in 1 s", expiration_ms=now + 1_000)
    fill(destination, "long past", expiration_ms=1)


def test_expired_messages_are_found_in_order(open_store: OpenStore, clock: FakeClock) -> None:
    queue = open_store(clock=clock).queue("ORDERS")
    fill_over_time(queue, clock)

    assert bodies(queue.recover_expired()) == ["past", "long past"]
    clock.advance(1.0)
    assert bodies(queue.recover_expired()) == ["past", "long past"]
    clock.advance(0.001)
    assert bodies(queue.recover_expired()) == ["past", "in 1 s", "long past"]
    clock.advance(1_000_000.0)
    assert bodies(queue.recover_expired()) == ["in 3 s", "past", "in 1 s", "long past"]


def test_finding_them_is_paged(open_store: OpenStore, clock: FakeClock) -> None:
    queue = open_store(clock=clock).queue("ORDERS")
    for number in range(7):
        fill(queue, f"stays {number}")
        fill(queue, f"goes {number}", expiration_ms=1)

    expired: list[object] = []
    page = queue.recover_expired(limit=3)
    while True:
        expired += bodies(page)
        if page.at_end:
            break
        page = queue.recover_expired(limit=3, after=page.cursor)

    assert expired == [f"goes {number}" for number in range(7)]


def test_expired_messages_stay_until_they_are_removed(open_store: OpenStore, clock: FakeClock) -> None:
    queue = open_store(clock=clock).queue("ORDERS")
    fill_over_time(queue, clock)

    assert content(queue) == ["never", "in 3 s", "past", "in 1 s", "long past"]
    assert queue.message_count() == 5


def test_removing_them(open_store: OpenStore, clock: FakeClock) -> None:
    store = open_store(clock=clock)
    queue, other = store.queue("ORDERS"), store.queue("OTHER")
    fill_over_time(queue, clock)
    fill(other, "expired elsewhere", expiration_ms=1)
    reported: list[int] = []

    assert queue.remove_expired(reported.append) == 2
    assert content(queue) == ["never", "in 3 s", "in 1 s"]
    clock.advance(3.001)
    assert queue.remove_expired() == 2
    assert queue.remove_expired() == 0

    assert content(queue) == ["never"]
    assert content(other) == ["expired elsewhere"]
    assert sum(reported) == 2


def test_removing_many(open_store: OpenStore, clock: FakeClock) -> None:
    queue = open_store(clock=clock).queue("ORDERS")
    fill(queue, *["old"] * 2_300, expiration_ms=1)
    fill(queue, "new", expiration_ms=clock.now_ms() + 1)
    reported: list[int] = []

    assert queue.remove_expired(reported.append) == 2_300

    assert sum(reported) == 2_300
    assert len(reported) > 1
    assert content(queue) == ["new"]


def test_removing_them_from_a_topic(open_store: OpenStore, clock: FakeClock) -> None:
    topic = open_store(clock=clock).topic("PRICES")
    subscription = topic.subscribe("client", "ticker")
    fill_over_time(topic, clock)

    assert topic.remove_expired() == 2

    assert content(subscription) == ["never", "in 3 s", "in 1 s"]
    assert subscription.message_count() == 3


def test_by_sequence_where_delivery_is_by_priority(open_store: OpenStore, clock: FakeClock) -> None:
    queue = open_store(clock=clock).queue("ORDERS", prioritized=True)
    for priority in (1, 9, 4):
        fill(queue, str(priority), priority=priority, expiration_ms=1)
    fill(queue, "stays", priority=9)

    expired = [message.body for page in pages(queue, 2) for message in page]
    assert expired == ["9", "stays", "4", "1"]
    first = queue.recover_expired(limit=2)
    assert bodies(first) == ["1", "9"]
    assert bodies(queue.recover_expired(limit=2, after=first.cursor)) == ["4"]
    assert queue.remove_expired() == 3
    assert content(queue) == ["stays"]


def test_by_the_store_s_clock_not_the_machine_s(open_store: OpenStore) -> None:
    queue = open_store(clock=FakeClock(5_000)).queue("ORDERS")
    fill(queue, "a", expiration_ms=4_999)
    fill(queue, "b", expiration_ms=5_000)

    assert bodies(queue.recover_expired()) == ["a"]


def test_the_column_says_when(store: Store, database: RawTables) -> None:
    fill(store.queue("ORDERS"), "a", expiration_ms=1_234)
    fill(store.queue("ORDERS"), "b")

    assert database.rows("SELECT EXPIRATION FROM ACTIVEMQ_MSGS ORDER BY ID") == [(1_234,), (0,)]
