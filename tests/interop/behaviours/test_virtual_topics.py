"""Virtual topics, as both brokers have them without a configuration."""

from __future__ import annotations

import pytest

from tests.interop.behaviours.conftest import Connect

PERSISTENT = {"persistent": "true"}


@pytest.mark.parametrize("headers", [PERSISTENT, {}])
def test_each_queue_of_a_virtual_topic_gets_a_copy(
    connect: Connect, name: str, headers: dict[str, str]
) -> None:
    session, other = connect(), connect()
    topic, queues = f"/topic/VirtualTopic.{name}", [f"/queue/Consumer.{n}.VirtualTopic.{name}" for n in "AB"]
    session.subscribe(queues[0])
    session.subscribe(topic)
    other.subscribe(queues[1])
    session.send(topic, "one", headers)
    messages = [session.message(), session.message(), other.message()]
    assert {(one.headers["destination"], one.headers.get("original-destination")) for one in messages} == {
        (topic, None),
        *((queue, topic) for queue in queues),
    }
    assert {one.body for one in messages} == {b"one"}


def test_a_queue_of_a_virtual_topic_gets_copies_without_a_consumer(connect: Connect, name: str) -> None:
    session = connect()
    queue = f"/queue/Consumer.A.VirtualTopic.{name}"
    session.unsubscribe(session.subscribe(queue))
    session.send(f"/topic/VirtualTopic.{name}", "one", PERSISTENT)
    session.subscribe(queue)
    assert session.bodies(1) == ["one"]


def test_a_queue_gets_nothing_of_before_its_first_consumer(connect: Connect, name: str) -> None:
    session = connect()
    queue = f"/queue/Consumer.A.VirtualTopic.{name}"
    session.send(f"/topic/VirtualTopic.{name}", "before", PERSISTENT)
    session.subscribe(queue)
    session.send(f"/topic/VirtualTopic.{name}", "after", PERSISTENT)
    assert session.bodies(1) == ["after"]


def test_copies_of_a_transaction(connect: Connect, name: str) -> None:
    session = connect()
    topic, queue = f"/topic/VirtualTopic.{name}", f"/queue/Consumer.A.VirtualTopic.{name}"
    session.subscribe(queue)
    for body, end in (("dropped", session.abort), ("kept", session.commit)):
        transaction = session.begin()
        session.send(topic, body, {**PERSISTENT, "transaction": transaction})
        end(transaction)
    assert session.bodies(1) == ["kept"]


def test_a_selector_of_a_consumer_is_of_its_queue(connect: Connect, name: str) -> None:
    session = connect()
    topic, queue = f"/topic/VirtualTopic.{name}", f"/queue/Consumer.A.VirtualTopic.{name}"
    first = session.subscribe(queue, headers={"selector": "colour = 'red'"})
    session.send(topic, "blue", {**PERSISTENT, "colour": "blue"})
    session.send(topic, "red", {**PERSISTENT, "colour": "red"})
    assert session.bodies(1) == ["red"]
    session.unsubscribe(first)
    session.subscribe(queue)
    assert session.bodies(1) == ["blue"]
