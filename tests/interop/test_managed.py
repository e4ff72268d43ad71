"""What the management has moved under load, as a JMS client of a real ActiveMQ reads it."""

from __future__ import annotations

from typing import Any

import pytest

from jdbcstore.testing.polling import wait_until
from tests.interop.conftest import StartBroker
from tests.support.broker.api import queue
from tests.support.broker.console import console_of
from tests.support.broker.load import Load, consumer_of
from tests.support.broker.programs import Client
from tests.support.databases import Database
from tests.support.interop.typed import to_json

pytestmark = [pytest.mark.backends("postgresql"), pytest.mark.slow]

RED = {"colour": "red"}


def refuse(name: str, port: int, count: int) -> None:
    """A consumer that refuses each message, until they are in the dead letter queue."""
    client = Client(port, acknowledges=False)
    client.connect()
    client.consume(f"/queue/{name}")
    client.wait_for(count)
    for _, headers in client.received:
        client.connection.nack(headers["ack"])
    client.close()


def test_a_jms_client_reads_what_was_moved_copied_and_retried(
    database: Database, activemq: StartBroker
) -> None:
    with console_of(database.url) as (client, port):
        api = client.api
        moved = copied = purged = 0
        with Load(port, to="Q", headers=RED) as given:
            given.wait_for(10)
            while given.is_running:
                asked = {"to": "queue://MOVED", "selector": "colour = 'red'"}
                moved += api.post(queue("Q", "move"), **asked)["count"]
        moved += api.post(queue("Q", "move"), to="queue://MOVED", selector="colour = 'red'")["count"]
        copied += api.post(queue("MOVED", "copy"), to="queue://COPIES", limit=7)["count"]
        with Load(port, to="REFUSED", producers=1, count=5) as refused:
            pass
        refuse("REFUSED", port, 5)
        dead = queue("ActiveMQ.DLQ", "retry")
        wait_until(lambda: len(api.get(queue("ActiveMQ.DLQ", "messages"))) == 5, what="the dead letters")
        assert api.post(dead)["count"] == 5
        with Load(port, to="PURGED") as gone:
            gone.wait_for(20)
            consumer = consumer_of("PURGED", port)
            while gone.is_running:
                purged += api.post(queue("PURGED", "purge"))["count"]
        purged += api.post(queue("PURGED", "purge"))["count"]
        consumer.close()
    purged_rows = "SELECT * FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://PURGED'"
    left = len(database.rows(purged_rows))

    def is_red(body: str) -> bool:
        return int(body.rpartition(" ")[2]) % 2 == 1

    red = [body for body in given.stored if is_red(body)]
    with activemq() as broker:

        def read(name: str, count: int) -> list[Any]:
            return [one["body"] for one in broker.receive(f"queue://{name}", count, timeout_ms=60_000)]

        def as_sent(bodies: list[str]) -> list[Any]:
            return [to_json(body.encode()) for body in bodies]

        found = read("MOVED", moved)
        assert moved == len(red)
        assert sorted(map(str, found)) == sorted(map(str, as_sent(red)))
        assert read("COPIES", copied) == found[:7]
        others = [body for body in given.stored if not is_red(body)]
        assert sorted(map(str, read("Q", len(others)))) == sorted(map(str, as_sent(others)))
        assert read("REFUSED", 5) == as_sent(refused.stored)
        received = {str(one) for one in as_sent([*consumer.bodies])}
        received |= {str(one) for one in read("PURGED", left)}  # what it had not acknowledged is left
        assert purged + len(received) == len(gone.stored)
    assert database.rows("SELECT * FROM ACTIVEMQ_MSGS") == []
