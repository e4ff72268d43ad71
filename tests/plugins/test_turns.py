"""Delivery in an event loop of kombu's: when it looks at queues, and how it acknowledges."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import kombu
import pytest
from kombu.asynchronous import Hub

import jdbcstore.plugins.kombu  # noqa: F401
from jdbcstore import Claims, Message
from jdbcstore.plugins.turns import PollSchedule
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "galera", "group-replication")


def test_an_empty_queue_is_looked_at_less_and_less_often() -> None:
    clock = FakeClock()
    schedule, pauses = PollSchedule(clock), []
    for _ in range(7):
        assert schedule.seconds(1) == 0.0
        schedule.record(more=False, count=1, longest=1.0)
        pauses.append(round(schedule.seconds(1), 3))
        clock.advance(schedule.seconds(1))

    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    schedule.record(more=False, count=1, longest=1.0)
    assert schedule.seconds(2) == 0.0  # after a wake-up
    schedule.record(more=True, count=2, longest=1.0)
    assert schedule.seconds(2) == 0.0


class Loop:
    """A hub, and the consumer of one connection that is in it."""

    def __init__(self, url: str) -> None:
        self.hub = Hub()
        self.connection = kombu.Connection(f"jdbcstore+{url}", transport_options={"polling_interval": 0.2})
        self.found: list[kombu.Message] = []
        channel = self.connection.channel()
        queue = kombu.Queue("orders")
        queue(channel).declare()
        self.connection.register_with_event_loop(self.hub)
        self.consumer = kombu.Consumer(channel, [queue], on_message=self.found.append)
        self.consumer.consume()

    def run_until(self, number: int) -> None:
        """Run the loop until so many messages were delivered."""

        def turned() -> bool:
            self.hub.run_once()
            return len(self.found) >= number

        wait_until(turned)

    def close(self) -> None:
        self.consumer.cancel()
        self.connection.release()
        self.hub.close()


@pytest.fixture
def loop(database: Database) -> Iterator[Loop]:
    loop = Loop(database.url)
    yield loop
    loop.close()
    wait_until(lambda: database.connections() == 0, what="that closing left no connection")


def test_messages_are_delivered_and_acknowledged(loop: Loop, database: Database) -> None:
    with Claims(database.url) as others:
        orders = others.queue("orders")
        orders.add(Message("0"))
        loop.run_until(1)
        # Now the loop waits.
        orders.add(Message("1"), Message("2"))
        loop.run_until(3)

    assert sorted(one.payload for one in loop.found) == ["0", "1", "2"]
    for message in loop.found:
        message.ack()
    wait_until(lambda: database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == [])
    assert database.rows("SELECT ID FROM JDBCSTORE_CLAIMS") == []


def test_what_is_acknowledged_before_a_close_is_removed_and_the_rest_returned(database: Database) -> None:
    loop = Loop(database.url)
    publish(loop, "0")
    publish(loop, "1")
    loop.run_until(2)
    loop.found[0].ack()
    loop.close()

    with Claims(database.url) as claims:
        [left] = claims.queue("orders").claim(2, wait=180.0)
        assert (left.redeliveries, claims.queue("orders").count()) == (0, (1, 0))


def test_a_lost_claim_is_not_acknowledged(loop: Loop, database: Database) -> None:
    publish(loop, "0")
    loop.run_until(1)
    assert database.execute("DELETE FROM JDBCSTORE_CLAIM_SESSIONS") == 1
    with Claims(database.url) as other:
        [claim] = other.queue("orders").claim(wait=60.0)
        loop.found[0].ack()
        loop.close()
        assert other.queue("orders").count() == (1, 0)
        other.queue("orders").acknowledge(claim)


def test_a_task_with_an_eta_beyond_the_lease_is_not_held(loop: Loop, database: Database) -> None:
    now = datetime.now(UTC)
    publish(loop, "far", headers={"eta": (now + timedelta(hours=1)).isoformat()})
    publish(loop, "near", headers={"eta": (now + timedelta(seconds=20)).isoformat()})
    publish(loop, "odd", headers={"eta": "soon"})
    loop.run_until(2)

    assert sorted(one.payload for one in loop.found) == ["near", "odd"]
    # Its claim is nobody's, and due in an hour less the lease.
    [[due]] = database.rows("SELECT DUE FROM JDBCSTORE_CLAIMS WHERE SESSION IS NULL")
    expected = (now + timedelta(hours=1, seconds=-30)).timestamp() * 1000
    assert abs(due - expected) < 300_000


def publish(loop: Loop, body: Any, **options: Any) -> None:
    kombu.Producer(loop.connection.default_channel).publish(body, routing_key="orders", **options)
