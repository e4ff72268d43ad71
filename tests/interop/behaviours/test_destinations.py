"""Temporary and composite destinations."""

from __future__ import annotations

import pytest

from tests.interop.behaviours.conftest import Connect
from tests.support.interop.behaviours.conversation import Conversation, Refused


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_reply_to_a_temporary_destination(connect: Connect, queue: str, kind: str) -> None:
    client, server = connect(), connect()
    mine = f"/temp-{kind}/answers"
    client.subscribe(mine)
    client.send(queue, "question", {"reply-to": mine, "correlation-id": "1"})
    server.subscribe(queue)
    question = server.message()
    assert question.headers["reply-to"].startswith(f"/remote-temp-{kind}/ID:")
    server.send(question.headers["reply-to"], "answer", {"correlation-id": "1"})
    answer = client.message()
    assert answer.body == b"answer"
    assert answer.headers["destination"] == mine
    assert answer.headers["correlation-id"] == "1"


def test_temporary_destinations_are_of_their_connection(connect: Connect) -> None:
    one, other = connect(), connect()
    for session in (one, other):
        session.subscribe("/temp-queue/same")
    one.send("/temp-queue/same", "one's")
    other.send("/temp-queue/same", "other's")
    assert one.bodies(1) == ["one's"]
    assert other.bodies(1) == ["other's"]


def test_temporary_queue_keeps_until_it_is_consumed(connect: Connect) -> None:
    session = connect()
    session.send("/temp-queue/later", "one")
    session.subscribe("/temp-queue/later")
    assert session.bodies(1) == ["one"]


def test_send_to_several_destinations(connect: Connect, name: str) -> None:
    session = connect()
    one, two, topic = f"/queue/{name}.1", f"/queue/{name}.2", f"/topic/{name}"
    session.subscribe(topic)
    session.send(f"{one},{two},{topic}", "all", {"persistent": "true"})
    assert session.message().headers["destination"] == topic
    for queue in (one, two):
        session.subscribe(queue)
        message = session.message()
        assert message.headers["destination"] == queue
        assert message.body == b"all"


def test_subscribe_to_several_destinations(connect: Connect, name: str) -> None:
    session = connect()
    destinations = [f"/queue/{name}.{number}" for number in range(3)]
    subscription = session.subscribe(",".join(destinations))
    for destination in destinations:
        session.send(destination, destination)
    messages = [session.message() for _ in destinations]
    for message in messages:
        assert message.body.decode() == message.headers["destination"]
    assert {message.headers["destination"] for message in messages} == set(destinations)
    assert {message.headers["subscription"] for message in messages} == {subscription}


def test_queue_and_topic_of_one_name_are_two(connect: Connect, queue: str, topic: str) -> None:
    session = connect()
    subscription = session.subscribe(topic)
    session.send(queue, "to the queue")
    session.send(topic, "to the topic")
    assert session.bodies(1) == ["to the topic"]
    session.unsubscribe(subscription)
    session.subscribe(queue)
    assert session.bodies(1) == ["to the queue"]


def test_names_are_case_sensitive(connect: Connect, name: str) -> None:
    session = connect()
    session.send(f"/queue/{name}.a", "small")
    session.send(f"/queue/{name}.A", "big")
    session.subscribe(f"/queue/{name}.A")
    assert session.bodies(1) == ["big"]


def test_space_around_a_destination_is_ignored(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(f" {queue} ", "one")
    session.subscribe(queue)
    assert session.message().headers["destination"] == queue


def test_destinations_of_a_composite_are_shown(connect: Connect, name: str) -> None:
    session = connect()
    session.send(f"/queue/{name}.1,/queue/{name}.2", "one")
    session.subscribe(f"/queue/{name}.1")
    assert session.message().headers["original-destination"] == f"/queue/{name}.1,queue://{name}.2"


def test_temporary_queue_goes_with_its_connection(connect: Connect, queue: str) -> None:
    client, server = connect(), connect()
    client.subscribe("/temp-queue/answers")
    client.send(queue, "question", {"reply-to": "/temp-queue/answers"})
    server.subscribe(queue)
    question = server.message()
    client.disconnect()
    while _sends(server, question.headers["reply-to"]):
        pass  # until the broker has seen it
    server.send(queue, "and goes on")
    assert server.bodies(1) == ["and goes on"]


def test_reply_to_without_a_kind_is_kept_as_it_is(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one", {"reply-to": "plain"})
    session.subscribe(queue)
    assert session.message().headers["reply-to"] == "plain"


def _sends(session: Conversation, destination: str) -> bool:
    try:
        session.send(destination, "answer")
    except Refused:
        return False
    return True
