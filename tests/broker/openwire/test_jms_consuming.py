"""ActiveMQ's JMS client: acknowledgements, transactions, redelivery, prefetch, selectors, browsers."""

from __future__ import annotations

import threading
import time
from typing import Any

import jpype
import pytest

from jdbcstore import Store
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.destination import Destination
from tests.support.broker.openwire.jms import (
    AUTO,
    CLIENT,
    DUPS_OK,
    INDIVIDUAL,
    Jms,
    activemq,
    java,
    refused,
    take,
)
from tests.support.broker.openwire.serving import Served
from tests.support.polling import wait_until

pytestmark = pytest.mark.backends("memory")

SOON = 300
"""Milliseconds in which a message that must not come would have come."""


def fill(url: str, count: int = 4, queue: str = "Q") -> None:
    with Jms(url) as client:
        client.send(queue, *(f"m{number}" for number in range(1, count + 1)))


def rest(store: Store, queue: str = "Q") -> list[str]:
    """The bodies that are still stored."""
    return [str(message.body) for message in store.queue(queue).recover()]


def is_left(store: Store, *bodies: str, queue: str = "Q") -> None:
    wait_until(lambda: rest(store, queue) == [*bodies], 30, f"that {bodies} are left")


# Acknowledgements


@pytest.mark.parametrize("mode", [AUTO, DUPS_OK])
def test_modes_that_acknowledge_by_themselves(broker_url: str, store: Store, mode: int) -> None:
    fill(broker_url)
    with Jms(broker_url, mode) as client:
        consumer = client.consumer("Q")
        assert client.texts(consumer, 4) == ["m1", "m2", "m3", "m4"]
        consumer.close()
        is_left(store)


def test_client_acknowledges_all_so_far(broker_url: str, store: Store) -> None:
    fill(broker_url)
    with Jms(broker_url, CLIENT) as client:
        consumer = client.consumer("Q")
        take(consumer)
        take(consumer).acknowledge()
        take(consumer)
        is_left(store, "m3", "m4")


def test_what_is_not_acknowledged_comes_again_and_says_so(broker_url: str) -> None:
    fill(broker_url, 3)
    with Jms(broker_url, CLIENT) as client:
        consumer = client.consumer("Q")
        take(consumer).acknowledge()
        take(consumer)
    with Jms(broker_url) as client:
        consumer = client.consumer("Q")
        second, third = take(consumer), take(consumer)
        assert [str(second.getText()), str(third.getText())] == ["m2", "m3"]
        assert second.getJMSRedelivered()
        assert second.getIntProperty("JMSXDeliveryCount") == 2
        assert not third.getJMSRedelivered()  # it was only prefetched


def test_individual_acknowledgements_in_any_order(broker_url: str, store: Store) -> None:
    fill(broker_url)
    with Jms(broker_url, INDIVIDUAL) as client:
        consumer = client.consumer("Q")
        messages = [take(consumer) for _ in range(4)]
        for message in (messages[2], messages[0]):
            message.acknowledge()
        is_left(store, "m2", "m4")


def test_recover_delivers_again(broker_url: str) -> None:
    fill(broker_url, 2)
    with Jms(broker_url, CLIENT) as client:
        consumer = client.consumer("Q")
        assert client.texts(consumer, 2) == ["m1", "m2"]
        client.session.recover()
        again = take(consumer)
        assert str(again.getText()) == "m1"
        assert again.getJMSRedelivered()


def test_optimised_acknowledgements(broker_url: str, store: Store) -> None:
    fill(broker_url, 30)
    with Jms(broker_url, jms__optimizeAcknowledge="true", jms__prefetchPolicy__all="10") as client:
        consumer = client.consumer("Q")
        assert len(client.texts(consumer, 30)) == 30
        consumer.close()
        is_left(store)


def test_a_listener(broker_url: str, store: Store) -> None:
    fill(broker_url, 10)
    received: list[str] = []
    done = threading.Event()

    @jpype.JImplements(java("javax.jms.MessageListener"))
    class Listener:
        @jpype.JOverride  # type: ignore[untyped-decorator]
        def onMessage(self, message: Any) -> None:  # noqa: N802
            received.append(str(message.getText()))
            if len(received) == 10:
                done.set()

    with Jms(broker_url) as client:
        client.consumer("Q").setMessageListener(Listener())
        assert done.wait(30)
        is_left(store)
    assert received == [f"m{number}" for number in range(1, 11)]


# Prefetch and pulling


def test_a_prefetch_leaves_the_others_to_other_consumers(broker_url: str) -> None:
    fill(broker_url)
    with Jms(broker_url, CLIENT) as one, Jms(broker_url) as two:
        first = one.consumer("Q?consumer.prefetchSize=1")
        assert one.texts(first, 1) == ["m1"]
        second = two.consumer("Q?consumer.prefetchSize=1")
        assert two.texts(second, 2) == ["m3", "m4"]  # the one after its message is the first's


def test_more_than_the_prefetch_in_one_transaction(broker_url: str, store: Store) -> None:
    fill(broker_url, 50)
    with Jms(broker_url, None) as client:
        consumer = client.consumer("Q?consumer.prefetchSize=5")
        assert len(client.texts(consumer, 50)) == 50
        client.session.commit()
        is_left(store)


def test_more_than_the_prefetch_before_an_acknowledgement(broker_url: str, store: Store) -> None:
    fill(broker_url, 50)
    with Jms(broker_url, CLIENT) as client:
        consumer = client.consumer("Q?consumer.prefetchSize=5")
        messages = [take(consumer) for _ in range(50)]
        messages[-1].acknowledge()
        is_left(store)


def test_pulling(broker_url: str, store: Store) -> None:
    fill(broker_url, 3)
    with Jms(broker_url) as client:
        consumer = client.consumer("Q?consumer.prefetchSize=0")
        assert str(consumer.receiveNoWait().getText()) == "m1"
        assert client.texts(consumer, 2) == ["m2", "m3"]
        assert consumer.receiveNoWait() is None
        assert consumer.receive(SOON) is None
        client.send("Q", "late")
        assert client.texts(consumer, 1) == ["late"]
        consumer.close()
        is_left(store)


def test_a_pull_that_waits_gets_what_comes_later(broker_url: str) -> None:
    with Jms(broker_url) as client, Jms(broker_url) as producer:
        consumer = client.consumer("Q?consumer.prefetchSize=0")
        found: list[str] = []
        waiting = threading.Thread(target=lambda: found.extend(client.texts(consumer, 1)))
        waiting.start()
        producer.send("Q", "at last", "later")
        waiting.join(30)
        assert found == ["at last"]
        assert producer.browse("Q") == ["later"] or producer.browse("Q") == ["at last", "later"]


# Transactions


def test_a_commit_sends_and_acknowledges(broker_url: str, store: Store) -> None:
    fill(broker_url, 2)
    with Jms(broker_url, None) as client:
        consumer = client.consumer("Q")
        assert client.texts(consumer, 1) == ["m1"]
        client.send("OUT", "made of m1")
        assert rest(store, "OUT") == []
        assert rest(store) == ["m1", "m2"]
        client.session.commit()
        is_left(store, "m2")
        assert rest(store, "OUT") == ["made of m1"]


def test_a_rollback_drops_sends_and_delivers_again(broker_url: str, store: Store) -> None:
    fill(broker_url, 2)
    with Jms(broker_url, None) as client:
        consumer = client.consumer("Q")
        assert client.texts(consumer, 2) == ["m1", "m2"]
        client.send("OUT", "never")
        client.session.rollback()
        again = take(consumer)
        assert str(again.getText()) == "m1"
        assert again.getJMSRedelivered()
        assert str(take(consumer).getText()) == "m2"
        client.session.commit()
        is_left(store)
    assert rest(store, "OUT") == []


def test_an_open_transaction_ends_with_its_connection(broker_url: str, store: Store) -> None:
    fill(broker_url, 1)
    with Jms(broker_url, None) as client:
        client.texts(client.consumer("Q"), 1)
        client.send("OUT", "never")
    with Jms(broker_url) as client:
        assert client.texts(client.consumer("Q"), 1) == ["m1"]
    assert rest(store, "OUT") == []


def test_a_transaction_of_several_consumers(broker_url: str, store: Store) -> None:
    fill(broker_url, 1, "A")
    fill(broker_url, 1, "B")
    with Jms(broker_url, None) as client:
        for queue in ("A", "B"):
            client.texts(client.consumer(queue), 1)
        client.session.commit()
        is_left(store, queue="A")
        is_left(store, queue="B")


# Redelivery and dead letters


def test_a_message_that_is_rolled_back_too_often_is_dead(broker_url: str, store: Store) -> None:
    fill(broker_url, 2)
    with Jms(
        broker_url, None, jms__redeliveryPolicy__maximumRedeliveries=2,
        jms__redeliveryPolicy__initialRedeliveryDelay=0, jms__redeliveryPolicy__redeliveryDelay=1,
    ) as client:  # fmt: skip
        consumer = client.consumer("Q?consumer.prefetchSize=1")
        counts = []
        for _ in range(3):
            message = take(consumer)
            assert str(message.getText()) == "m1"
            counts.append(message.getIntProperty("JMSXDeliveryCount"))
            client.session.rollback()
        assert counts == [1, 2, 3]
        assert client.texts(consumer, 1) == ["m2"]
        client.session.commit()
    is_left(store, "m1", queue="ActiveMQ.DLQ")
    [dead] = store.queue("ActiveMQ.DLQ").recover()
    assert dead.original_destination == Destination.queue("Q")


def test_expired_messages_are_not_delivered(broker_url: str, store: Store) -> None:
    with Jms(broker_url) as client:
        client.send("Q", "old", ttl=1)
        client.send("Q", "new")
        assert client.texts(client.consumer("Q"), 1) == ["new"]
    is_left(store, "old", queue="ActiveMQ.DLQ")


def test_what_expires_with_its_consumer_is_dead_too(broker_url: str, store: Store) -> None:
    with Jms(broker_url) as client:
        consumer = client.consumer("Q")
        client.send("Q", "gone in a moment", ttl=SOON)
        wait_until(lambda: consumer.getMessageSize() == 1, 30, "that it is prefetched")
        client.connection.stop()
        expired = time.time() + 2 * SOON / 1000
        wait_until(lambda: time.time() > expired, 30, "that it has expired")
        client.connection.start()
        assert consumer.receive(SOON) is None
    is_left(store, "gone in a moment", queue="ActiveMQ.DLQ")


# Selecting


def test_selectors(broker_url: str) -> None:
    with Jms(broker_url) as client:
        for number in range(6):
            message = client.text(f"m{number}")
            message.setIntProperty("n", number)
            client.send("Q", message)
        assert client.texts(client.consumer("Q", "n > 3"), 2) == ["m4", "m5"]
        assert client.texts(client.consumer("Q", "n BETWEEN 1 AND 2 AND JMSPriority = 4"), 2) == ["m1", "m2"]
        assert client.browse("Q") == ["m0", "m3"]


def test_an_invalid_selector_is_refused(broker_url: str) -> None:
    with Jms(broker_url) as client, refused("InvalidSelectorException"):
        client.consumer("Q", "n >")


def test_priorities(store: Store, java_client: None) -> None:  # noqa: ARG001
    policy = PolicyEntry(queue=">", prioritized_messages=True)
    with Served(store, policy) as served, Jms(served.url) as client:
        for priority in (1, 9, 4):
            client.send("Q", f"p{priority}", priority=priority)
        assert client.texts(client.consumer("Q"), 3) == ["p9", "p4", "p1"]


def test_an_exclusive_consumer_gets_all(broker_url: str) -> None:
    with Jms(broker_url) as one, Jms(broker_url) as two:
        other = two.consumer("Q")
        exclusive = one.consumer("Q?consumer.exclusive=true")
        one.send("Q", *(f"m{number}" for number in range(10)))
        assert len(one.texts(exclusive, 10)) == 10
        assert other.receiveNoWait() is None


def test_a_consumer_of_higher_priority_goes_first(store: Store, java_client: None) -> None:  # noqa: ARG001
    policy = PolicyEntry(queue=">", use_consumer_priority=True)
    with Served(store, policy) as served, Jms(served.url) as one, Jms(served.url) as two:
        low, high = one.consumer("Q"), two.consumer("Q?consumer.priority=10")
        one.send("Q", "a", "b")
        assert two.texts(high, 2) == ["a", "b"]
        assert low.receiveNoWait() is None


# Browsing


@pytest.mark.parametrize("prefetch", [500, 1])
def test_browsing_consumes_nothing(broker_url: str, prefetch: int) -> None:
    fill(broker_url, 12)
    with Jms(broker_url, jms__prefetchPolicy__queueBrowserPrefetch=prefetch) as client:
        for _ in range(2):
            assert client.browse("Q") == [f"m{number}" for number in range(1, 13)]
        assert len(client.texts(client.consumer("Q"), 12)) == 12
        assert client.browse("Q") == []


def test_browsing_with_a_selector(broker_url: str) -> None:
    with Jms(broker_url) as client:
        client.send("Q", client.text("a", k="1"), client.text("b", k="2"))
        assert client.browse("Q", "k = '2'") == ["b"]


# Destinations


def test_a_composite_destination(broker_url: str, store: Store) -> None:
    with Jms(broker_url) as client:
        subscriber = client.consumer("topic://T")
        client.send("A,B,topic://T", "to all")
        assert client.texts(subscriber, 1) == ["to all"]
        assert client.texts(client.consumer("A,B"), 2) == ["to all", "to all"]
        is_left(store, queue="A")
        is_left(store, queue="B")


def test_wildcards(broker_url: str) -> None:
    with Jms(broker_url) as client:
        consumer = client.consumer("shop.*.orders")
        client.send("shop.north.orders", "n")
        client.send("shop.south.orders", "s")
        assert client.texts(consumer, 2) == ["n", "s"]


def test_request_and_reply_over_a_temporary_queue(broker_url: str, store: Store) -> None:
    with Jms(broker_url) as asking, Jms(broker_url) as answering:
        requests = answering.consumer("REQUESTS")
        replies = asking.session.createTemporaryQueue()
        consumer = asking.consumer(replies)
        for number in range(3):
            request = asking.text(f"question {number}")
            request.setJMSReplyTo(replies)
            asking.send("REQUESTS", request)
            received = take(requests)
            answering.send(received.getJMSReplyTo(), f"answer to {received.getText()}")
            assert asking.texts(consumer, 1) == [f"answer to question {number}"]
    assert all(not destination.is_temporary for destination in store.destinations())


def test_a_temporary_topic(broker_url: str) -> None:
    with Jms(broker_url) as one, Jms(broker_url) as two:
        topic = one.session.createTemporaryTopic()
        consumer = one.consumer(topic)
        two.send(topic, "hello")
        assert one.texts(consumer, 1) == ["hello"]


def test_only_the_owner_consumes_a_temporary_queue(broker_url: str) -> None:
    with Jms(broker_url) as one, Jms(broker_url) as two:
        replies = one.session.createTemporaryQueue()
        foreign = activemq("command.ActiveMQTempQueue")(replies.getQueueName())
        with refused("InvalidDestinationException"):
            two.consumer(foreign)


def test_a_deleted_temporary_queue_takes_no_messages(broker_url: str) -> None:
    with Jms(broker_url) as one, Jms(broker_url) as two:
        replies = one.session.createTemporaryQueue()
        consumer = one.consumer(replies)
        with refused("JMSException", "InvalidDestinationException"):
            replies.delete()
        consumer.close()
        replies.delete()
        with refused("InvalidDestinationException"):
            two.send(activemq("command.ActiveMQTempQueue")(replies.getQueueName()), "too late")


def test_temporary_queues_end_with_their_connection(broker_url: str) -> None:
    with Jms(broker_url) as two:
        with Jms(broker_url) as one:
            name = one.session.createTemporaryQueue().getQueueName()
        queue = activemq("command.ActiveMQTempQueue")(name)

        def is_gone() -> bool:
            try:
                two.send(queue, "?")
            except java("javax.jms.InvalidDestinationException"):
                return True
            return False

        wait_until(is_gone, 30, "that it is gone")
