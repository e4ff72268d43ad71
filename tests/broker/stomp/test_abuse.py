"""Clients that mean harm, or know no better: others are served meanwhile, and memory has its bounds."""

from __future__ import annotations

import contextlib
import random
import re
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker.stomp.serving import PATIENCE, Client

MAXIMUM_CONNECTIONS = 500
BOUND = 300 * 1024 * 1024
"""How much the process may grow, over all of it together."""

_CONFIGURATION = f"""
[broker]
persistent = false
[[broker.connectors]]
uri = "stomp://127.0.0.1:0"
maximum_connections = {MAXIMUM_CONNECTIONS}
"""
_READY = re.compile(r"ready stomp=127\.0\.0\.1:(\d+) ")


class Broker:
    """A broker's process."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.port = port
        self._process = process
        self.first_memory = self.memory

    @property
    def memory(self) -> int:
        """Bytes that are resident."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = tmp_path_factory.mktemp("abuse")
    (directory / "jdbcstore.toml").write_text(_CONFIGURATION)
    log = directory / "log"
    command = [sys.executable, "-m", "jdbcstore", "--config", str(directory / "jdbcstore.toml"), "broker"]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        found = next((ready for line in process.stdout if (ready := _READY.match(line))), None)
        watchdog.cancel()
        assert found, log.read_text()
        yield Broker(process, int(found[1]))
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture(scope="module", autouse=True)
def _many_sockets() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 4000:
        pytest.skip("this process may not open 2,000 sockets")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


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

    def write(self, data: bytes) -> socket.socket:
        """To a socket of its own; the broker may close it meanwhile."""
        opened = self.open()
        with contextlib.suppress(ConnectionError):
            opened.sendall(data)
        return opened

    def pour(self, opened: socket.socket, piece: bytes) -> None:
        """Write until the broker has had enough, which it has at some time."""

        def pour() -> None:
            for _ in range(100_000):
                opened.sendall(piece)

        with pytest.raises(ConnectionError):
            pour()


def random_bytes(attacker: Attacker) -> None:
    for _ in range(100):
        attacker.write(attacker.random.randbytes(20_000))


def random_bytes_of_clients(attacker: Attacker) -> None:
    for _ in range(50):
        client = attacker.client()
        with contextlib.suppress(ConnectionError):
            client.socket.sendall(attacker.random.randbytes(50_000))


def frames_changed_at_random(attacker: Attacker) -> None:
    frame = b"SEND\ndestination:/queue/FUZZ\ncontent-length:5\nreceipt:1\ncustom:\\c\n\nhello\0"
    for _ in range(100):
        data = bytearray(frame * 5)
        for _ in range(4):
            data[attacker.random.randrange(len(data))] = attacker.random.choice(b"\0\n\r:\\9 \xff")
        client = attacker.client()
        with contextlib.suppress(ConnectionError):
            client.socket.sendall(data)


def endless_headers(attacker: Attacker) -> None:
    for piece in (b"x" * 65536, b"SEND\n" + b"a:b\n" * 16000, b"a:" + b"b" * 65536):
        for opened in (attacker.open(), attacker.client().socket):
            attacker.pour(opened, piece)


def half_frames(attacker: Attacker) -> None:
    for _ in range(100):
        attacker.write(b"CONNECT\naccept-version:1.2\nhost:x\n")
    for _ in range(20):
        for header in (b"content-length:99999999\n", b""):
            half = b"SEND\ndestination:/queue/HALF\n" + header + b"\n" + b"x" * 500_000
            attacker.client().socket.sendall(half)


def bodies_without_end(attacker: Attacker) -> None:
    for start in (b"SEND\ndestination:/queue/Q\n\n", b"SEND\ncontent-length:9999999999\n\n"):
        client = attacker.client()
        client.socket.sendall(start)
        attacker.pour(client.socket, b"x" * 65536)


def slow_loris(attacker: Attacker) -> None:
    opened = [attacker.open() for _ in range(300)]
    for byte in b"CONNECT\naccept-version:1":
        for one in opened:
            with contextlib.suppress(ConnectionError):
                one.sendall(bytes([byte]))


def idle_connections(attacker: Attacker) -> None:
    for _ in range(2000):
        attacker.open()


def wrong_versions_and_heart_beats(attacker: Attacker) -> None:
    for header in (
        *("accept-version:3.0", "accept-version:", "accept-version:1.2\nheart-beat:x", "heart-beat:-1,-1"),
        *("heart-beat:1", "heart-beat:" + "9" * 5000 + ",0"),
    ):
        opened = attacker.write(f"CONNECT\n{header}\nhost:x\n\n\0".encode())
        assert opened.recv(100).startswith(b"ERROR")
    for _ in range(50):
        attacker.write(b"CONNECT\naccept-version:1.2\nheart-beat:1,1\n\n\0")


def nuls_in_bodies(attacker: Attacker) -> None:
    for _ in range(50):
        attacker.client().socket.sendall(b"SEND\ndestination:/queue/NUL\n\n" + b"a\0b" * 1000 + b"\0")


def thousands_of_subscriptions(attacker: Attacker) -> None:
    for _ in range(3):
        client = attacker.client()
        for number in range(1500):  # of which 1,000 are taken
            client.write("SUBSCRIBE", {"id": str(number), "destination": f"/queue/MANY.{number}"})
        client.write("BEGIN", {"transaction": "last", "receipt": "last"})
        answers = [client.read() for _ in range(501)]
        assert {one.command for one in answers[:-1] if one} == {"ERROR"}


def thousands_of_transactions_and_temporaries(attacker: Attacker) -> None:
    client = attacker.client()
    for number in range(3000):
        client.write("BEGIN", {"transaction": str(number)})
        client.write("SEND", {"destination": "/queue/Q", "reply-to": f"/temp-queue/{number}"})


def answers_that_nobody_reads(attacker: Attacker) -> None:
    for _ in range(5):
        client = attacker.client()
        client.socket.settimeout(0.2)
        frame = b"ACK\nid:1\nreceipt:" + b"x" * 5000 + b"\n\n\0"
        with contextlib.suppress(TimeoutError):
            client.socket.sendall(frame * 4000)


def connections_that_come_and_go(attacker: Attacker) -> None:
    for _ in range(500):
        attacker.open().close()


ATTACKS: list[Callable[[Attacker], None]] = [
    random_bytes,
    random_bytes_of_clients,
    frames_changed_at_random,
    endless_headers,
    half_frames,
    bodies_without_end,
    slow_loris,
    idle_connections,
    wrong_versions_and_heart_beats,
    nuls_in_bodies,
    thousands_of_subscriptions,
    thousands_of_transactions_and_temporaries,
    answers_that_nobody_reads,
    connections_that_come_and_go,
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_others_are_served(broker: Broker, attack: Callable[[Attacker], None]) -> None:
    with Client(broker.port) as before, ExitStack() as sockets:
        attack(Attacker(broker.port, sockets))
        served(before, "before")
        with Client(broker.port) as after:
            served(after, "after")
        assert broker.memory - broker.first_memory < BOUND


def served(client: Client, name: str) -> None:
    queue = f"/queue/GOOD.{name}"
    client.send(queue, "one", persistent="false")
    client.subscribe(queue, ack="client")
    frame = client.expect("MESSAGE")
    assert frame.body == b"one"
    client.request("ACK", {"id": frame.headers["ack"]})
    client.request("UNSUBSCRIBE", {"id": "0"})
