"""What every client does: connect to the broker of the day, work, and come back when it is gone."""

from __future__ import annotations

import itertools
import random
import threading
import traceback
from typing import NamedTuple

from tests.support.broker_kill.history import History
from tests.support.stomp import Connection, Frame, Refused

_connections = itertools.count(1)


class Address(NamedTuple):
    incarnation: int
    port: int


class Addresses:
    """Where the broker is, for as long as it is there."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._address: Address | None = None

    def set(self, address: Address | None) -> None:
        with self._changed:
            self._address = address
            self._changed.notify_all()

    def wait(self, timeout: float) -> Address | None:
        with self._changed:
            self._changed.wait_for(lambda: self._address is not None, timeout)
            return self._address


class Session:
    """One connection to one broker."""

    def __init__(self, connection: Connection, incarnation: int) -> None:
        self.connection = connection
        self.incarnation = incarnation
        self.number = next(_connections)
        self._receipts = itertools.count(1)

    def send(self, command: str, body: str = "", **headers: str) -> None:
        """Names of headers have ``_`` for ``-``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.write(command, named, body.encode())

    def ask(self, command: str, body: str = "", **headers: str) -> str:
        """Send a frame; the receipt that will say that it was done."""
        receipt = f"r{next(self._receipts)}"
        self.send(command, body, receipt=receipt, **headers)
        return receipt

    def await_receipt(self, receipt: str) -> list[Frame]:
        """Wait for it; what else has come before it."""
        others: list[Frame] = []
        while True:
            frame = self.connection.expect()
            if frame.command == "RECEIPT" and frame.headers["receipt-id"] == receipt:
                return others
            others.append(frame)


class Client(threading.Thread):
    """One thread with one connection at a time. ``stop`` lets it end what it is at."""

    def __init__(self, name: str, history: History, addresses: Addresses, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.history = history
        self.chance = random.Random(f"{seed} {name}")
        self.connect_headers: dict[str, str] = {}
        self._addresses = addresses
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def run(self) -> None:
        while not self.stopping:
            address = self._addresses.wait(0.2)
            if address is None:
                continue
            try:
                with Connection(address.port, self.connect_headers) as connection:
                    self.work(Session(connection, address.incarnation))
            except OSError:
                self._stopping.wait(0.01)
            except Refused as refusal:
                self.history.problem(f"{self.name} was refused by broker {address.incarnation}: {refusal}")
                self._stopping.wait(0.5)
            except Exception:
                self.history.problem(f"{self.name} failed: {traceback.format_exc()}")
                return

    def work(self, session: Session) -> None:
        """Until it is stopping, or the broker is gone."""
        raise NotImplementedError
