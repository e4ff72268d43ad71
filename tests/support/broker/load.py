"""Producers that go on while a broker is managed, and what their messages have become."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import Self

from jdbcstore.message import openwire
from jdbcstore.testing.polling import wait_until
from tests.support.broker.programs import Client


class Load:
    """Producers, each in a thread, that send messages to a queue, each once the one before is stored.

    :param ports: of one broker, or of several that take turns
    :param headers: of each second message
    """

    def __init__(
        self, *ports: int, to: str, producers: int = 2, count: int = 60, headers: dict[str, str] | None = None
    ) -> None:
        self.queue = to
        self.stored: list[str] = []
        """Bodies of messages whose receipt has come."""
        self._count = count
        self._headers = headers or {}
        self._stopped = threading.Event()
        self._clients = [Client(*ports) for _ in range(producers)]
        for client in self._clients:
            client.connect()
        self._threads = [
            threading.Thread(target=self._produce, args=(number, client))
            for number, client in enumerate(self._clients)
        ]

    def _produce(self, number: int, client: Client) -> None:
        for at in range(self._count):
            if self._stopped.is_set():
                break
            body = f"{self.queue} {number} {at}"
            client.send(f"/queue/{self.queue}", body, **(self._headers if at % 2 else {}))
            self.stored.append(body)
        client.close()

    def stop(self) -> None:
        """Send no further messages."""
        self._stopped.set()

    @property
    def is_running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    @property
    def doubtful(self) -> set[str]:
        """Bodies that may be stored twice, because their first receipt did not come."""
        return {body for client in self._clients for body in client.sent_again}

    def wait_for(self, count: int) -> None:
        """Until so many messages are stored."""
        wait_until(lambda: len(self.stored) >= count, what=f"that {count} messages are stored")

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        """Wait until all are stored."""
        for thread in self._threads:
            thread.join()


def rows(database: str, queue: str) -> list[str]:
    """The bodies of the rows of a queue in an SQLite file, in the order of delivery."""
    with closing(sqlite3.connect(database, timeout=180)) as connection:
        found = connection.execute(
            "SELECT ID, CONTAINER, MSG FROM ACTIVEMQ_MSGS WHERE CONTAINER = ? ORDER BY ID",
            (f"queue://{queue}",),
        ).fetchall()
    messages = [openwire.decode(bytes(blob), sequence=id_, container=name) for id_, name, blob in found]
    return [body_of(message.body) for message in messages]


def body_of(body: object) -> str:
    """A body as a string, which the stock client has sent as bytes."""
    return body.decode() if isinstance(body, bytes) else str(body)


def consumer_of(queue: str, *ports: int) -> Client:
    """A consumer that acknowledges each message on its own."""
    client = Client(*ports)
    client.connect()
    client.consume(f"/queue/{queue}")
    return client


def drained(queue: str, *ports: int, last: str = "the last") -> list[str]:
    """All that is delivered from a queue, in order, until a message that is sent now."""
    sender = Client(*ports)
    sender.connect()
    sender.send(f"/queue/{queue}", last)
    sender.close()
    consumer = consumer_of(queue, *ports)
    wait_until(lambda: last in consumer.bodies, what=f"the last message of {queue}")
    consumer.close()
    return [body for body, _ in consumer.received if body != last]
