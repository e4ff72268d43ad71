"""Scheduled delivery, with ActiveMQ's own job store beside its JDBC store."""

from __future__ import annotations

import time

import pytest

from tests.interop.behaviours.conftest import Connect, RunningBroker
from tests.support.interop.behaviours.conversation import Closed, Refused

PERSISTENT = {"persistent": "true"}


@pytest.mark.parametrize("headers", [PERSISTENT, {}])
def test_a_delay(connect: Connect, queue: str, headers: dict[str, str]) -> None:
    session = connect()
    session.subscribe(queue)
    begin = time.monotonic()
    session.send(queue, "later", {**headers, "AMQ_SCHEDULED_DELAY": "700", "kept": "yes"})
    session.send(queue, "now", headers)
    came = {}
    for _ in range(2):  # "now" first, unless the machine has paused between the two
        message = session.message()
        came[message.body] = time.monotonic() - begin, message
    assert came.keys() == {b"now", b"later"}
    seconds, message = came[b"later"]
    assert seconds >= 0.7
    assert message.headers["kept"] == "yes"
    assert message.headers["scheduledJobId"].startswith("ID:")
    assert message.headers.get("persistent") == headers.get("persistent")
    assert not [name for name in message.headers if name.startswith("AMQ_")]


def test_repetitions(connect: Connect, queue: str) -> None:
    session = connect()
    session.subscribe(queue)
    schedule = {"AMQ_SCHEDULED_DELAY": "100", "AMQ_SCHEDULED_PERIOD": "300", "AMQ_SCHEDULED_REPEAT": "2"}
    session.send(queue, "again", {**PERSISTENT, **schedule})
    messages = [session.message() for _ in range(3)]
    assert len({one.headers["message-id"] for one in messages}) == 3
    assert len({one.headers["scheduledJobId"] for one in messages}) == 1
    session.send(queue, "end", {**PERSISTENT, "AMQ_SCHEDULED_DELAY": "900"})
    assert session.bodies(1) == ["end"]


def test_a_message_of_a_transaction(connect: Connect, queue: str) -> None:
    session = connect()
    session.subscribe(queue)
    for body, end in (("dropped", session.abort), ("kept", session.commit)):
        transaction = session.begin()
        session.send(queue, body, {**PERSISTENT, "AMQ_SCHEDULED_DELAY": "200", "transaction": transaction})
        end(transaction)
    assert session.bodies(1) == ["kept"]


@pytest.mark.parametrize(
    "schedule",
    [{"AMQ_SCHEDULED_DELAY": "soon"}, {"AMQ_SCHEDULED_CRON": "* * *"}, {"AMQ_SCHEDULED_CRON": "a * * * *"}],
)
def test_bad_values(connect: Connect, broker: RunningBroker, queue: str, schedule: dict[str, str]) -> None:
    session = connect()
    with pytest.raises(broker.either(activemq=Closed, ours=Refused)):
        session.send(queue, "never", {**PERSISTENT, **schedule})


def test_browse_and_remove(connect: Connect, name: str) -> None:
    session = connect()
    management, replies = "/topic/ActiveMQ.Scheduler.Management", f"/queue/replies.{name}"
    for body in ("one", "two"):
        session.send(f"/queue/{name}", body, {**PERSISTENT, "AMQ_SCHEDULED_DELAY": "3600000"})
    session.subscribe(replies)
    session.send(management, "", {"AMQ_SCHEDULER_ACTION": "BROWSE", "reply-to": replies})
    shown = [session.message(), session.message()]
    assert [one.body for one in shown] == [b"one", b"two"]
    assert [one.headers["original-destination"] for one in shown] == [f"/queue/{name}"] * 2
    assert shown[0].headers["AMQ_SCHEDULED_DELAY"] == "3600000"
    job = shown[0].headers["scheduledJobId"]
    session.send(management, "", {"AMQ_SCHEDULER_ACTION": "REMOVE", "scheduledJobId": job})
    session.send(management, "", {"AMQ_SCHEDULER_ACTION": "BROWSE", "reply-to": replies})
    assert session.bodies(1) == ["two"]
    session.send(management, "", {"AMQ_SCHEDULER_ACTION": "REMOVEALL"})
    session.send(management, "", {"AMQ_SCHEDULER_ACTION": "BROWSE", "reply-to": replies})
    session.send(replies, "none")
    assert session.bodies(1) == ["none"]
