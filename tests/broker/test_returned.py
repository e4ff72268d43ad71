"""Messages whose clients leave without an acknowledgement, where that counts as a rejection."""

from __future__ import annotations

import pytest

from jdbcstore import Store
from jdbcstore.broker.stomp.frames import Version
from jdbcstore.config.policy import PolicyEntry, RedeliveryPolicy
from jdbcstore.testing.polling import wait_until
from tests.support.broker.stomp.serving import Client, Served

pytestmark = pytest.mark.backends("memory", "sqlite")
QUEUE = "/queue/Q"


def counting(most: int) -> PolicyEntry:
    redelivery = RedeliveryPolicy(
        maximum_redeliveries=most, initial_redelivery_delay=0.0, redelivery_delay=0.0, counts_returned=True
    )
    return PolicyEntry(redelivery_policy=redelivery)


def test_another_consumer_gets_them_in_order(store: Store) -> None:
    with Served(store, counting(3)) as served, Client(served.port) as leaving, Client(served.port) as other:
        leaving.subscribe(QUEUE, ack="client", activemq__prefetchSize="3")
        for number in range(6):
            leaving.write("SEND", {"destination": QUEUE, "persistent": "true"}, str(number).encode())
        assert [frame.body for frame in leaving.messages(3)] == [b"0", b"1", b"2"]
        other.subscribe(QUEUE, ack="client", activemq__prefetchSize="1")
        assert other.expect("MESSAGE").body == b"3"
        leaving.request("DISCONNECT")
        leaving.socket.close()
        wait_until(lambda: served.connector.connections == 1)
        other.request("UNSUBSCRIBE", {"id": "0"})
        other.subscribe(QUEUE, "1", ack="client")
        assert [frame.body for frame in other.messages(6)] == [str(n).encode() for n in range(6)]


def test_what_a_durable_subscriber_returns_is_dead_in_the_end(store: Store) -> None:
    with Served(store, counting(1)) as served, Client(served.port) as sender:
        for number in range(2):
            with Client(served.port, Version.V1_2, **{"client-id": "a"}) as client:
                client.subscribe("/topic/T", ack="client", activemq__subscriptionName="s")
                if not number:
                    sender.send("/topic/T", "x")
                assert client.expect("MESSAGE").body == b"x"
                if number:
                    client.request("DISCONNECT")
        wait_until(lambda: store.queue("ActiveMQ.DLQ").message_count() == 1)
        with Client(served.port, Version.V1_2, **{"client-id": "a"}) as client:
            client.subscribe("/topic/T", ack="client", activemq__subscriptionName="s")
            assert client.has_nothing_more()


def test_a_broker_that_stops_counts_nothing(store: Store) -> None:
    for _ in range(2):
        with Served(store, counting(0)) as served, Client(served.port) as client:
            if store.queue("Q").message_count() == 0:
                client.send(QUEUE, "x")
            client.subscribe(QUEUE, ack="client")
            assert client.expect("MESSAGE").body == b"x"
            served.run(served.connector.stop(0.1))
    assert store.queue("Q").message_count() == 1
