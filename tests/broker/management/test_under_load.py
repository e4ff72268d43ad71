"""Operations over HTTP while STOMP clients send and consume, by the rows and by what clients receive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from jdbcstore.config.broker import Address
from jdbcstore.config.journal import JournalConfig
from jdbcstore.testing.polling import wait_until
from tests.support.broker import load
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.console import console_of
from tests.support.broker.load import Load, consumer_of, drained
from tests.support.broker.programs import BrokerProcess, Client
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

EAGER = """
[locker]
type = "shared-file-locker"
directory = "{folder}"
lock_acquire_sleep_interval = 0.5
"""


@dataclass(frozen=True)
class Place:
    """A broker, with the file of its database."""

    database: str
    api: ApiClient
    port: int

    def rows(self, name: str) -> list[str]:
        return load.rows(self.database, name)

    def is_empty(self, name: str) -> None:
        """Wait until no row of a queue is left."""
        wait_until(lambda: not self.rows(name), what=f"that {name} has no rows")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    database = str(tmp_path_factory.mktemp("load") / "mq.db")
    with console_of(f"sqlite:///{database}") as (client, port):
        yield Place(database, client.api, port)


def all_came(consumer: Client, count: int) -> bool:
    """Whether a consumer, which comes back if it is disconnected, has so many different bodies."""
    if not consumer.connection.is_connected():
        consumer.connect()
    return len(consumer.bodies) >= count


def in_order(bodies: list[str]) -> bool:
    """Whether the messages of each producer are in the order in which it sent them."""
    found: dict[str, list[int]] = {}
    for body in bodies:
        producer, _, number = body.rpartition(" ")
        found.setdefault(producer, []).append(int(number))
    return all(numbers == sorted(set(numbers)) for numbers in found.values())


def but_the_first(bodies: list[str]) -> list[str]:
    """Without the first message of each producer, which may have been stored before its receipt came."""
    producers = [body.rpartition(" ")[0] for body in bodies]
    return [body for at, body in enumerate(bodies) if producers[at] in producers[:at]]


def test_copies(place: Place) -> None:
    with Load(place.port, to="COPIED") as given:
        given.wait_for(20)
        counts = [place.api.post(queue("COPIED", "copy"), to="queue://COPIES", limit=15)["count"]]
        consumer = consumer_of("COPIED", place.port)
        while given.is_running:
            counts.append(place.api.post(queue("COPIED", "copy"), to="queue://COPIES", limit=5)["count"])
    consumer.wait_for(len(given.stored))
    consumer.close()
    place.is_empty("COPIED")
    received = [body for body, _ in consumer.received]
    assert Counter(received) == Counter(given.stored)
    assert in_order(received)
    copies = place.rows("COPIES")
    assert len(copies) == sum(counts) >= 15
    assert {*copies} <= {*given.stored}
    assert drained("COPIES", place.port) == copies
    place.is_empty("COPIES")


def test_a_queue_is_deleted(place: Place) -> None:
    with Load(place.port, to="DELETED", count=10):
        pass
    status, found = place.api.ask("DELETE", queue("DELETED"))
    assert (status, found["count"], place.rows("DELETED")) == (200, 20, [])
    removed = 0
    with Load(place.port, to="KEPT", producers=1) as other, Load(place.port, to="DELETED") as given:
        while len(given.stored) < 80:
            status, found = place.api.ask("DELETE", queue("DELETED"))
            assert status in (200, 404), found  # or not there again yet
            removed += found["count"] if status == 200 else 0
        after = len(given.stored)
    rows = place.rows("DELETED")
    received = drained("DELETED", place.port)
    assert received == rows
    assert in_order(received)
    assert {*received} <= {*given.stored}
    assert {*received} >= {*but_the_first(given.stored[after:])}
    assert removed == len(given.stored) - len(received)
    assert place.rows("KEPT") == other.stored
    assert drained("KEPT", place.port) == other.stored
    place.is_empty("DELETED")


def test_connections_are_dropped(place: Place) -> None:
    consumer = consumer_of("DROPPED", place.port)
    dropped = 0
    with Load(place.port, to="DROPPED") as given:
        while given.is_running and dropped < 12:
            given.wait_for(min(8 * dropped, 100))
            for one in place.api.get("/api/connections"):
                sends = "queue://DROPPED" in one["sends_to"]
                if sends if dropped % 2 else one["consumers"]:
                    status, _ = place.api.ask("DELETE", f"/api/connections/{quote(one['id'], safe='')}")
                    assert status in (200, 404)  # it may just have ended
                    dropped += 1
                    break
            all_came(consumer, 0)
    wait_until(
        lambda: all_came(consumer, len({*given.stored})) and not place.rows("DROPPED"),
        what="that all have come, and are acknowledged",
    )
    consumer.close()
    assert dropped > 0
    assert consumer.bodies == {*given.stored}
    assert consumer.unmarked <= given.doubtful


def test_counters_are_reset(place: Place) -> None:
    consumer = consumer_of("COUNTED", place.port)
    with Load(place.port, to="COUNTED") as given:
        while given.is_running:
            for path in (queue("COUNTED", "reset-counters"), "/api/reset-counters"):
                assert place.api.ask("POST", path, {})[0] in (200, 404)  # before the first message
    consumer.wait_for(len(given.stored))
    place.is_empty("COUNTED")
    wait_until(lambda: place.api.get(queue("COUNTED"))["size"] == 0, what="that the queue is empty")
    assert Counter(body for body, _ in consumer.received) == Counter(given.stored)
    place.api.post(queue("COUNTED", "reset-counters"))
    view = place.api.get(queue("COUNTED"))
    assert (view["size"], view["enqueued"], view["dispatched"], view["in_flight"]) == (0, 0, 0, 0)
    metric = 'jdbcstore_destination_enqueued_messages_total{destination="COUNTED",type="queue"} '
    _, page = place.api.ask("GET", "/metrics")
    [value] = [line.removeprefix(metric) for line in page.splitlines() if line.startswith(metric)]
    assert float(value) == len(given.stored)  # it goes on
    consumer.close()


def test_checkpoints(tmp_path: Path) -> None:
    database = str(tmp_path / "mq.db")
    journal = JournalConfig(directory=str(tmp_path / "journal"))
    with console_of(f"sqlite:///{database}", journal=journal) as (client, port):
        consumer = consumer_of("LEFT", port)
        with Load(port, to="LEFT") as left, Load(port, to="KEPT", producers=1) as kept:
            while left.is_running or kept.is_running:
                client.api.post("/api/checkpoint")
        consumer.wait_for(len(left.stored))
        consumer.close()
        assert Counter(body for body, _ in consumer.received) == Counter(left.stored)
        client.api.post("/api/checkpoint")
        assert load.rows(database, "KEPT") == kept.stored

        def left_the_database() -> bool:
            client.api.post("/api/checkpoint")
            return not load.rows(database, "LEFT")

        wait_until(left_the_database, what="that LEFT has no rows")
        assert drained("KEPT", port) == kept.stored
    assert load.rows(database, "KEPT") == []


def test_the_mastership_goes_to_and_fro(tmp_path: Path) -> None:
    database = str(tmp_path / "mq.db")
    config = tmp_path / "jdbcstore.toml"
    config.write_text(EAGER.format(folder=tmp_path))
    ports, health = [free_port(), free_port()], [free_port(), free_port()]
    apis = [ApiClient(Address("127.0.0.1", port)) for port in health]

    def broker(at: int) -> BrokerProcess:
        arguments = ("--url", f"sqlite:///{database}", "--config", str(config))
        where = (*arguments, "--health", f"127.0.0.1:{health[at]}")
        return BrokerProcess(tmp_path, *where, stomp=f"127.0.0.1:{ports[at]}")

    with broker(0) as first, broker(1) as second:

        def serves(at: int) -> bool:
            try:
                return bool(apis[at].get("/api/lock")["is_held"])
            except OSError:  # it is being started
                return False

        wait_until(lambda: serves(0) or serves(1), what="that one is the master")
        consumer = consumer_of("FRO", *ports)
        with Load(*ports, to="FRO", count=100) as given:
            for turn in range(2):
                given.wait_for(40 * (turn + 1))
                at = 0 if serves(0) else 1

                def handed_over(at: int = at) -> bool:
                    apis[at].ask("POST", "/api/hand-over", {})  # again, if nobody has taken the lock in time
                    return serves(1 - at)

                wait_until(handed_over, what="that the other is the master")
                assert not serves(at)
                wait_until(partial(all_came, consumer, 0), what="that the consumer is back")
        wait_until(
            lambda: all_came(consumer, len({*given.stored})) and not load.rows(database, "FRO"),
            what="that all have come, and are acknowledged",
        )
        consumer.close()
        assert consumer.bodies == {*given.stored}
        assert consumer.unmarked <= given.doubtful
        for at in (0, 1):
            events = [event["event"] for event in apis[at].get("/api/lock/history")]
            assert {"master", "handed_over"} <= {*events}
        assert (first.end(), second.end()) == (0, 0)
