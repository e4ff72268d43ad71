"""``jdbcstore broker`` in a process of its own, and a client that comes back."""

from __future__ import annotations

import itertools
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

import stomp

from jdbcstore.testing.polling import wait_until
from tests.support.cli.command_line import CommandLine
from tests.support.servers.postgresql import PostgresqlServer

WAIT = 180.0
_GONE = (stomp.exception.StompException, OSError)


@contextmanager
def private_database(name: str, folder: Path) -> Iterator[str]:
    """Yield the URL of an SQLite file in a folder, or of a PostgreSQL server of its own."""
    if name == "sqlite":
        yield f"sqlite:///{folder}/mq.db"
        return
    server = PostgresqlServer()
    try:
        yield server.url.set(drivername="postgresql").render_as_string(hide_password=False)
    finally:
        server.close()


class BrokerProcess:
    """Started at once; what it prints is read as it comes. It is killed at the end, if it is not gone.

    :param stomp: where it listens; "" leaves the connectors to its configuration, of which the first is STOMP
    """

    def __init__(self, folder: Path, *arguments: str, stomp: str = "127.0.0.1:0", **environment: str) -> None:
        cli = CommandLine(folder, **environment)
        self.port = 0
        self.openwire_url = ""
        """Where JMS clients connect, if it serves them."""
        self._lines: queue.Queue[str] = queue.Queue()
        self.log = folder / f"broker-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = cli.fork(
                *("broker", *(("--stomp", stomp) if stomp else ()), *arguments),
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
            )
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._lines.put(line.decode().rstrip("\n"))
        self._lines.put("")

    def line(self) -> str:
        """The next line that it prints; nothing at its end."""
        try:
            return self._lines.get(timeout=WAIT)
        except queue.Empty:
            raise AssertionError(f"nothing printed in {WAIT} s: {self.log.read_text()}") from None

    def ready(self) -> int:
        """Its port, once it serves."""
        line = self.line()
        while line.startswith("waiting for lock"):
            line = self.line()
        assert line.startswith("ready stomp=127.0.0.1:"), f"{line!r}: {self.log.read_text()}"
        assert line.endswith(" master=yes")
        _, stomp, *others, _ = line.split()
        self.port = int(stomp.rpartition(":")[2])
        self.openwire_url = next(
            (one.replace("tcp=", "tcp://") for one in others if one.startswith("tcp=")), ""
        )
        return self.port

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(WAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill()


class Client(stomp.ConnectionListener):  # type: ignore[misc]
    """A stock client. It connects to whichever broker of several takes it, and again when that is gone."""

    def __init__(self, *ports: int, acknowledges: bool = True, client_id: str = "") -> None:
        self.acknowledges = acknowledges
        self._headers = {"client-id": client_id} if client_id else {}
        self._ports = ports
        self._receipts: set[str] = set()
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._ends = 0
        """How often a connection has ended."""
        self._destination = ""
        self.sent_again: set[str] = set()
        """Bodies whose receipt did not come, and which may be stored twice."""
        self.received: list[tuple[str, dict[str, str]]] = []
        """Body and headers of each delivery."""
        self.connection: Any = None

    @property
    def bodies(self) -> set[str]:
        return {body for body, _ in [*self.received]}

    @property
    def unmarked(self) -> set[str]:
        """Bodies that came again, and did not say that they do."""
        seen: set[str] = set()
        wrong = set()
        for body, headers in self.received:
            if body in seen and headers.get("redelivered") != "true":
                wrong.add(body)
            seen.add(body)
        return wrong

    def connect(self) -> None:
        """Try each broker in turn, until one takes it; then go on to consume."""
        deadline = time.monotonic() + WAIT
        while not any(map(self._connected, self._ports)):
            assert time.monotonic() < deadline, f"nobody takes a connection at {self._ports}"
            time.sleep(0.05)

    def _connected(self, port: int) -> bool:
        connection = stomp.Connection12([("127.0.0.1", port)], reconnect_attempts_max=1)
        connection.set_listener("", self)
        try:
            connection.connect("test", "secret", wait=True, headers=self._headers)
            self.connection = connection
            if self._destination:
                connection.subscribe(self._destination, id="1", ack="client-individual")
        except _GONE:
            return False
        return True

    def send(self, destination: str, body: str, **headers: str) -> None:
        """Send it until a receipt says that it is stored."""
        while True:
            receipt = f"r{next(self._numbers)}"
            try:
                headers = {**headers, "persistent": "true", "receipt": receipt}
                self.connection.send(destination, body, headers=headers)
                if self._wait_for(receipt):
                    return
            except _GONE:
                pass
            self.sent_again.add(body)
            self.connect()

    def consume(self, destination: str) -> None:
        """Take what comes from now on, and acknowledge each message on its own."""
        self._destination = destination
        self.connection.subscribe(destination, id="1", ack="client-individual")

    def wait_for(self, count: int) -> None:
        """Until so many different bodies have come."""
        wait_until(lambda: len(self.bodies) >= count, WAIT, f"that {count} messages have come")

    def drop(self) -> None:
        """Wait until the connection is gone."""
        wait_until(lambda: not self.connection.is_connected(), WAIT, "that the connection ends")

    def close(self) -> None:
        """Disconnect, and see that the broker has done what it was told, unless the connection is gone."""
        receipt, ends = f"r{next(self._numbers)}", self._ends
        if not self.connection.is_connected():  # then stomp.py sends nothing
            return
        with suppress(*_GONE):
            self.connection.disconnect(receipt=receipt)
            with self._changed:  # stomp.py counts as disconnected before it tells of the receipt
                assert self._changed.wait_for(lambda: receipt in self._receipts or self._ends > ends, WAIT)

    def on_message(self, frame: Any) -> None:
        self.received.append((frame.body, frame.headers))
        if self.acknowledges:
            with suppress(*_GONE):
                self.connection.ack(frame.headers["ack"])

    def on_receipt(self, frame: Any) -> None:
        with self._changed:
            self._receipts.add(frame.headers["receipt-id"])
            self._changed.notify_all()

    def on_disconnected(self) -> None:
        with self._changed:
            self._ends += 1
            self._changed.notify_all()

    def _wait_for(self, receipt: str) -> bool:
        """Whether the receipt has come; not if the connection ends before."""
        connection = self.connection
        with self._changed:
            decided = self._changed.wait_for(
                lambda: receipt in self._receipts or not connection.is_connected(), WAIT
            )
            assert decided, f"no answer in {WAIT} s"
            return receipt in self._receipts
