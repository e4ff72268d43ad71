"""Message groups."""

from __future__ import annotations

from tests.interop.behaviours.conftest import Connect
from tests.support.interop.behaviours.conversation import Conversation

PERSISTENT = {"persistent": "true"}


def of(group: str, sequence: int = 0) -> dict[str, str]:
    return {**PERSISTENT, "JMSXGroupID": group, "JMSXGroupSeq": str(sequence)}


def everything(session: Conversation, queue: str) -> list[str]:
    """The bodies that a session got before a message of a group that it owns."""
    session.send(queue, "last", of("mine"))
    bodies: list[str] = []
    while not bodies or bodies[-1] != "last":
        bodies += session.bodies(1)
    return bodies[:-1]


def test_a_group_goes_to_one_consumer(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    one.subscribe(queue)
    one.send(queue, "own", of("mine"))
    assert one.bodies(1) == ["own"]
    two.subscribe(queue)
    whole = ["0", "1", "2", "3", "free"]
    for attempt in range(10):
        for number in range(4):
            one.send(queue, str(number), of(f"other {attempt}"))
        one.send(queue, "free", of(f"other {attempt}", -1))
        found = everything(one, queue)
        if not found:
            break
        assert found == whole  # a busy ActiveMQ may not know the second yet
    assert two.bodies(5) == whole


def test_a_group_moves_when_its_consumer_goes(connect: Connect, queue: str) -> None:
    one, two = connect(), connect()
    one.subscribe(queue, ack="client")
    for number in range(3):
        one.send(queue, str(number), of("g"))
    assert one.bodies(3) == ["0", "1", "2"]
    two.subscribe(queue)
    one.disconnect()
    assert two.bodies(3) == ["0", "1", "2"]
    two.send(queue, "3", of("g"))
    message = two.message()
    assert message.body == b"3"
    assert not {"JMSXGroupID", "JMSXGroupFirstForConsumer"} & message.headers.keys()
