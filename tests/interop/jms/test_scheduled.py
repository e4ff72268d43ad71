"""Scheduled delivery, with ActiveMQ's own job store beside its JDBC store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from jdbcstore.testing.polling import wait_until
from tests.interop.jms.conftest import Connect
from tests.support.broker.openwire.jms import NON_PERSISTENT, Jms, names_of, refused, take

FAR: dict[str, int] = {"AMQ_SCHEDULED_DELAY": 3_600_000}
MANAGEMENT = "topic://ActiveMQ.Scheduler.Management"


def job(message: Any) -> str:
    return str(message.getStringProperty("scheduledJobId"))


class Scheduler:
    """What the broker has scheduled, by its own requests."""

    def __init__(self, client: Jms) -> None:
        self._client = client
        self._replies = client.session.createTemporaryQueue()
        self._consumer = client.consumer(self._replies)

    def request(self, action: str, **properties: str | int) -> None:
        message = self._client.text(None, AMQ_SCHEDULER_ACTION=action, **properties)
        message.setJMSReplyTo(self._replies)
        self._client.send(MANAGEMENT, message)

    def browse(self, **properties: str | int) -> list[Any]:
        """The scheduled messages, which come before a marker."""
        self.request("BROWSE", **properties)
        self._client.send(self._replies, "marker")
        found = []
        while str((message := take(self._consumer)).getText()) != "marker":
            found.append(message)
        return found


@pytest.fixture
def scheduler(client: Jms) -> Iterator[Scheduler]:
    scheduler = Scheduler(client)
    yield scheduler
    scheduler.request("REMOVEALL")


@pytest.mark.parametrize("mode", [2, NON_PERSISTENT])
def test_a_delay(client: Jms, queue: str, mode: int) -> None:
    consumer = client.consumer(queue)
    begin = time.monotonic()
    client.send(queue, client.text("later", AMQ_SCHEDULED_DELAY=500, kept="yes"), "now", mode=mode)
    came: dict[str, tuple[float, Any]] = {}
    for _ in range(2):  # "now" first, unless the machine has paused between the two
        message = take(consumer)
        came[str(message.getText())] = time.monotonic() - begin, message
    assert came.keys() == {"now", "later"}
    seconds, message = came["later"]
    assert seconds >= 0.49  # its clock has milliseconds
    assert names_of(message) == ["kept", "scheduledJobId"]
    assert job(message).startswith("ID:")
    assert message.getJMSDeliveryMode() == mode


def test_a_delay_of_nothing(client: Jms, queue: str) -> None:
    client.send(queue, client.text("x", AMQ_SCHEDULED_DELAY=0))
    assert client.texts(client.consumer(queue), 1) == ["x"]


def test_repetitions(client: Jms, queue: str) -> None:
    message = client.text("again", AMQ_SCHEDULED_DELAY=100, AMQ_SCHEDULED_PERIOD=300)
    message.setIntProperty("AMQ_SCHEDULED_REPEAT", 2)
    client.send(queue, message)
    consumer = client.consumer(queue)
    received = [take(consumer) for _ in range(3)]
    assert [str(one.getText()) for one in received] == ["again"] * 3
    assert len({str(one.getJMSMessageID()) for one in received}) == 3
    assert len({job(one) for one in received}) == 1
    client.send(queue, client.text("end", AMQ_SCHEDULED_DELAY=400))
    assert client.texts(consumer, 1) == ["end"]


def test_repetitions_without_a_period(client: Jms, queue: str) -> None:
    """They are sent at once."""
    message = client.text("again", AMQ_SCHEDULED_DELAY=100)
    message.setIntProperty("AMQ_SCHEDULED_REPEAT", 4)
    client.send(queue, message)
    assert client.texts(client.consumer(queue), 5) == ["again"] * 5


def test_too_many_repetitions(client: Jms, queue: str) -> None:
    message = client.text("again", AMQ_SCHEDULED_PERIOD=60_000)
    message.setIntProperty("AMQ_SCHEDULED_REPEAT", 1001)
    with refused("MessageFormatException"):
        client.send(queue, message)


def test_a_period_alone(client: Jms, queue: str, scheduler: Scheduler) -> None:
    """It is also the delay; without a number of repetitions there are none."""
    client.send(queue, client.text("x", AMQ_SCHEDULED_PERIOD=300))
    consumer = client.consumer(queue)
    assert client.texts(consumer, 1) == ["x"]
    wait_until(lambda: scheduler.browse() == [], what="that nothing is scheduled")


def test_a_cron_entry_waits_for_its_time(client: Jms, queue: str, scheduler: Scheduler) -> None:
    client.send(queue, client.text("yearly", AMQ_SCHEDULED_CRON="0 0 1 1 *"))
    [scheduled] = scheduler.browse()
    assert str(scheduled.getStringProperty("AMQ_SCHEDULED_CRON")) == "0 0 1 1 *"
    assert client.browse(queue) == []


def test_a_number_of_the_wrong_type(client: Jms, queue: str) -> None:
    """The client makes null of it."""
    client.send(queue, client.text("once", AMQ_SCHEDULED_DELAY=100, AMQ_SCHEDULED_REPEAT=3))
    consumer = client.consumer(queue)
    assert client.texts(consumer, 1) == ["once"]
    client.send(queue, "end")
    assert client.texts(consumer, 1) == ["end"]


def test_properties_may_be_strings_and_ints(client: Jms, queue: str) -> None:
    message = client.text("x", AMQ_SCHEDULED_DELAY="100")
    message.setIntProperty("AMQ_SCHEDULED_REPEAT", 0)
    client.send(queue, message)
    assert client.texts(client.consumer(queue), 1) == ["x"]


def test_a_scheduled_message_of_a_transaction(connect: Connect, client: Jms, queue: str) -> None:
    other = connect(None)
    for body, end in (("dropped", other.session.rollback), ("kept", other.session.commit)):
        other.send(queue, other.text(body, AMQ_SCHEDULED_DELAY=100))
        end()
    assert client.texts(client.consumer(queue), 1) == ["kept"]


def test_a_message_to_a_topic(client: Jms, topic: str) -> None:
    consumer = client.consumer(topic)
    client.send(topic, client.text("x", AMQ_SCHEDULED_DELAY=100))
    assert client.texts(consumer, 1) == ["x"]


def test_a_message_to_several(client: Jms, name: str) -> None:
    client.send(f"{name}.A,{name}.B", client.text("x", AMQ_SCHEDULED_DELAY=100))
    for queue in ("A", "B"):
        assert client.texts(client.consumer(f"{name}.{queue}"), 1) == ["x"]


def test_a_message_to_a_virtual_topic(client: Jms, name: str) -> None:
    consumer = client.consumer(f"Consumer.A.VirtualTopic.{name}")
    client.send(f"topic://VirtualTopic.{name}", client.text("x", AMQ_SCHEDULED_DELAY=100))
    assert client.texts(consumer, 1) == ["x"]


def test_headers_of_a_scheduled_message(client: Jms, queue: str) -> None:
    message = client.text("x", AMQ_SCHEDULED_DELAY=100, JMSXGroupID="g")
    message.setJMSCorrelationID("c")
    message.setJMSReplyTo(client.destination("R"))
    client.send(queue, message, priority=7)
    received = take(client.consumer(queue))
    assert str(received.getJMSMessageID()) == str(message.getJMSMessageID())
    assert str(received.getJMSCorrelationID()) == "c"
    assert str(received.getJMSReplyTo()) == "queue://R"
    assert received.getJMSPriority() == 7
    assert str(received.getStringProperty("JMSXGroupID")) == "g"


def test_a_time_to_live_that_begins_later(client: Jms, queue: str) -> None:
    client.send(queue, client.text("x", AMQ_SCHEDULED_DELAY=6_000), ttl=5_500)
    assert client.texts(client.consumer(queue), 1) == ["x"]


@pytest.mark.parametrize(
    "properties",
    [
        {"AMQ_SCHEDULED_DELAY": "soon"},
        {"AMQ_SCHEDULED_CRON": "* * *"},
        {"AMQ_SCHEDULED_CRON": "a * * * *"},
        {"AMQ_SCHEDULED_CRON": "61 * * * *"},
    ],
)
def test_bad_values(connect: Connect, client: Jms, queue: str, properties: dict[str, str]) -> None:
    # The client looks at some of them itself.
    with refused(
        "JMSException", "NumberFormatException", "IllegalArgumentException", "MessageFormatException"
    ):
        client.send(queue, client.text("x", **properties))
    other = connect()
    other.send(queue, "next")
    assert other.texts(other.consumer(queue), 1) == ["next"]


# Management


def test_browsing_what_is_scheduled(client: Jms, queue: str, scheduler: Scheduler) -> None:
    client.send(queue, client.text("one", **FAR), client.text("two", AMQ_SCHEDULED_DELAY=7_200_000))
    shown = scheduler.browse()
    assert [str(one.getText()) for one in shown] == ["one", "two"]
    assert str(shown[0].getOriginalDestination()) == f"queue://{queue}"
    assert shown[0].getLongProperty("AMQ_SCHEDULED_DELAY") == 3_600_000
    assert client.browse(queue) == []


def test_cancelling_one(client: Jms, queue: str, scheduler: Scheduler) -> None:
    client.send(queue, client.text("one", **FAR), client.text("two", **FAR))
    first, _ = scheduler.browse()
    scheduler.request("REMOVE", scheduledJobId=job(first))
    [left] = scheduler.browse()
    assert str(left.getText()) == "two"


def test_cancelling_all(client: Jms, queue: str, scheduler: Scheduler) -> None:
    client.send(queue, client.text("one", **FAR), client.text("two", **FAR))
    scheduler.request("REMOVEALL")
    assert scheduler.browse() == []


def test_what_is_due_in_a_while(client: Jms, queue: str, scheduler: Scheduler) -> None:
    client.send(queue, client.text("one", **FAR), client.text("two", AMQ_SCHEDULED_DELAY=7_200_000))
    soon = round(time.time() * 1000) + 5_400_000
    [first] = scheduler.browse(ACTION_START_TIME="0", ACTION_END_TIME=str(soon))
    assert str(first.getText()) == "one"
    scheduler.request("REMOVEALL", ACTION_START_TIME="0", ACTION_END_TIME=str(soon))
    [left] = scheduler.browse()
    assert str(left.getText()) == "two"


def test_cancelling_repetitions(client: Jms, queue: str, scheduler: Scheduler) -> None:
    repeating = client.text("x", AMQ_SCHEDULED_PERIOD=300)
    repeating.setIntProperty("AMQ_SCHEDULED_REPEAT", 1000)
    client.send(queue, repeating)
    consumer = client.consumer(queue)
    message = take(consumer)
    scheduler.request("REMOVE", scheduledJobId=job(message))
    assert scheduler.browse() == []
