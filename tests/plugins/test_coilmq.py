"""CoilMQ on the store: what is lost when it is killed with its own manager is kept with ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from coilmq.store.memory import MemoryQueue

import jdbcstore
from jdbcstore.errors import ConfigurationError
from jdbcstore.plugins.coilmq import DurableQueueManager, make_store
from jdbcstore.testing.polling import wait_until
from tests.support.stomp import Frame, Wire

_START = 180.0
QUEUE = "/queue/COILMQ"


class CoilMq:
    """A process of CoilMQ on a file."""

    def __init__(self, directory: Path, module: str) -> None:
        self.url = f"sqlite:///{directory / 'mq.db'}"
        configuration = directory / "coilmq.cfg"
        configuration.write_text("[coilmq]\nqstore.factory = jdbcstore.plugins.coilmq.make_store\n")
        environment = {**os.environ, "JDBCSTORE_URL": self.url}
        command = [sys.executable, "-m", module, "-c", str(configuration), "-b", "127.0.0.1", "-p", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        watchdog = threading.Timer(_START, self.process.kill)
        watchdog.start()
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"Stomp server listening on 127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise AssertionError("".join(said))
        watchdog.cancel()
        self._reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self._reader.start()

    def kill(self) -> None:
        self.process.kill()
        self._reader.join()
        self.process.communicate()

    def stored(self) -> list[object]:
        with jdbcstore.open(self.url, cleanup_period=0.0) as store:
            return [message.body for message in store.queue("COILMQ").recover()]


@contextmanager
def coilmq(directory: Path, module: str = "jdbcstore.plugins.coilmq") -> Iterator[CoilMq]:
    broker = CoilMq(directory, module)
    try:
        yield broker
    finally:
        broker.kill()


class Client(Wire):
    """STOMP 1.1, with headers that CoilMQ can read: no colons."""

    def __init__(self, port: int) -> None:
        super().__init__(port, "1.1")
        assert self.connect().command == "CONNECTED"

    def send(self, body: bytes, **headers: str) -> None:
        self.write("SEND", {"destination": QUEUE, "receipt": "sent", **headers}, body)
        receipt = self.read()
        assert receipt.headers["receipt-id"] == "sent", receipt

    def subscribe(self, ack: str = "client") -> None:
        self.write("SUBSCRIBE", {"destination": QUEUE, "id": "1", "ack": ack})

    def acknowledge(self, message: Frame) -> None:
        headers = {"message-id": message.headers["message-id"], "subscription": "1", "receipt": "acked"}
        self.write("ACK", headers)


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as clients:
        yield clients


def _kill_with_one_delivered(directory: Path, clients: ExitStack, module: str, waits: bool) -> list[object]:
    """Kill CoilMQ once a consumer has a message, for which it waited or not. What is stored then."""
    with coilmq(directory, module) as broker:
        consumer = clients.enter_context(Client(broker.port))
        producer = clients.enter_context(Client(broker.port))
        if waits:
            consumer.subscribe()
            consumer.write("BEGIN", {"transaction": "t", "receipt": "subscribed"})
            assert consumer.read().command == "RECEIPT"
        producer.send(b"one")
        if not waits:
            consumer.subscribe()
        assert consumer.read().body == b"one"
        broker.process.kill()
    return broker.stored()


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "later"])
def test_killed_with_a_delivered_message(tmp_path: Path, clients: ExitStack, waits: bool) -> None:
    assert _kill_with_one_delivered(tmp_path, clients, "jdbcstore.plugins.coilmq", waits) == ["one"]


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "later"])
def test_its_own_manager_loses_it(tmp_path: Path, clients: ExitStack, waits: bool) -> None:
    """If this fails, CoilMQ keeps messages itself, and our manager is not needed any more."""
    assert _kill_with_one_delivered(tmp_path, clients, "coilmq.start", waits) == []


def test_redelivered_to_another_broker(tmp_path: Path, clients: ExitStack) -> None:
    with coilmq(tmp_path) as broker:
        producer = clients.enter_context(Client(broker.port))
        for number in range(5):
            producer.send(b"%d" % number)
        consumer = clients.enter_context(Client(broker.port))
        consumer.subscribe()
        consumer.acknowledge(consumer.read())
        assert sorted(consumer.read().command for _ in range(2)) == ["MESSAGE", "RECEIPT"]
    with coilmq(tmp_path) as broker:
        consumer = clients.enter_context(Client(broker.port))
        consumer.subscribe("auto")
        assert [consumer.read().body for _ in range(4)] == [b"1", b"2", b"3", b"4"]
        wait_until(lambda: broker.stored() == [], _START, "that all are removed")


def test_what_a_lost_consumer_had_goes_to_the_next(tmp_path: Path, clients: ExitStack) -> None:
    with coilmq(tmp_path) as broker:
        producer, first, second = (clients.enter_context(Client(broker.port)) for _ in range(3))
        producer.send(b"one", custom="value", **{"correlation-id": "corr"})
        producer.send(b"two")
        first.subscribe()
        message = first.read()
        first.close()
        second.subscribe()
        messages: list[Frame] = []
        while len(messages) < 2:  # "two" comes first if CoilMQ has not seen yet that the other is gone
            frame = second.read()
            if frame.command == "MESSAGE":
                messages.append(frame)
                second.acknowledge(frame)
        messages.sort(key=lambda frame: frame.body)
        assert [frame.body for frame in messages] == [b"one", b"two"]
        assert messages[0].headers["redelivered"] == "true"
        assert messages[0].headers["message-id"] == message.headers["message-id"]
        assert messages[0].headers["custom"] == "value"
        assert messages[0].headers["correlation-id"] == "corr"
        assert "redelivered" not in messages[1].headers
        wait_until(lambda: broker.stored() == [], _START, "that both are removed")


def test_transaction(tmp_path: Path, clients: ExitStack) -> None:
    with coilmq(tmp_path) as broker:
        client = clients.enter_context(Client(broker.port))
        for name, end in (("t1", "ABORT"), ("t2", "COMMIT")):
            client.write("BEGIN", {"transaction": name, "receipt": name})
            client.read()
            client.send(name.encode(), transaction=name)
            client.write(end, {"transaction": name, "receipt": end})
            client.read()
        assert broker.stored() == ["t2"]


def test_manager_wants_our_store() -> None:
    with pytest.raises(ConfigurationError, match=r"qstore\.factory"):
        DurableQueueManager(store=MemoryQueue())


def test_no_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JDBCSTORE_URL", raising=False)
    with pytest.raises(ConfigurationError, match="JDBCSTORE_URL"):
        make_store()
