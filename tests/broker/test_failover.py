"""Real brokers on one database: one is killed, or the database goes away, and clients lose nothing."""

from __future__ import annotations

import json
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore.testing.polling import wait_until
from tests.support.broker.programs import WAIT, BrokerProcess, Client
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database
from tests.support.ports import free_port
from tests.support.servers import Server

LEASE = """
reconnect_timeout = 0.5

[locker]
type = "lease-database-locker"
lock_acquire_sleep_interval = {lease}
lock_keep_alive_period = 0.5

[io_exception_handler]
type = "lease-locker"
resume_check_sleep_period = 0.5
"""
QUEUE = "/queue/ORDERS"
MESSAGES = 150


class Brokers:
    """Starts them on one database; each that is left is killed at the end."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self._url = url
        self._started: list[BrokerProcess] = []

    def start(self, *arguments: str, port: int = 0) -> BrokerProcess:
        broker = BrokerProcess(self.folder, "--url", self._url, *arguments, stomp=f"127.0.0.1:{port}")
        self._started.append(broker)
        return broker

    def lease(self, seconds: float) -> tuple[str, str]:
        path = self.folder / "lease.toml"
        path.write_text(LEASE.format(lease=seconds))
        return "--config", str(path)

    def close(self) -> None:
        for broker in self._started:
            broker.kill()


@pytest.fixture
def brokers(tmp_path: Path, database: Database) -> Iterator[Brokers]:
    brokers = Brokers(tmp_path, database.url)
    yield brokers
    brokers.close()


def produce(client: Client, bodies: list[str]) -> None:
    for body in bodies:
        client.send(QUEUE, body)


@pytest.mark.backends("sqlite", "postgresql")
def test_a_killed_master_is_followed_and_nothing_is_lost(brokers: Brokers, database: Database) -> None:
    options = brokers.lease(10.0) if "postgresql" in database.url else ()
    ports = [free_port(), free_port()]
    master = brokers.start(*options, port=ports[0])
    master.ready()
    slave = brokers.start(*options, port=ports[1])
    assert slave.line().startswith("waiting for lock: ")
    producer, consumer = Client(*ports), Client(*ports)
    for client in (producer, consumer):
        client.connect()
    bodies = [f"order {number}" for number in range(MESSAGES)]
    sending = threading.Thread(target=produce, args=(producer, bodies), daemon=True)
    consumer.consume(QUEUE)
    sending.start()
    for reached in (MESSAGES // 3, 2 * MESSAGES // 3):
        consumer.wait_for(reached)
        master.kill()
        consumer.drop()
        slave.ready()
        port = ports[0] if slave.port == ports[1] else ports[1]
        master, slave = slave, brokers.start(*options, port=port)
        consumer.connect()
    sending.join(WAIT)
    assert not sending.is_alive()
    consumer.wait_for(MESSAGES)
    # What was sent again may still be on its way.
    wait_until(lambda: database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == [], WAIT, "what is left")
    consumer.close()
    producer.close()

    assert consumer.bodies == {*bodies}
    assert consumer.unmarked - producer.sent_again == set()


@pytest.mark.backends("postgresql")
def test_the_connectors_pause_while_the_database_is_away(server: Server, brokers: Brokers) -> None:
    broker = brokers.start(*brokers.lease(120.0), "--health", f"127.0.0.1:{(health := free_port())}")
    port = broker.ready()
    producer, consumer = Client(port), Client(port, acknowledges=False)
    for client in (producer, consumer):
        client.connect()
    producer.send(QUEUE, "before")
    consumer.consume(QUEUE)
    consumer.wait_for(1)

    server.stop()
    sending = threading.Thread(target=produce, args=(producer, ["meanwhile"]), daemon=True)
    sending.start()
    wait_until(lambda: "database unreachable" in ready(health)[1], WAIT, "that it pauses")
    wait_until(lambda: not consumer.connection.is_connected(), WAIT, "that the clients are sent away")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    server.start()
    wait_until(lambda: ready(health) == (200, "ready"), WAIT, "that it resumes")
    consumer.connect()
    sending.join(WAIT)
    consumer.wait_for(2)

    assert consumer.bodies == {"before", "meanwhile"}
    # It was out with a consumer, and not acknowledged.
    assert consumer.unmarked - producer.sent_again == set()
    assert len(consumer.received) > 2
    assert broker.end() == 0


def ready(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=WAIT) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()


@pytest.mark.backends("postgresql")
def test_a_paused_master_is_deposed_and_ends(brokers: Brokers) -> None:
    first = brokers.start(*brokers.lease(10.0), "--name", "first")
    first.ready()
    second = brokers.start(*brokers.lease(10.0), "--name", "second")
    assert second.line().startswith("waiting for lock: first#")

    first.process.send_signal(signal.SIGSTOP)
    second.ready()
    first.process.send_signal(signal.SIGCONT)

    assert first.process.wait(WAIT) == 8
    assert "no longer the master" in first.log.read_text()
    assert second.end() == 0


@pytest.mark.backends("sqlite")
def test_it_ends_in_order(brokers: Brokers) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        broker = brokers.start()
        client = Client(broker.ready())
        client.connect()
        assert broker.end(number) == 0
        client.drop()
        assert broker.line() == ""


@pytest.mark.backends("sqlite")
def test_a_slave_ends_at_once(brokers: Brokers, url: str) -> None:
    master = brokers.start()
    master.ready()
    slave = brokers.start()
    assert slave.line() == f"waiting for lock: process {master.process.pid} holds it"
    cli = CommandLine(brokers.folder, url)
    status = cli("status", "--json").json
    assert status["master"] == {"holder": f"process {master.process.pid}", "expires": None, "epoch": 1}
    assert f"master   process {master.process.pid}, for as long as it runs" in cli("status").out

    assert slave.end() == 0
    assert master.process.poll() is None


@pytest.mark.backends("sqlite")
def test_what_it_prints_for_machines(brokers: Brokers) -> None:
    broker = brokers.start("--json", "--log-format", "json")
    said = json.loads(broker.line())

    [[scheme, address]] = said.pop("addresses")
    assert said == {"state": "ready", "master": True}
    assert (scheme, address.rpartition(":")[0]) == ("stomp", "127.0.0.1")
    broker.end()
    events = [json.loads(line) for line in broker.log.read_text().splitlines()]
    assert {"time", "level", "logger", "message"} <= events[0].keys()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--stomp-tls", "127.0.0.1:0", "--certificate", "x.pem"), "the certificate x.pem"),
        (("--users", "nowhere.toml"), "cannot read the users file nowhere.toml"),
    ],
)
def test_what_cannot_work(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    result = CommandLine(tmp_path, "sqlite:///mq.db").run("broker", *arguments)

    assert (result.code, result.out) == (3, "")
    assert told in result.err


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        result = CommandLine(tmp_path, "sqlite:///mq.db").run("broker", "--stomp", address)

    assert result.code == 1
    assert "address already in use; stop the process that listens there, or choose another" in result.err
