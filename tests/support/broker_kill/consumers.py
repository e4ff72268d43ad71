"""Clients that consume: what is acknowledged, and what was confirmed of that, is in the history."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.support.broker_kill.clients import Addresses, Client, Session
from tests.support.broker_kill.history import SUBSCRIPTIONS, TOPIC, History
from tests.support.broker_kill.producers import path
from tests.support.stomp import Frame

PREFETCH = "50"
PAUSE = 0.02
"""Seconds without a message after which what there is is acknowledged."""


class Got(NamedTuple):
    name: str
    ack: str


class Consumer(Client):
    """Consumes from one queue or durable subscription, in batches of random size."""

    mode = "client"
    largest = 30

    def __init__(self, name: str, history: History, addresses: Addresses, seed: int, scope: str) -> None:
        super().__init__(name, history, addresses, seed)
        self.scope = scope
        self.subscribed = False
        self._ids = itertools.count(1)
        if scope in SUBSCRIPTIONS:
            self.connect_headers = {"client-id": scope}

    def work(self, session: Session) -> None:
        got = self._subscribe(session)
        # Now and then one goes by itself, with what it has.
        loyalty = self.chance.randint(20, 400)
        for batch in itertools.count(1):
            size = self.chance.randint(1, self.largest)
            while len(got) < size and (frame := session.connection.poll(PAUSE)) is not None:
                got += self._note(session, [frame])
            if got and batch >= loyalty:
                self.history.leave(self.scope, session.incarnation)
                session.await_receipt(session.ask("DISCONNECT"))
                return
            if got:
                frames, kept = self.acknowledge(session, got)
                got = [*kept, *self._note(session, frames)]
            elif self.stopping:
                return

    def _subscribe(self, session: Session) -> list[Got]:
        destination = TOPIC if self.scope in SUBSCRIPTIONS else self.scope
        headers = {"activemq.subscriptionName": self.scope} if self.scope in SUBSCRIPTIONS else {}
        receipt = session.ask(
            "SUBSCRIBE",
            id="1",
            destination=path(destination),
            ack=self.mode,
            **{"activemq.prefetchSize": PREFETCH, **headers},
        )
        early = self._note(session, session.await_receipt(receipt))
        self.subscribed = True
        return early

    def _note(self, session: Session, frames: Iterable[Frame]) -> list[Got]:
        got = []
        for frame in frames:
            if frame.command == "MESSAGE":
                headers = frame.headers
                self.history.deliver(
                    session.incarnation,
                    session.number,
                    self.scope,
                    frame.text,
                    headers["message-id"],
                    headers.get("redelivered") == "true",
                )
                got.append(Got(frame.text, headers["ack"]))
        return got

    def acknowledge(self, session: Session, got: list[Got]) -> tuple[list[Frame], list[Got]]:
        """Acknowledge it and wait until that is durable: what came meanwhile, what is still to be done."""
        names = [one.name for one in got]
        self.history.acknowledging(self.scope, names)
        frames = session.await_receipt(session.ask("ACK", id=got[-1].ack))
        self.history.acknowledged(session.incarnation, self.scope, names)
        return frames, []


class Transacted(Consumer):
    """Acknowledges in transactions, some of which it gives up; then what it has stays with it."""

    def acknowledge(self, session: Session, got: list[Got]) -> tuple[list[Frame], list[Got]]:
        id_ = f"{self.name}-{session.number}-{next(self._ids)}"
        names = [one.name for one in got]
        session.send("BEGIN", transaction=id_)
        self.take(session, got, id_)
        if self.chance.random() < 0.15:
            return session.await_receipt(session.ask("ABORT", transaction=id_)), got
        self.history.acknowledging(self.scope, names)
        self.committing(names)
        frames = session.await_receipt(session.ask("COMMIT", transaction=id_))
        self.history.acknowledged(session.incarnation, self.scope, names)
        self.committed(names)
        return frames, []

    def take(self, session: Session, got: list[Got], id_: str) -> None:
        session.send("ACK", id=got[-1].ack, transaction=id_)

    def committing(self, names: Iterable[str]) -> None:
        """It is about to be asked for."""

    def committed(self, names: Iterable[str]) -> None:
        """It is confirmed."""


class Mover(Transacted):
    """Puts into OUT what it takes from its queue."""

    mode = "client-individual"

    def take(self, session: Session, got: list[Got], id_: str) -> None:
        for one in got:
            session.send("ACK", id=one.ack, transaction=id_)
            session.send("SEND", one.name, destination=path("OUT"), persistent="true", transaction=id_)

    def committing(self, names: Iterable[str]) -> None:
        self.history.trying("OUT", names)

    def committed(self, names: Iterable[str]) -> None:
        for name in names:
            self.history.confirm("OUT", name)


class Individual(Consumer):
    """Acknowledges each message by itself, in any order, several at a time."""

    mode = "client-individual"

    def acknowledge(self, session: Session, got: list[Got]) -> tuple[list[Frame], list[Got]]:
        frames: list[Frame] = []
        shuffled = self.chance.sample(got, len(got))
        self.history.acknowledging(self.scope, [one.name for one in shuffled])
        asked = {session.ask("ACK", id=one.ack): one.name for one in shuffled}
        while asked:
            frame = session.connection.expect()
            if frame.command == "RECEIPT":
                name = asked.pop(frame.headers["receipt-id"])
                self.history.acknowledged(session.incarnation, self.scope, [name])
            else:
                frames.append(frame)
        return frames, []


def consumers(history: History, addresses: Addresses, seed: int) -> Iterator[Consumer]:
    for name, kind, scope in (
        ("C0", Consumer, "ORDERS"),
        ("C1", Transacted, "ORDERS"),
        ("C2", Individual, "ITEMS"),
        ("C3", Individual, "ITEMS"),
        ("C4", Mover, "WORK"),
        ("C5", Individual, "OUT"),
        ("C6", Consumer, "first"),
        ("C7", Individual, "second"),
    ):
        yield kind(name, history, addresses, seed, scope)
