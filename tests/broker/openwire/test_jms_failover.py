"""ActiveMQ's JMS client on ``failover:``, while ``jdbcstore broker`` is killed, stopped and started again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.testing.polling import wait_until
from tests.support.broker.openwire.jms import Jms, java
from tests.support.broker.programs import BrokerProcess
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("java_client")]

QUICKLY: dict[str, Any] = {
    "initialReconnectDelay": 20,
    "maxReconnectDelay": 100,
    "useExponentialBackOff": "false",
}
MESSAGES = 120
LIMIT = 300.0
"""Seconds for what is bound to come, on a machine where a broker may take a minute to start."""


class Brokers:
    """One broker after the other on an SQLite file, at the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'mq.db'}"
        self.address = f"127.0.0.1:{free_port()}"
        self.start()

    @property
    def failover(self) -> str:
        return f"failover:(tcp://{self.address})"

    def start(self) -> None:
        self.broker = BrokerProcess(self.folder, "--url", self.url, "--openwire", self.address)
        self.broker.ready()

    def again(self, how: signal.Signals) -> None:
        if how is signal.SIGKILL:
            self.broker.kill()
        else:
            self.broker.end(how)
        self.start()


class Working(threading.Thread):
    """A client at work; its error is the test's."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self._error = error

    def check(self) -> None:
        if self._error is not None:
            raise self._error


class Consumed:
    """What a consumer of a queue has got, until ``stop`` is set."""

    def __init__(self) -> None:
        self.received: list[tuple[str, bool]] = []
        """Bodies, and whether they were redelivered, of messages that it has acknowledged."""
        self.in_doubt: set[str] = set()
        """Bodies of messages whose commit may have happened, as the client says."""
        self.is_idle = False
        """Whether it has waited in vain for a message."""
        self.stop = threading.Event()

    def consume(self, url: str, is_transacted: bool) -> None:
        with Jms(url, None if is_transacted else 1, **QUICKLY) as client:
            consumer = client.consumer("Q?consumer.prefetchSize=10")
            while not self.stop.is_set():
                message = consumer.receive(200)
                self.is_idle = message is None
                if message is None:
                    continue
                body = str(message.getText())
                try:
                    if is_transacted:
                        client.session.commit()
                    self.received.append((body, bool(message.getJMSRedelivered())))
                except java("javax.jms.JMSException") as error:
                    # Rolled back, and delivered again; unless the broker had committed before it was killed.
                    if "in doubt" in str(error):
                        self.in_doubt.add(body)


@pytest.mark.parametrize("is_transacted", [False, True])
def test_nothing_that_was_answered_is_lost(tmp_path: Path, is_transacted: bool) -> None:
    brokers = Brokers(tmp_path)
    sent: list[str] = []
    consumed = Consumed()

    def produce() -> None:
        with Jms(brokers.failover, **QUICKLY) as client:
            for number in range(MESSAGES):
                client.send("Q", f"m{number}")
                sent.append(f"m{number}")

    def missing() -> set[str]:
        return {*sent} - {body for body, _ in [*consumed.received]} - consumed.in_doubt

    def are_sent(count: int) -> bool:
        producer.check()
        return len(sent) >= count

    def have_come() -> bool:
        consumer.check()
        return not missing() or (consumed.is_idle and not missing() - dead(brokers))

    consumer = Working(lambda: consumed.consume(brokers.failover, is_transacted))
    producer = Working(produce)
    try:
        for count, how in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL), 1):
            wait_until(partial(are_sent, count * MESSAGES // 5), LIMIT, "that some are sent")
            brokers.again(how)
        wait_until(partial(are_sent, MESSAGES), LIMIT, "that all are sent")
        wait_until(have_come, LIMIT, "that all have come")
    finally:
        consumed.stop.set()
        consumer.join(LIMIT)
        brokers.broker.end()
    assert unmarked(consumed.received) == []


def unmarked(received: list[tuple[str, bool]]) -> list[str]:
    """Messages that came again, and did not say so."""
    seen: set[str] = set()
    found = []
    for body, is_redelivered in received:
        if body in seen and not is_redelivered:
            found.append(body)
        seen.add(body)
    return found


def dead(brokers: Brokers) -> set[str]:
    """Messages that the client had consumed, and whose acknowledgement was lost: it dead-letters them."""
    with Jms(brokers.failover, **QUICKLY) as client:
        return {*client.browse("ActiveMQ.DLQ")}


def test_durable_subscribers_and_temporary_queues_come_back(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    try:
        with Jms(brokers.failover, client_id="c", **QUICKLY) as client:
            subscriber = client.session.createDurableSubscriber(client.session.createTopic("T"), "s")
            replies = client.session.createTemporaryQueue()
            answers = client.consumer(replies)
            client.send("topic://T", "before")
            assert client.texts(subscriber, 1) == ["before"]
            brokers.again(signal.SIGKILL)
            client.send("topic://T", "after")
            assert client.texts(subscriber, 1) == ["after"]
            client.send(replies, "answer")
            assert client.texts(answers, 1) == ["answer"]
    finally:
        brokers.broker.end()


def test_a_client_is_told_where_the_other_broker_is(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    addresses = ", ".join(f"tcp://127.0.0.1:{port}" for port in ports)

    def start(port: int) -> BrokerProcess:
        url = f"sqlite:///{tmp_path / 'mq.db'}"
        options = "--url", url, "--openwire", f"127.0.0.1:{port}", "--advertise", addresses
        broker = BrokerProcess(tmp_path, *options)
        broker.ready()
        return broker

    broker = start(ports[0])
    try:
        with Jms(f"failover:(tcp://127.0.0.1:{ports[0]})", **QUICKLY) as client:
            client.send("Q", "before")
            broker.kill()
            broker = start(ports[1])
            client.send("Q", "after")
            assert client.texts(client.consumer("Q"), 2) == ["before", "after"]
    finally:
        broker.end()
