"""Acknowledgements, and what becomes of a message without one."""

from __future__ import annotations

import pytest

from tests.interop.behaviours.conftest import Connect
from tests.support.interop.behaviours.conversation import Conversation, Refused

PERSISTENT = {"persistent": "true"}
VERSIONS = pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
NACK_VERSIONS = pytest.mark.parametrize("version", ["1.1", "1.2"])


def fill(session: Conversation, queue: str, count: int) -> None:
    for number in range(1, count + 1):
        session.send(queue, str(number), PERSISTENT)


def test_auto(connect: Connect, queue: str) -> None:
    session = connect()
    fill(session, queue, 3)
    subscription = session.subscribe(queue)
    assert session.bodies(3) == ["1", "2", "3"]
    session.unsubscribe(subscription)
    session.send(queue, "4")
    session.subscribe(queue)
    assert session.bodies(1) == ["4"]


@VERSIONS
def test_client_acknowledges_all_before(connect: Connect, queue: str, version: str) -> None:
    session = connect(version)
    fill(session, queue, 4)
    session.subscribe(queue, "client")
    messages = [session.message() for _ in range(4)]
    session.acknowledge(messages[2])
    session.drop()
    other = connect()
    other.subscribe(queue)
    assert other.bodies(1) == ["4"]


@VERSIONS
def test_client_individual_acknowledges_one(connect: Connect, queue: str, version: str) -> None:
    session = connect(version)
    fill(session, queue, 4)
    session.subscribe(queue, "client-individual")
    messages = [session.message() for _ in range(4)]
    session.acknowledge(messages[2])
    session.acknowledge(messages[0])
    session.drop()
    other = connect()
    other.subscribe(queue)
    assert other.bodies(2) == ["2", "4"]


@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize("persistent", ["true", "false"])
def test_redelivered_after_a_lost_connection(connect: Connect, queue: str, ack: str, persistent: str) -> None:
    session, other = connect(), connect()
    session.send(queue, "one", {"persistent": persistent})
    session.subscribe(queue, ack)
    first = session.message()
    assert "redelivered" not in first.headers
    session.drop()
    other.subscribe(queue, ack)
    second = other.message()
    assert second.headers["redelivered"] == "true"
    assert second.headers["message-id"] == first.headers["message-id"]
    other.acknowledge(second)


def test_redelivered_after_disconnect(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one", PERSISTENT)
    session.subscribe(queue, "client")
    session.message()
    session.disconnect()
    other = connect()
    other.subscribe(queue)
    assert other.message().headers["redelivered"] == "true"


def test_redelivered_after_unsubscribe(connect: Connect, queue: str) -> None:
    session = connect()
    fill(session, queue, 2)
    subscription = session.subscribe(queue, "client")
    session.bodies(2)
    session.unsubscribe(subscription)
    session.subscribe(queue)
    messages = [session.message() for _ in range(2)]
    assert [message.body for message in messages] == [b"1", b"2"]
    assert [message.headers.get("redelivered") for message in messages] == ["true", "true"]


def test_unacknowledged_come_before_later_ones(connect: Connect, queue: str) -> None:
    session = connect()
    fill(session, queue, 5)
    session.subscribe(queue, "client-individual", {"activemq.prefetchSize": "3"})
    messages = [session.message() for _ in range(3)]
    session.disconnect()
    other = connect()
    other.subscribe(queue)
    assert other.bodies(5) == ["1", "2", "3", "4", "5"]
    assert messages[0].body == b"1"


@NACK_VERSIONS
def test_nack_makes_a_dead_letter(connect: Connect, queue: str, name: str, version: str) -> None:
    session = connect(version)
    for body in ("1", "2"):
        session.send(queue, body, {**PERSISTENT, "case": name})
    session.subscribe(queue, "client-individual")
    first, second = session.message(), session.message()
    session.reject(first)
    session.acknowledge(second)
    session.subscribe("/queue/ActiveMQ.DLQ", headers={"selector": f"case = '{name}'"})
    dead = session.message()
    assert dead.body == b"1"
    assert dead.headers["original-destination"] == queue
    assert dead.headers["message-id"] == first.headers["message-id"]
    assert dead.headers["persistent"] == "true"


def test_nack_of_what_is_not_persistent_discards(connect: Connect, queue: str, name: str) -> None:
    session = connect()
    session.send(queue, "gone", {"case": name})
    session.subscribe(queue, "client-individual")
    session.reject(session.message())
    session.send("/queue/ActiveMQ.DLQ", "sent there", {"case": name})
    session.subscribe("/queue/ActiveMQ.DLQ", headers={"selector": f"case = '{name}'"})
    assert session.bodies(1) == ["sent there"]


def test_nack_rejects_one_in_client_mode_too(connect: Connect, queue: str, name: str) -> None:
    session = connect()
    for body in ("1", "2", "3"):
        session.send(queue, body, {**PERSISTENT, "case": name})
    session.subscribe(queue, "client")
    messages = [session.message() for _ in range(3)]
    session.reject(messages[1])
    session.subscribe("/queue/ActiveMQ.DLQ", headers={"selector": f"case = '{name}'"})
    assert session.bodies(1) == ["2"]
    session.drop()
    other = connect()
    other.subscribe(queue)
    assert other.bodies(2) == ["1", "3"]


@pytest.mark.parametrize("ack", ["client", "client-individual"])
@VERSIONS
def test_second_acknowledgement_is_refused(connect: Connect, queue: str, ack: str, version: str) -> None:
    session = connect(version)
    session.send(queue, "one")
    session.subscribe(queue, ack)
    message = session.message()
    session.acknowledge(message)
    with pytest.raises(Refused, match="Unexpected ACK received for message-id"):
        session.acknowledge(message)
    session.send(queue, "and goes on")
    assert session.bodies(1) == ["and goes on"]


def test_second_nack_is_refused(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one")
    session.subscribe(queue, "client-individual")
    message = session.message()
    session.reject(message)
    with pytest.raises(Refused, match="Unexpected NACK received for message-id"):
        session.reject(message)


def test_acknowledgement_after_unsubscribe(connect: Connect, queue: str) -> None:
    session = connect("1.1")
    session.send(queue, "one", PERSISTENT)
    subscription = session.subscribe(queue, "client-individual")
    message = session.message()
    session.unsubscribe(subscription)
    with pytest.raises(Refused, match="Unexpected ACK received for message-id"):
        session.acknowledge(message)
    session.subscribe(queue)
    assert session.bodies(1) == ["one"]


def test_unknown_ack_mode_is_auto(connect: Connect, queue: str) -> None:
    session = connect()
    fill(session, queue, 1)
    subscription = session.subscribe(queue, "sometimes")
    assert "ack" not in session.message().headers
    session.unsubscribe(subscription)
    session.send(queue, "next")
    session.subscribe(queue)
    assert session.bodies(1) == ["next"]


def test_ack_header_is_of_version_1_2(connect: Connect, queue: str) -> None:
    session, older = connect(), connect("1.1")
    fill(session, queue, 1)
    older.subscribe(queue, "client")
    assert "ack" not in older.message().headers
    older.drop()
    session.subscribe(queue, "client")
    assert "ack" in session.message().headers
