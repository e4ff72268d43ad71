"""Subscriptions of queues: who gets which message."""

from __future__ import annotations

import pytest

from tests.interop.behaviours.conftest import Connect
from tests.support.interop.behaviours.brokers import PRIORITISED
from tests.support.interop.behaviours.conversation import Refused

ONE_AT_A_TIME = {"activemq.prefetchSize": "1"}


def test_receipt_comes_before_the_first_message(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one")
    for _ in range(5):
        subscription = session.subscribe(queue, "client")
        assert session.held == 0
        session.message()
        session.unsubscribe(subscription)


def test_prefetch_leaves_messages_to_others(connect: Connect, queue: str) -> None:
    session, other = connect(), connect()
    for body in ("1", "2", "3"):
        session.send(queue, body)
    session.subscribe(queue, "client", ONE_AT_A_TIME)
    first = session.message()
    other.subscribe(queue, "client", ONE_AT_A_TIME)
    assert other.bodies(1) == ["2"]
    session.acknowledge(first)
    assert session.bodies(1) == ["3"]


def test_competing_consumers_share(connect: Connect, queue: str) -> None:
    consumers = [connect(), connect()]
    for consumer in consumers:
        consumer.subscribe(queue, headers={"activemq.prefetchSize": "10"})
        consumer.settle()
    producer = connect()
    for number in range(20):
        producer.send(queue, str(number))
    received = [consumer.bodies(10) for consumer in consumers]
    assert sorted(received[0] + received[1], key=int) == [str(number) for number in range(20)]
    assert received == [sorted(bodies, key=int) for bodies in received]


def test_exclusive_consumer_gets_all(connect: Connect, queue: str) -> None:
    first, second = connect(), connect()
    first.subscribe(queue, headers={"activemq.exclusive": "true"})
    second.subscribe(queue, headers={"activemq.exclusive": "true"})
    for number in range(10):
        second.send(queue, str(number))
    assert first.bodies(10) == [str(number) for number in range(10)]
    first.disconnect()
    second.send(queue, "next")
    assert second.bodies(1) == ["next"]


def test_consumer_of_higher_priority_comes_first(connect: Connect, queue: str) -> None:
    low, high = connect(), connect()
    # As long as it has room, the other gets none.
    for consumer, priority in ((low, "1"), (high, "2")):
        consumer.subscribe(queue, headers={"activemq.priority": priority, "activemq.prefetchSize": "10"})
        consumer.settle()
    for number in range(10):
        low.send(queue, str(number))
    assert high.bodies(10) == [str(number) for number in range(10)]


def test_selector(connect: Connect, queue: str) -> None:
    session = connect()
    for colour in ("red", "blue", "red"):
        session.send(queue, colour, {"colour": colour})
    session.send(queue, "end", {"colour": "blue", "end": "yes"})
    session.subscribe(queue, headers={"selector": "colour = 'blue'"})
    assert session.bodies(2) == ["blue", "end"]
    session.subscribe(queue)
    assert session.bodies(2) == ["red", "red"]


def test_selector_compares_headers_as_numbers(connect: Connect, queue: str) -> None:
    session = connect()
    for number in ("9", "10", "11"):
        session.send(queue, number, {"number": number})
    session.subscribe(queue, headers={"selector": "number > 9 AND JMSPriority = 4"})
    assert session.bodies(2) == ["10", "11"]


def test_wrong_selector_is_refused(connect: Connect, queue: str) -> None:
    session = connect()
    with pytest.raises(Refused):
        session.subscribe(queue, headers={"selector": "colour = "})
    session.send(queue, "one")
    session.subscribe(queue)
    assert session.bodies(1) == ["one"]


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_browser_sees_all_and_takes_nothing(connect: Connect, queue: str, version: str) -> None:
    session = connect(version)
    for body in ("1", "2"):
        session.send(queue, body, {"persistent": "true"})
    browser = session.subscribe(queue, headers={"browser": "true"})
    assert session.bodies(2) == ["1", "2"]
    end = session.message()
    assert end.body == b""
    assert end.headers["browser"] == "end"
    assert end.headers["subscription"] == browser
    assert end.headers["destination"] == queue
    session.subscribe(queue)
    messages = [session.message() for _ in range(2)]
    assert [message.body for message in messages] == [b"1", b"2"]
    assert not any("redelivered" in message.headers for message in messages)


def test_browser_of_an_empty_queue(connect: Connect, queue: str) -> None:
    session = connect()
    session.subscribe(queue, headers={"browser": "true"})
    assert session.message().headers["browser"] == "end"


def test_browser_with_a_selector(connect: Connect, queue: str) -> None:
    session = connect()
    for colour in ("red", "blue"):
        session.send(queue, colour, {"colour": colour})
    session.subscribe(queue, headers={"browser": "true", "selector": "colour = 'blue'"})
    assert session.bodies(1) == ["blue"]
    assert session.message().headers["browser"] == "end"


def test_browser_is_not_of_version_1_0(connect: Connect, queue: str) -> None:
    session = connect("1.0")
    with pytest.raises(Refused, match="Browser"):
        session.subscribe(queue, headers={"browser": "true"})


def test_priorities(connect: Connect) -> None:
    session = connect()
    queue = f"/queue/{PRIORITISED}"
    for priority in ("4", "0", "9", "5", "9"):
        session.send(queue, priority, {"priority": priority, "persistent": "true"})
    session.subscribe(queue)
    assert session.bodies(5) == ["9", "9", "5", "4", "0"]


def test_priorities_mean_nothing_elsewhere(connect: Connect, queue: str) -> None:
    session = connect()
    for priority in ("4", "0", "9"):
        session.send(queue, priority, {"priority": priority, "persistent": "true"})
    session.subscribe(queue)
    assert session.bodies(3) == ["4", "0", "9"]


def test_wildcards_of_a_queue(connect: Connect, name: str) -> None:
    session, other = connect(), connect()
    session.subscribe(f"/queue/{name}.*.1")
    other.subscribe(f"/queue/{name}.B.>")
    for one in ("A.1", "B", "B.2", "A.B.1", "B.2.1", "C.1"):
        session.send(f"/queue/{name}.{one}", one)
    # Each queue gives by itself: no order is promised between two.
    assert sorted(session.bodies(2)) == ["A.1", "C.1"]
    assert sorted(other.bodies(3)) == ["B", "B.2", "B.2.1"]


def test_wildcard_sees_new_queues(connect: Connect, name: str) -> None:
    session = connect()
    session.subscribe(f"/queue/{name}.>")
    session.send(f"/queue/{name}.NEW", "one")
    assert session.message().headers["destination"] == f"/queue/{name}.NEW"


def test_subscriptions_of_one_connection_are_told_apart(connect: Connect, name: str) -> None:
    session = connect()
    one, two = session.subscribe(f"/queue/{name}.1"), session.subscribe(f"/queue/{name}.2")
    session.send(f"/queue/{name}.2", "two")
    session.send(f"/queue/{name}.1", "one")
    told = {
        message.headers["subscription"]: message.body for message in (session.message(), session.message())
    }
    assert told == {one: b"one", two: b"two"}


def test_unsubscribed_gets_nothing(connect: Connect, queue: str) -> None:
    session, other = connect(), connect()
    session.unsubscribe(session.subscribe(queue))
    other.subscribe(queue)
    for number in range(4):
        session.send(queue, str(number))
    assert other.bodies(4) == ["0", "1", "2", "3"]
