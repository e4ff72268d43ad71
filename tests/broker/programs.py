"""``jdbcstore broker`` in a process of its own, and a client that comes back."""

from __future__ import annotations

import queue
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, Any, Self

import stomp

from tests.cli.command_line import CommandLine
from tests.polling import wait_until

WAIT = 60.0


class BrokerProcess:
    """Started at once; what it prints is read as it comes. It is killed at the end, if it is not gone."""

    def __init__(self, folder: Path, *arguments: str, stomp: str = "127.0.0.1:0") -> None:
        cli = CommandLine(folder)
        self._lines: queue.Queue[str] = queue.Queue()
        self.log = folder / f"broker-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = cli.start(
                "broker", "--stomp", stomp, *arguments, stdout=subprocess.PIPE, stderr=log, bufsize=0
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
        return int(line.split()[1].rpartition(":")[2])

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
    """A stock client, which connects again to whichever broker of several takes it."""

    def __init__(self, *ports: int, name: str = "test") -> None:
        self._ports = ports
        self._name = name
        self._receipts: set[str] = set()
        self._changed = threading.Condition()
        self._numbers = 0
        self._subscription: tuple[str, str] | None = None
        self.received: list[tuple[str, dict[str, str]]] = []
        """Body and headers of each delivery."""
        self.connection: Any = None

    def connect(self) -> None:
        deadline = time.monotonic() + WAIT
        while True:
            for port in self._ports:
                connection = stomp.Connection12(
                    [("127.0.0.1", port)], reconnect_attempts_max=1, reconnect_sleep_initial=0.05
                )
                connection.set_listener("", self)
                try:
                    connection.connect(self._name, "secret", wait=True, with_connect_command=True)
                except stomp.exception.StompException:
                    continue
                self.connection = connection
                if self._subscription is not None:
                    self._subscribe()
                return
            assert time.monotonic() < deadline, f"nobody takes a connection at {self._ports}"
            time.sleep(0.05)

    def send(self, destination: str, body: str) -> None:
        """Send it until the receipt says that it is stored."""
        while True:
            self._numbers += 1
            receipt = f"r{self._numbers}"
            try:
                self.connection.send(destination, body, headers={"persistent": "true", "receipt": receipt})
            except stomp.exception.StompException:
                self.connect()
                continue
            if self._wait(receipt):
                return
            self.connect()

    def consume(self, destination: str, ack: str = "client-individual") -> None:
        self._subscription = (destination, ack)
        self._subscribe()

    def acknowledge(self, headers: dict[str, str]) -> None:
        self.connection.ack(headers["ack"])

    def wait_for(self, count: int) -> None:
        """Until so many different bodies have come."""
        wait_until(lambda: len({body for body, _ in [*self.received]}) >= count, WAIT, f"{count} messages")

    def close(self) -> None:
        if self.connection is not None and self.connection.is_connected():
            self.connection.disconnect()

    def on_message(self, frame: Any) -> None:
        self.received.append((frame.body, frame.headers))

    def on_receipt(self, frame: Any) -> None:
        with self._changed:
            self._receipts.add(frame.headers["receipt-id"])
            self._changed.notify_all()

    def on_disconnected(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _subscribe(self) -> None:
        assert self._subscription is not None
        destination, ack = self._subscription
        self.connection.subscribe(destination, id="1", ack=ack)

    def _wait(self, receipt: str) -> bool:
        """Whether the receipt has come; not if the connection ends before."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: receipt in self._receipts or not self.connection.is_connected(), WAIT
            )
            assert done, f"no answer in {WAIT} s"
            return receipt in self._receipts
