"""JMS clients on ``failover:``, each in a thread, which write down what happens to them."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from tests.support.broker.openwire.jms import CLIENT, Jms, activemq, java
from tests.support.jms_pair.history import QUEUE, TOPIC, Delivery, End, History

OPTIONS: dict[str, Any] = {
    "randomize": "false",
    "initialReconnectDelay": 20,
    "maxReconnectDelay": 200,
    "useExponentialBackOff": "false",
    "jms__watchTopicAdvisories": "false",
    "jms__prefetchPolicy__all": 20,
}
_BATCH = 4
_WAIT_MS = 200
_PACE = 0.02
"""Seconds between two sends: both databases keep up, and so do the consumers."""


class PairClient(threading.Thread):
    """One connection and session, until it is stopped."""

    def __init__(self, name: str, history: History, url: str, ports: dict[int, str]) -> None:
        super().__init__(name=name, daemon=True)
        self.history = history
        self.ready = threading.Event()
        """Whether its session and consumer exist."""
        self._url = url
        self._ports = ports
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        try:
            with Jms(self._url, self.mode, client_id=self.client_id, **OPTIONS) as client:
                self.work(client)
        except Exception as error:
            self.history.problem(f"{self.name} failed: {error!r}")

    mode: int | None = CLIENT
    """None is a transacted session."""
    client_id: str | None = None

    def work(self, client: Jms) -> None:
        raise NotImplementedError

    def commit(self, client: Jms) -> End:
        """Commit, or acknowledge; what the client says of it."""
        try:
            client.session.commit()
        except java("javax.jms.JMSException") as error:
            return self.end_of(client, error)
        return End.DONE

    def end_of(self, client: Jms, error: Any) -> End:
        if "in doubt" in str(error):
            return End.IN_DOUBT
        if not (
            isinstance(error, java("javax.jms.TransactionRolledBackException"))
            or "marked rollback only" in str(error)  # as ActiveMQ says of one that a failover has cut in two
        ):
            self.history.problem(f"{self.name}: {error}")
        try:
            client.session.rollback()
        except java("javax.jms.JMSException") as failure:
            self.history.problem(f"{self.name} cannot roll back: {failure}")
        return End.ROLLED_BACK


class Producer(PairClient):
    """Sends one message after the other, each confirmed when ``send`` returns."""

    def __init__(self, name: str, destination: str, *common: Any) -> None:
        super().__init__(name, *common)
        self._destination = destination

    def work(self, client: Jms) -> None:
        where = self._destination
        producer = client.session.createProducer(_made(client, where))
        self.ready.set()
        for number in itertools.count():
            if self._stopped.wait(_PACE):
                return
            body = f"{self.name}-{number}"
            try:
                producer.send(client.text(body))
            except java("javax.jms.JMSException") as error:
                self.history.problem(f"{self.name} cannot send {body}: {error}")
                self.history.send([(where, body)], End.IN_DOUBT)
            else:
                self.history.send([(where, body)], End.DONE)


class Batches(PairClient):
    """Sends to the queue and to the topic in transactions."""

    mode = None

    def work(self, client: Jms) -> None:
        producer = client.session.createProducer(None)
        destinations = {name: _made(client, name) for name in (QUEUE, TOPIC)}
        self.ready.set()
        for number in itertools.count():
            if self._stopped.wait(_PACE):
                return
            batch = [((QUEUE, TOPIC)[at % 2], f"{self.name}-{number}.{at}") for at in range(_BATCH)]
            try:
                for where, body in batch:
                    producer.send(destinations[where], client.text(body))
            except java("javax.jms.JMSException") as error:
                end = self.end_of(client, error)
            else:
                end = self.commit(client)
            self.history.send(batch, end)


class Consumer(PairClient):
    """Consumes in transactions, or acknowledges a few messages at once; a durable subscriber of a topic."""

    def __init__(self, name: str, reader: str, is_transacted: bool, *common: Any) -> None:
        super().__init__(name, *common)
        self.mode = None if is_transacted else CLIENT
        self.reader = reader
        self.client_id = None if reader == QUEUE else reader

    def work(self, client: Jms) -> None:
        if self.reader == QUEUE:
            consumer = client.consumer(QUEUE)
        else:
            topic = client.session.createTopic(TOPIC)
            consumer = client.session.createDurableSubscriber(topic, self.reader)
        self.ready.set()
        while not self._stopped.is_set():
            batch = []
            for _ in range(_BATCH - 1):
                message = consumer.receive(_WAIT_MS)
                if message is None:
                    break
                batch.append(message)
                self._note(client, message)
            if batch:
                bodies = [str(message.getText()) for message in batch]
                end = self.commit(client) if self.mode is None else self._acknowledge(batch[-1])
                self.history.consume(self.reader, bodies, end)

    def _note(self, client: Jms, message: Any) -> None:
        failover = client.connection.getTransport().narrow(
            activemq("transport.failover.FailoverTransport").class_
        )
        connected = failover.getConnectedTransportURI()
        broker = "?" if connected is None else self._ports[int(connected.getPort())]
        self.history.deliver(
            Delivery(self.reader, str(message.getText()), bool(message.getJMSRedelivered()), broker)
        )

    def _acknowledge(self, last: Any) -> End:
        try:
            last.acknowledge()
        except java("javax.jms.JMSException") as error:
            self.history.problem(f"{self.name} cannot acknowledge: {error}")
            return End.IN_DOUBT
        return End.DONE


def _made(client: Jms, name: str) -> Any:
    return client.destination(name if name == QUEUE else f"topic://{name}")
