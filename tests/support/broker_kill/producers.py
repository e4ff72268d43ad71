"""Clients that send. A message whose sending is not confirmed is never sent again."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

from tests.support.broker_kill.clients import Addresses, Client, Session
from tests.support.broker_kill.history import TOPIC, History, Transaction

BACKLOG = 400
"""Messages beyond which a producer waits for the consumers."""


def path(destination: str) -> str:
    return f"/topic/{TOPIC}" if destination == TOPIC else f"/queue/{destination}"


class Producer(Client):
    """Its messages are numbered: ``name.1``, ``name.2``, ..."""

    def __init__(
        self, name: str, history: History, addresses: Addresses, seed: int, destinations: Sequence[str]
    ) -> None:
        super().__init__(name, history, addresses, seed)
        self.destinations = destinations
        self._numbers = itertools.count(1)

    def next_name(self) -> str:
        return f"{self.name}.{next(self._numbers)}"

    def wait_room(self) -> None:
        for destination in self.destinations:
            self.history.wait_room(destination, BACKLOG, 0.5)


class Sender(Producer):
    """Sends with receipts, ``ahead`` of them under way."""

    ahead = 1

    def work(self, session: Session) -> None:
        waiting: deque[tuple[str, str]] = deque()
        [destination] = self.destinations
        while not self.stopping:
            self.wait_room()
            name = self.next_name()
            self.history.trying(destination, [name])
            receipt = session.ask("SEND", name, destination=path(destination), persistent="true")
            waiting.append((receipt, name))
            if len(waiting) >= self.ahead:
                self._confirm(session, *waiting.popleft())
        while waiting:
            self._confirm(session, *waiting.popleft())

    def _confirm(self, session: Session, receipt: str, name: str) -> None:
        session.await_receipt(receipt)
        self.history.confirm(self.destinations[0], name)


class Pipeline(Sender):
    ahead = 20


class Batches(Producer):
    """Sends in transactions, some of which it gives up."""

    largest = 20

    def work(self, session: Session) -> None:
        for number in itertools.count(1):
            if self.stopping:
                return
            self.wait_room()
            self._send_batch(session, f"{self.name}-{session.number}-{number}")

    def _send_batch(self, session: Session, id_: str) -> None:
        batch = Transaction(id_, [])
        self.history.transactions.append(batch)
        session.send("BEGIN", transaction=id_)
        for _ in range(self.chance.randint(1, self.largest)):
            destination, name = self.chance.choice(self.destinations), self.next_name()
            batch.sends.append((destination, name))
            session.send("SEND", name, destination=path(destination), persistent="true", transaction=id_)
        if self.chance.random() < 0.15:
            batch.end = "aborting"
            session.await_receipt(session.ask("ABORT", transaction=id_))
            return
        for destination, name in batch.sends:
            self.history.trying(destination, [name])
        batch.end = "committing"
        session.await_receipt(session.ask("COMMIT", transaction=id_))
        batch.end = "committed"
        for destination, name in batch.sends:
            self.history.confirm(destination, name)
