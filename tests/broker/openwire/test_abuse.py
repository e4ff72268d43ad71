"""OpenWire clients that mean harm, or know no better: others are served meanwhile, and memory has its bounds.

``python -m tests.long.openwire`` tries a million frames that are nearly right.
"""

from __future__ import annotations

import contextlib
import random
import re
import resource
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jdbcstore import Destination, Store
from jdbcstore.broker.openwire.commands import Type, write_command
from jdbcstore.message.destination import DestinationKind
from jdbcstore.message.ids import ConnectionId, ConsumerId, LocalTransactionId, ProducerId
from tests.long import churn
from tests.support.broker.openwire.client import Client
from tests.support.broker.openwire.fuzzing import (
    VERSIONS,
    Fuzzer,
    InProcess,
    failures,
    reads,
    right_frames,
    truncations,
)
from tests.support.broker.openwire.serving import Served
from tests.support.broker.stomp.serving import PATIENCE
from tests.support.cli.command_line import CommandLine

MAXIMUM_CONNECTIONS = 500
BOUND = 300 * 1024 * 1024
"""How much the process may grow, over all of it together."""
FRAMES = 1000
Q = Destination.queue("Q")

_CONFIGURATION = f"""
[broker]
persistent = false
[[broker.connectors]]
uri = "tcp://127.0.0.1:0"
maximum_connections = {MAXIMUM_CONNECTIONS}
"""
_READY = re.compile(rb" (?:tcp|openwire)=127\.0\.0\.1:(\d+)")


class Broker:
    """A broker's process, which serves OpenWire at a port."""

    def __init__(self, folder: Path) -> None:
        (folder / "jdbcstore.toml").write_text(_CONFIGURATION)
        self.log = folder / "log"
        pipe = subprocess.PIPE
        with self.log.open("wb") as log:
            self.process = CommandLine(folder).start(
                *("--config", str(folder / "jdbcstore.toml"), "broker"), stdout=pipe, stderr=log
            )
        watchdog = threading.Timer(PATIENCE, self.process.kill)
        watchdog.start()
        assert self.process.stdout is not None
        found = next((ready for line in self.process.stdout if (ready := _READY.search(line))), None)
        watchdog.cancel()
        if not found:
            self.end()
        assert found, self.log.read_text()
        self.port = int(found[1])
        self.first_memory = self.memory

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)

    @property
    def memory(self) -> int:
        """Bytes that are resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 4000:
        pytest.skip("this process may not open 2,000 sockets")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    broker = Broker(tmp_path_factory.mktemp("abuse"))
    try:
        yield broker
    finally:
        broker.end()
    assert "Traceback" not in broker.log.read_text(errors="replace")


class Attacker:
    """Opens sockets that stay open until the attack is over."""

    def __init__(self, port: int, sockets: ExitStack) -> None:
        self._port = port
        self._sockets = sockets
        self.random = random.Random(5)

    def open(self) -> socket.socket:
        return self._sockets.enter_context(
            contextlib.closing(socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE))
        )

    def client(self) -> Client:
        return self._sockets.enter_context(Client(self._port))

    def write(self, data: bytes, opened: socket.socket | None = None) -> None:
        """The broker may close the connection meanwhile."""
        with contextlib.suppress(ConnectionError):
            (opened or self.open()).sendall(data)

    def pour(self, opened: socket.socket, piece: bytes) -> None:
        """Write until the broker has had enough, which it has at some time."""

        def pour() -> None:
            for _ in range(100_000):
                opened.sendall(piece)

        with pytest.raises(ConnectionError):
            pour()


def random_bytes(attacker: Attacker) -> None:
    for _ in range(50):
        attacker.write(attacker.random.randbytes(20_000))
        attacker.write(attacker.random.randbytes(50_000), attacker.client().socket)


def giant_sizes(attacker: Attacker) -> None:
    for size in (-1, -(1 << 31), 0, 1 << 30, (1 << 31) - 1):
        for opened in (attacker.open(), attacker.client().socket):
            attacker.write(struct.pack(">i", size), opened)
            attacker.pour(opened, b"\1" * 65536)


def giant_sizes_inside(attacker: Attacker) -> None:
    """Lengths of strings, byte arrays, arrays, maps and lists that are far beyond their frames."""
    for frame in right_frames(12):
        for at in attacker.random.sample(range(5, len(frame) - 1), min(5, len(frame) - 6)):
            changed = bytearray(frame)
            changed[at : at + 4] = b"\x7f\xff\xff\xff"
            attacker.write(bytes(changed[: len(frame)]), attacker.client().socket)


def half_frames(attacker: Attacker) -> None:
    for _ in range(100):
        attacker.write(struct.pack(">i", 30_000) + b"\1ActiveMQ")
    for _ in range(20):
        attacker.client().socket.sendall(struct.pack(">iB", 90_000_000, 28) + b"x" * 500_000)


def slow_loris(attacker: Attacker) -> None:
    opened = [attacker.open() for _ in range(300)]
    for byte in struct.pack(">iB", 100, 1) + b"ActiveMQ":
        for one in opened:
            attacker.write(bytes([byte]), one)


def idle_connections(attacker: Attacker) -> None:
    for _ in range(2000):
        attacker.open()


def connections_that_come_and_go(attacker: Attacker) -> None:
    for number in range(500):
        opened = attacker.open()
        if number % 2:
            attacker.write(b"\0\0\0", opened)
        opened.close()
    for _ in range(100):
        attacker.client().socket.close()


def thousands_of_consumers(attacker: Attacker) -> None:
    client = attacker.client()
    for number in range(1500):  # of which 1,000 are accepted
        values = {"consumer_id": ConsumerId(client.connection_id, 1, number), "destination": Q}
        client.write(Type.CONSUMER_INFO, wants=number >= 1400, prefetch=1, **values)
    assert {client.expect(Type.CONNECTION_ERROR)["error"].name for _ in range(400)} == {
        "javax.jms.JMSException"
    }


def thousands_of_producers(attacker: Attacker) -> None:
    client = attacker.client()
    for number in range(11_000):
        client.write(Type.PRODUCER_INFO, wants=False, producer_id=ProducerId(client.connection_id, number, 1))
    client.expect(Type.CONNECTION_ERROR)


def thousands_of_transactions_and_temporaries(attacker: Attacker) -> None:
    client = attacker.client()
    connection_id = ConnectionId(client.connection_id)
    for number in range(3000):
        name = LocalTransactionId(connection_id, number)
        client.write(Type.TRANSACTION_INFO, wants=False, transaction_id=name, operation=0)
        temporary = Destination(DestinationKind.TEMPORARY_QUEUE, f"{client.connection_id}:{number}")
        client.write(
            Type.DESTINATION_INFO,
            wants=False,
            connection_id=connection_id,
            destination=temporary,
            operation=0,
        )


def answers_that_nobody_reads(attacker: Attacker) -> None:
    for _ in range(5):
        client = attacker.client()
        client.socket.settimeout(0.2)
        frame = write_command(
            Type.CONSUMER_INFO,
            response_required=True,
            consumer_id=ConsumerId("c", 1, 1),
            destination=Q,
            selector="x" * 5000,
        )
        with contextlib.suppress(TimeoutError):
            client.socket.sendall(frame * 4000)


ATTACKS: list[Callable[[Attacker], None]] = [
    random_bytes,
    giant_sizes,
    giant_sizes_inside,
    half_frames,
    slow_loris,
    idle_connections,
    connections_that_come_and_go,
    thousands_of_consumers,
    thousands_of_producers,
    thousands_of_transactions_and_temporaries,
    answers_that_nobody_reads,
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_others_are_served(broker: Broker, attack: Callable[[Attacker], None]) -> None:
    with Client(broker.port) as before, ExitStack() as sockets:
        attack(Attacker(broker.port, sockets))
        serves(before, "before")
        with Client(broker.port) as after:
            serves(after, "after")
        assert broker.memory - broker.first_memory < BOUND


def serves(client: Client, name: str) -> None:
    queue = Destination.queue(f"GOOD.{name}")
    client.send(queue, "one", persistent=False)
    consumer_id = client.consume(queue)
    message, _ = client.dispatched()
    assert message.body == "one"
    client.acknowledge(consumer_id, message)
    client.request(Type.REMOVE_INFO, object_id=consumer_id, last_delivered=-2)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_command_truncated_at_every_byte_is_refused(version: int) -> None:
    for frame in right_frames(version):
        assert reads(frame, version)
        assert not any(reads(short, version) for short in truncations(frame))


@pytest.mark.parametrize("version", VERSIONS)
def test_fields_of_every_other_type(version: int) -> None:
    """Any byte, and so the type of an id or a destination, becomes the type of something else."""
    chance = random.Random(3)
    kinds = (0, 1, 2, 23, 24, 28, 30, 100, 102, 104, 110, 112, 120, 121, 122, 123, 124, 126, 255)
    for frame in right_frames(version):
        for at in range(5, len(frame)):
            reads(frame[:at] + bytes((chance.choice(kinds),)) + frame[at + 1 :], version)


@pytest.mark.backends("memory")
@pytest.mark.parametrize("version", VERSIONS)
def test_frames_that_are_nearly_right(store: Store, version: int) -> None:
    fuzzer = Fuzzer(7, version)
    with failures() as found, Served(store) as served:
        fed = InProcess(served)
        frames = [fuzzer.frame() for _ in range(FRAMES)]
        fed.feed(
            [frame for number, frame in enumerate(frames) if reads(frame, version) or number % 20 == 0],
            version,
        )
        with Client(served.openwire_port) as client:
            serves(client, "after")
        fed.close()
    assert found == []


@pytest.mark.backends("memory", "sqlite")
def test_a_message_with_damaged_properties_holds_up_no_dead_letters(store: Store) -> None:
    with Served(store) as served, Client(served.openwire_port) as client:
        frame = client.message(Q, "damaged", properties={"name": "value"})
        at = frame.index(b"\0\4name") + 6
        client.socket.sendall(frame[:at] + b"\x63" + frame[at + 1 :])
        client.expect(Type.RESPONSE)
        client.send(Q, "good")
        consumer_id = client.consume(Q)
        (first, _), (last, _) = client.dispatched(), client.dispatched()
        client.acknowledge(consumer_id, first, last, kind=1)
        letters = client.consume(Destination.queue("ActiveMQ.DLQ"))
        letter, _ = client.dispatched()
        assert letter.body == "good"
        client.acknowledge(letters, letter)


def test_clients_that_vanish_in_the_middle_leave_nothing(tmp_path: Path) -> None:
    assert churn.run(tmp_path, 2000, random.Random(1)) == []
