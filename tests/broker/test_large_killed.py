"""A broker that is killed while large messages are sent and received: the next one has each whole."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jdbcstore.testing.polling import wait_until
from tests.support.broker.stomp.serving import Client
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql")

CONFIGURATION = """
url = "{url}"

[locker]
type = "lease-database-locker"
lock_acquire_sleep_interval = 5.0
lock_keep_alive_period = 0.5

[[broker.connectors]]
uri = "stomp://127.0.0.1:0"
min_large_message_size = 65536
"""
QUEUE = "/queue/Q"
BODY = bytes(range(256)) * 12_000


class Brokers:
    """Starts them one after the other."""

    def __init__(self, folder: Path, url: str) -> None:
        self._command_line = CommandLine(folder)
        self._file = folder / "large.toml"
        self._file.write_text(CONFIGURATION.format(url=url))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        """Its port."""
        self._process = process = self._command_line.fork(
            "--config", str(self._file), "broker", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"ready stomp=127.0.0.1:"):
                return int(line.split()[1].rpartition(b":")[2])
        raise AssertionError("the broker has ended")

    def removes(self, pieces: Callable[[], int]) -> None:
        """Wait until no piece is left."""
        process = self._process
        assert process is not None
        wait_until(lambda: pieces() == 0 or process.poll() is not None, what="that the pieces are removed")
        assert process.poll() is None, "the broker has ended"

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def brokers(tmp_path: Path, url: str) -> Iterator[Brokers]:
    brokers = Brokers(tmp_path, url)
    yield brokers
    brokers.kill()


def pieces(database: Database) -> int:
    [[count]] = database.rows("SELECT COUNT(*) FROM JDBCSTORE_PIECES")
    return int(count)


def test_each_is_whole_or_not_there(brokers: Brokers, database: Database) -> None:
    port = brokers.start()
    with Client(port) as sender, Client(port) as consumer, Client(port) as dying:
        for number in range(3):
            sender.send(QUEUE, BODY + bytes([number]))
        consumer.subscribe(QUEUE, ack="client-individual")
        first, *_ = consumer.messages(3)
        consumer.request("ACK", {"id": first.headers["ack"]})
        before = pieces(database)
        head = f"SEND\ndestination:{QUEUE}\npersistent:true\ncontent-length:{4 * len(BODY)}\n\n".encode()
        dying.socket.sendall(head + BODY * 2)
        wait_until(lambda: pieces(database) > before)
        brokers.kill()
    with Client(brokers.start()) as consumer:
        consumer.subscribe(QUEUE, ack="client-individual")
        frames = consumer.messages(2)
        assert [frame.body for frame in frames] == [BODY + b"\1", BODY + b"\2"]
        assert consumer.has_nothing_more()
        wait_until(lambda: pieces(database) == 12)
        for frame in frames:
            consumer.request("ACK", {"id": frame.headers["ack"]})
        brokers.removes(lambda: pieces(database))
