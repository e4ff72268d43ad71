"""Prefetch, pulling, and several consumers of one queue."""

from __future__ import annotations

import threading

import pytest

from jdbcstore.testing.polling import wait_until
from tests.interop.jms.conftest import Connect, RunningBroker
from tests.support.broker.openwire.jms import CLIENT, Jms, is_left, take

ALL = ["m1", "m2", "m3", "m4"]
SOON = 100
"""Milliseconds in which a message that must not come would have come."""


def test_a_prefetch_leaves_the_others_to_other_consumers(connect: Connect, queue: str) -> None:
    one, two = connect(CLIENT), connect()
    one.send(queue, *ALL)
    first = one.consumer(f"{queue}?consumer.prefetchSize=1")
    assert one.texts(first, 1) == ["m1"]
    wait_until(lambda: first.getMessageSize() == 1, what="that it has one more")
    second = two.consumer(f"{queue}?consumer.prefetchSize=1")
    assert two.texts(second, 2) == ["m3", "m4"]  # the one after its message is the first's


def test_a_prefetch_of_the_connection(connect: Connect, queue: str) -> None:
    one, two = connect(jms__prefetchPolicy__queuePrefetch=2), connect()
    one.send(queue, *ALL)
    first = one.consumer(queue)
    wait_until(lambda: first.getMessageSize() == 2, what="that it has two")
    assert two.texts(two.consumer(queue), 2) == ["m3", "m4"]
    assert one.texts(first, 2) == ["m1", "m2"]


@pytest.mark.parametrize("how", ["transaction", "acknowledgement"])
def test_more_than_the_prefetch_at_once(connect: Connect, client: Jms, queue: str, how: str) -> None:
    client.send(queue, *(str(number) for number in range(50)))
    other = connect(None if how == "transaction" else CLIENT)
    consumer = other.consumer(f"{queue}?consumer.prefetchSize=5")
    messages = [take(consumer) for _ in range(50)]
    if how == "transaction":
        other.session.commit()
    else:
        messages[-1].acknowledge()
    is_left(client, queue)


@pytest.mark.parametrize("selector", [None, "n > 10"])
def test_a_browser_that_pulls(connect: Connect, queue: str, selector: str | None) -> None:
    client = connect(jms__prefetchPolicy__queueBrowserPrefetch=0)
    client.send(queue, *(client.text(str(number), n=number) for number in range(30)))
    assert client.browse(queue, selector) == [str(number) for number in range(11 if selector else 0, 30)]
    assert client.browse(f"{queue}.EMPTY") == []


def test_competing_consumers_share(connect: Connect, queue: str) -> None:
    clients = [connect(), connect()]
    consumers = [client.consumer(f"{queue}?consumer.prefetchSize=20") for client in clients]
    clients[0].send(queue, *(f"{number:02}" for number in range(20)))
    received = [client.texts(consumer, 10) for client, consumer in zip(clients, consumers, strict=True)]
    assert sorted(received[0] + received[1]) == [f"{number:02}" for number in range(20)]
    assert received == [sorted(bodies) for bodies in received]


def test_a_consumer_that_closes_returns_its_prefetch(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    one.send(queue, *ALL)
    consumer = one.consumer(queue)
    wait_until(lambda: consumer.getMessageSize() == 4, what="that it has all")
    other = two.consumer(queue)
    consumer.close()
    messages = [take(other) for _ in range(4)]
    assert [str(message.getText()) for message in messages] == ALL
    assert not any(message.getJMSRedelivered() for message in messages)


# Pulling


def test_pulling(client: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2", "m3")
    consumer = client.consumer(f"{queue}?consumer.prefetchSize=0")
    assert str(consumer.receiveNoWait().getText()) == "m1"
    assert client.texts(consumer, 2) == ["m2", "m3"]
    assert consumer.receiveNoWait() is None
    client.send(queue, "late")
    assert client.texts(consumer, 1) == ["late"]
    consumer.close()
    is_left(client, queue)


def test_pulling_again_after_a_pull_has_ended(broker: RunningBroker, client: Jms, queue: str) -> None:
    if broker.name == "artemis":
        pytest.skip("at times it ends this pull when the time of the one before has passed")
    consumer = client.consumer(f"{queue}?consumer.prefetchSize=0")
    assert consumer.receive(SOON) is None
    client.send(queue, "late")
    assert client.texts(consumer, 1) == ["late"]


def test_pulling_takes_one_message(connect: Connect, queue: str) -> None:
    one, two = connect(CLIENT), connect()
    one.send(queue, *ALL)
    assert one.texts(one.consumer(f"{queue}?consumer.prefetchSize=0"), 1) == ["m1"]
    assert two.texts(two.consumer(queue), 3) == ["m2", "m3", "m4"]


def test_pulling_with_a_selector(client: Jms, queue: str) -> None:
    client.send(queue, client.text("a", n=1), client.text("b", n=2))
    consumer = client.consumer(f"{queue}?consumer.prefetchSize=0", "n = 2")
    assert client.texts(consumer, 1) == ["b"]
    assert consumer.receiveNoWait() is None


def test_pulling_in_a_transaction(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2")
    other = connect(None, jms__redeliveryPolicy__initialRedeliveryDelay=0)
    consumer = other.consumer(f"{queue}?consumer.prefetchSize=0")
    assert other.texts(consumer, 1) == ["m1"]
    other.session.rollback()
    assert other.texts(consumer, 2) == ["m1", "m2"]
    other.session.commit()
    is_left(client, queue)


def test_a_pull_that_waits_gets_what_comes_later(connect: Connect, queue: str) -> None:
    client, producer = connect(), connect()
    consumer = client.consumer(f"{queue}?consumer.prefetchSize=0")
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.extend(client.texts(consumer, 1)))
    waiting.start()
    producer.send(queue, "at last", "later")
    waiting.join(120)
    assert found == ["at last"]
    is_left(producer, queue, "later")


def test_a_pull_that_times_out_takes_nothing_later(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    pulling = one.consumer(f"{queue}?consumer.prefetchSize=0")
    assert pulling.receive(1) is None
    assert pulling.receiveNoWait() is None
    two.send(queue, "m1")
    assert two.texts(two.consumer(queue), 1) == ["m1"]


# Who gets which message


def test_an_exclusive_consumer_gets_all(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    other = two.consumer(queue)
    exclusive = one.consumer(f"{queue}?consumer.exclusive=true")
    one.send(queue, *(f"m{number}" for number in range(10)))
    assert len(one.texts(exclusive, 10)) == 10
    assert other.receiveNoWait() is None


def test_the_next_exclusive_consumer(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    first = one.consumer(f"{queue}?consumer.exclusive=true")
    second = two.consumer(f"{queue}?consumer.exclusive=true")
    one.send(queue, "m1")
    assert one.texts(first, 1) == ["m1"]
    first.close()
    one.send(queue, "m2")
    assert two.texts(second, 1) == ["m2"]


def test_an_exclusive_consumer_of_higher_priority_takes_over(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    first = one.consumer(f"{queue}?consumer.exclusive=true")
    one.send(queue, "m1")
    assert one.texts(first, 1) == ["m1"]
    second = two.consumer(f"{queue}?consumer.exclusive=true&consumer.priority=10")
    one.send(queue, "m2")
    assert two.texts(second, 1) == ["m2"]


def test_a_consumer_of_higher_priority_goes_first(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    low, high = one.consumer(queue), two.consumer(f"{queue}?consumer.priority=10")
    one.send(queue, "a", "b")
    assert two.texts(high, 2) == ["a", "b"]
    assert low.receiveNoWait() is None


def test_a_full_consumer_of_higher_priority_leaves_the_rest(connect: Connect, queue: str) -> None:
    one, two = connect(), connect(CLIENT)
    high = two.consumer(f"{queue}?consumer.priority=10&consumer.prefetchSize=1")
    low = one.consumer(queue)
    one.send(queue, "a", "b")
    assert one.texts(low, 1) == ["b"]
    assert two.texts(high, 1) == ["a"]
