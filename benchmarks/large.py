"""``python -m benchmarks.large``: a large body through the broker and its store, over STOMP and OpenWire.

A client sends one body, and another receives and acknowledges it; the broker has a process of its own. Its
memory is its peak resident memory above what it had before the body came.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from struct import Struct

import click

from benchmarks.memory import _forget_peak, _resident
from jdbcstore import Destination, StoreConfig
from jdbcstore.broker.openwire.commands import Type
from jdbcstore.message.openwire import decode
from jdbcstore.message.openwire.decoder import find_content
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.testing.polling import wait_until
from tests.support.broker.openwire.client import DISPATCH_HEAD, Client, after_nested
from tests.support.servers import MariadbServer, MysqlServer, PostgresqlServer

_SERVERS = {"postgresql": PostgresqlServer, "mariadb": MariadbServer, "mysql": MysqlServer}
_READY = re.compile(r"ready auto=127\.0\.0\.1:(\d+)")
_QUEUE = Destination.queue("LARGE")
_i32 = Struct(">i")
_CHUNK = Random(1).randbytes(1 << 20)
_CONFIGURATION = """
url = "{url}"

[[broker.connectors]]
uri = "auto://127.0.0.1:0"
min_large_message_size = "1 mb"
max_frame_size = "8 gb"
"""


@contextmanager
def database(name: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a new database."""
    if name == "sqlite":
        yield f"sqlite:///{folder}/mq.db"
        return
    server = _SERVERS[name]()
    try:
        yield server.url.render_as_string(hide_password=False)
    finally:
        server.close()


@contextmanager
def broker(url: str, folder: Path) -> Iterator[tuple[int, int]]:
    """Yield the process and the port of a broker."""
    file = folder / "jdbcstore.toml"
    file.write_text(_CONFIGURATION.format(url=url))
    command = [sys.executable, "-m", "jdbcstore", "--config", str(file), "broker"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        ready = next((found for line in process.stdout if (found := _READY.match(line))), None)
        assert ready is not None, (folder / "log").read_text()
        yield process.pid, int(ready[1])
    finally:
        process.terminate()
        process.communicate()


def chunks(size: int) -> Iterator[bytes]:
    """Yield the body."""
    for at in range(0, size, len(_CHUNK)):
        yield _CHUNK[: size - at]


class Stomp:
    """A client of STOMP."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._left = b""
        self._write("CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        self._head()

    def _write(self, text: str) -> None:
        self._socket.sendall(text.encode())

    def _head(self) -> dict[str, str]:
        """Read the head of a frame, and what is in front of it."""
        while b"\n\n" not in self._left.lstrip(b"\0\n"):
            self._left += self._socket.recv(1 << 16)
        head, self._left = self._left.lstrip(b"\0\n").split(b"\n\n", 1)
        return dict(line.split(":", 1) for line in head.decode().split("\n")[1:])

    def send(self, size: int) -> None:
        """Send the body, and wait until it is stored."""
        self._write(f"SEND\ndestination:/queue/LARGE\npersistent:true\nreceipt:r\ncontent-length:{size}\n\n")
        for chunk in chunks(size):
            self._socket.sendall(chunk)
        self._write("\0")
        assert self._head()["receipt-id"] == "r"

    def receive(self) -> int:
        """Receive and acknowledge it, and return its checksum."""
        self._write("SUBSCRIBE\nid:0\ndestination:/queue/LARGE\nack:client\n\n\0")
        headers = self._head()
        size, crc = int(headers["content-length"]), zlib.crc32(self._left)
        size -= len(self._left)
        while size:
            data = self._socket.recv(min(1 << 20, size))
            assert data, "the broker closed the connection"
            size -= len(data)
            crc = zlib.crc32(data, crc)
        self._left = b""
        self._write(f"\nACK\nid:{headers['ack']}\nreceipt:a\n\n\0")
        assert self._head()["receipt-id"] == "a"
        return crc

    def close(self) -> None:
        self._socket.close()


class OpenWire:
    """A client of OpenWire."""

    def __init__(self, port: int) -> None:
        self._client = Client(port, speaks_first=True, max_frame_size=(1 << 31) - 1, inactivity_ms=0)

    def send(self, size: int) -> None:
        """Send the body, and wait until it is stored."""
        frame = self._client.message(_QUEUE, b"")
        found = find_content(frame, 11)
        assert found is not None
        at, _ = found
        self._client.socket.sendall(
            _i32.pack(len(frame) - 4 + 4 + size) + frame[4:at] + b"\1" + _i32.pack(size)
        )
        for chunk in chunks(size):
            self._client.socket.sendall(chunk)
        self._client.socket.sendall(frame[at + 1 :])
        self._client.answer(decode(frame).command_id, Type.RESPONSE)

    def receive(self) -> int:
        """Receive and acknowledge it, and return its checksum."""
        consumer, connection = self._client.consume(_QUEUE), self._client.socket
        data = connection.recv(4096)
        while len(data) < 4096:
            if data[4:5] == bytes([Type.KEEP_ALIVE_INFO]):
                data = data[4 + _i32.unpack_from(data)[0] :]
            data += connection.recv(4096 - len(data))
        left = _i32.unpack_from(data)[0] + 4 - len(data)
        start = after_nested(data, after_nested(data, DISPATCH_HEAD)) + 1
        message = data[:4] + data[start:]
        found = find_content(message, 11)
        assert found is not None
        at, size = found
        begin = start + at + 1
        crc, rest = zlib.crc32(data[begin:]), size - (len(data) - begin)
        left -= rest
        while rest:
            part = connection.recv(min(1 << 20, rest))
            assert part, "the broker closed the connection"
            rest -= len(part)
            crc = zlib.crc32(part, crc)
        tail = b""
        while len(tail) < left:
            tail += connection.recv(left - len(tail))
        body = message[4:at] + b"\0" + tail[:-4]
        self._client.acknowledge(consumer, decode(_i32.pack(len(body)) + body))
        return crc

    def close(self) -> None:
        self._client.socket.close()


@click.command(help=__doc__)
@click.option("--size", default=2048, show_default=True, help="Of the body, in MiB; over OpenWire 1 less.")
@click.option("--only", type=click.Choice(["sqlite", *_SERVERS]), multiple=True)
@click.option("--protocol", type=click.Choice(["stomp", "openwire"]), multiple=True)
def main(size: int, only: tuple[str, ...], protocol: tuple[str, ...]) -> None:
    click.echo("| | | sent (MB/s) | received (MB/s) | the broker's memory (MiB) | until removed (s) |")
    click.echo("|---|---|---|---|---|---|")
    for name in only or ("sqlite", "postgresql", "mariadb", "mysql"):
        for kind, make in (("stomp", Stomp), ("openwire", OpenWire)):
            if kind in (protocol or (kind,)):
                count = (size << 20) - (1 << 20 if kind == "openwire" else 0)
                with ExitStack() as opened:
                    folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
                    url = opened.enter_context(database(name, folder))
                    pid, port = opened.enter_context(broker(url, folder))
                    click.echo(f"| {name} | {kind} | {' | '.join(_measured(make, pid, port, count, url))} |")


def _measured(make: type[Stomp | OpenWire], pid: int, port: int, size: int, url: str) -> list[str]:
    """Return the figures of a body of this size."""
    crc = 0
    for chunk in chunks(size):
        crc = zlib.crc32(chunk, crc)
    sender, consumer = make(port), make(port)
    sender.send(2 << 20)
    consumer.receive()
    consumer.close()
    before = _forget_peak(pid)
    began = time.perf_counter()
    sender.send(size)
    sent = time.perf_counter() - began
    consumer = make(port)
    began = time.perf_counter()
    assert consumer.receive() == crc, "another body came"
    received = time.perf_counter() - began
    peak = _resident(pid, peak=True) - before
    began = time.perf_counter()
    with JdbcStore(url, StoreConfig(cleanup_period=0), read_only=True) as store:
        wait_until(lambda: not store.large_bodies.exist(), 600.0)
    removed = time.perf_counter() - began
    for client in (sender, consumer):
        client.close()
    megabytes = size / 1e6
    return [
        f"{megabytes / sent:.0f}",
        f"{megabytes / received:.0f}",
        f"{peak / (1 << 20):.0f}",
        f"{removed:.1f}",
    ]


if __name__ == "__main__":
    main()
