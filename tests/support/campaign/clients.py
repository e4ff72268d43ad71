"""The campaign's clients of the brokers, each a thread with one connection, over STOMP or OpenWire.

A message is named ``producer.number`` and never sent again. Each queue and subscription has one consumer: so
nothing is read from an old connection after a new one was used.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from jdbcstore import Destination, Message
from jdbcstore.broker.openwire.commands import Type, read_command
from jdbcstore.message.ids import ConnectionId, ConsumerId, LocalTransactionId, XATransactionId
from tests.support.broker.openwire.client import Client as OpenWireClient
from tests.support.histories.events import Delivery, Leave, Outcome, Problem, Subscribe, Write
from tests.support.histories.recorder import Recorder
from tests.support.stomp import Connection, Frame, Refused

PATIENCE = 5.0
"""Seconds for an answer, after which a client connects again."""
IDLE = 1.5
"""Seconds without a message after which a consumer asks whether the broker is still there."""
PACE = 0.01
BACKLOG = 100
FIRST = "NEWS/first"
ALONE = ("WORK", "OUT", "ITEMS", "ORDERS", FIRST)
SCHEDULED = "LATER"
QUEUES = ("ORDERS", "WORK", "OUT", "ITEMS", SCHEDULED)

_PREPARE, _COMMIT, _ROLLBACK, _BEGIN, _END = 1, 3, 4, 0, 7
_NOT_KNOWN = "xaErrorCode:-4"
_connections = itertools.count(1)

Keys = tuple[tuple[str, str], ...]


class Endpoint(NamedTuple):
    """Where a broker serves, while it is the master."""

    host: str
    stomp: int
    openwire: int


class Progress:
    """What was confirmed so far, by group of clients. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._confirmed: dict[str, set[str]] = defaultdict(set)
        self._acknowledged: dict[str, set[str]] = defaultdict(set)
        self.done: Counter[str] = Counter()
        """Confirmed operations by group."""

    def note(self, group: str, sends: Iterable[tuple[str, str]]) -> None:
        """Count a confirmed operation."""
        with self._changed:
            for scope, name in sends:
                self._confirmed[FIRST if scope == "NEWS" else scope].add(name)
            self.done[group] += 1
            self._changed.notify_all()

    def acknowledge(self, acks: Iterable[tuple[str, str]]) -> None:
        """Note what is about to be acknowledged."""
        with self._changed:
            for scope, name in acks:
                self._acknowledged[scope].add(name)

    def waiting(self, scope: str) -> set[str]:
        """Return the messages that are confirmed, and whose acknowledgement was not tried."""
        with self._changed:
            return self._confirmed[scope] - self._acknowledged[scope]

    def wait_beyond(self, before: Mapping[str, int], seconds: float) -> None:
        """Wait until one of these groups has done more than so much, but not longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: any(self.done[g] > n for g, n in before.items()), seconds)


class Surroundings(NamedTuple):
    """What all clients share."""

    recorder: Recorder
    progress: Progress
    quiet: threading.Event
    """While it is set, producers send nothing."""
    endpoints: tuple[Endpoint, ...]
    seed: str


class Client(threading.Thread):
    """Works with whichever broker serves, until it is stopped."""

    group = "stomp"

    def __init__(self, name: str, shared: Surroundings) -> None:
        super().__init__(name=name, daemon=True)
        self.recorder = shared.recorder
        self.progress = shared.progress
        self.quiet = shared.quiet
        self.chance = random.Random(f"{shared.seed} {name}")
        self.session = ""
        self._endpoints = shared.endpoints
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Let it end what it is at, and then itself."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        """It is asked to end."""
        return self._stopping.is_set()

    def pause(self, seconds: float = PACE) -> None:
        """Wait for so long, or until it is stopped."""
        self._stopping.wait(seconds)

    def run(self) -> None:
        """Connect to each broker in turn, and work while it is there."""
        for endpoint in itertools.cycle(self._endpoints):
            if self.stopping:
                return
            self.session = f"{self.name}-{next(_connections)}"
            try:
                self.serve(endpoint)
            except (OSError, Refused, EOFError):
                self.recorder.add(Leave(time.monotonic(), self.session))
                self.pause(0.2)
            except Exception:
                self.recorder.add(Problem(time.monotonic(), f"{self.name}: {traceback.format_exc()}"))
                return

    def serve(self, endpoint: Endpoint) -> None:
        """Connect to a broker and work until it is gone.

        :raises OSError: it is gone, or not the master
        """
        raise NotImplementedError

    @contextmanager
    def writing(self, sends: Keys = (), acks: Keys = (), due: float = 0.0) -> Iterator[None]:
        """Record a write: confirmed if the block comes to its end, and else of unknown outcome."""
        begun, outcome = time.monotonic(), Outcome.UNKNOWN
        self.progress.acknowledge(acks)
        try:
            yield
            outcome = Outcome.OK
        finally:
            self.recorder.add(Write(begun, time.monotonic(), self.session, outcome, sends, acks, due=due))
            if outcome is Outcome.OK:
                self.progress.note(self.group, sends)


class StompClient(Client):
    """A client of STOMP."""

    client_id = ""

    def __init__(self, name: str, shared: Surroundings) -> None:
        super().__init__(name, shared)
        self._receipts = itertools.count(1)
        self._early: list[Frame] = []
        """What came before a receipt."""

    def serve(self, endpoint: Endpoint) -> None:
        """Connect with a short patience, and work."""
        headers = {"client-id": self.client_id} if self.client_id else {}
        self._early = []
        with Connection(endpoint.stomp, headers, address=endpoint.host, patience=PATIENCE) as connection:
            self.work(connection)

    def work(self, connection: Connection) -> None:
        """Work until it is stopped or the broker is gone."""
        raise NotImplementedError

    def ask(self, connection: Connection, command: str, body: str = "", **headers: str) -> None:
        """Send a frame and wait for its receipt; other frames are kept for :meth:`next`."""
        receipt = f"r{next(self._receipts)}"
        connection.write(command, {**headers, "receipt": receipt}, body.encode())
        while True:
            frame = connection.expect()
            if frame.command == "RECEIPT" and frame.headers["receipt-id"] == receipt:
                return
            self._early.append(frame)

    def next(self, connection: Connection, timeout: float) -> Frame | None:
        """Return the next frame, or None in time."""
        return self._early.pop(0) if self._early else connection.poll(timeout)

    def look(self, connection: Connection) -> None:
        """See that the broker answers.

        :raises Refused: it does not
        """
        transaction = f"{self.session}-look"
        connection.write("BEGIN", {"transaction": transaction})
        self.ask(connection, "ABORT", transaction=transaction)


def path(destination: str) -> str:
    """Return the destination in STOMP's words."""
    return "/topic/NEWS" if destination == "NEWS" else f"/queue/{destination}"


class StompProducer(StompClient):
    """Sends messages one by one, and in transactions, some of which it rolls back."""

    def __init__(self, name: str, shared: Surroundings, *destinations: str) -> None:
        super().__init__(name, shared)
        self._destinations = destinations
        self._numbers = itertools.count(1)

    def new(self, destination: str) -> tuple[str, str]:
        """Return a new message's destination and name; its number is in order in every destination."""
        return destination, f"{self.name}.{next(self._numbers)}"

    def has_room(self) -> bool:
        """Return whether the consumers are not too far behind."""
        if self.quiet.is_set():
            return False
        scopes = (FIRST if name == "NEWS" else name for name in self._destinations)
        return all(len(self.progress.waiting(scope)) < BACKLOG for scope in scopes)

    def work(self, connection: Connection) -> None:
        """Send at a steady pace."""
        while not self.stopping:
            if not self.has_room():
                self.look(connection)
                self.pause(0.1)
            elif self.chance.random() < 0.5:
                self._send(connection)
            else:
                self._send_batch(connection)
            self.pause()

    def _send(self, connection: Connection) -> None:
        key = self.new(self.chance.choice(self._destinations))
        with self.writing((key,)):
            self.ask(connection, "SEND", key[1], destination=path(key[0]), persistent="true")

    def _send_batch(self, connection: Connection) -> None:
        keys = tuple(
            self.new(self.chance.choice(self._destinations)) for _ in range(self.chance.randint(2, 6))
        )
        transaction = f"{self.session}-{keys[0][1]}"
        begun = time.monotonic()
        connection.write("BEGIN", {"transaction": transaction})
        headers = {"persistent": "true", "transaction": transaction}
        for destination, name in keys:
            connection.write("SEND", {**headers, "destination": path(destination)}, name.encode())
        if self.chance.random() < 0.15:
            failed = Write(begun, begun, self.session, Outcome.FAILED, keys)
            self.recorder.add(failed)
            self.ask(connection, "ABORT", transaction=transaction)
            return
        with self.writing(keys):
            self.ask(connection, "COMMIT", transaction=transaction)


class ScheduledProducer(StompProducer):
    """Sends messages that come due a little later."""

    def work(self, connection: Connection) -> None:
        """Send at a steady pace."""
        while not self.stopping:
            if self.has_room():
                key, delay = self.new(SCHEDULED), self.chance.choice((100, 500, 2000))
                headers = {"AMQ_SCHEDULED_DELAY": str(delay), "persistent": "true"}
                # A clock may be stepped at any time, so that a message may come at once by this one.
                with self.writing((key,)):
                    self.ask(connection, "SEND", key[1], destination=path(SCHEDULED), **headers)
            else:
                self.look(connection)
            self.pause(0.1)


class StompConsumer(StompClient):
    """Consumes and acknowledges, or puts into OUT in the same transaction what it takes."""

    def __init__(self, name: str, shared: Surroundings, scope: str, *, moves: bool = False) -> None:
        super().__init__(name, shared)
        self.scope = scope
        self._moves = moves
        self.client_id = "first" if scope == FIRST else ""
        self.subscribed = threading.Event()

    def work(self, connection: Connection) -> None:
        """Consume until it is stopped."""
        headers = {"activemq.subscriptionName": "first"} if self.client_id else {}
        destination = path("NEWS" if self.client_id else self.scope)
        self.ask(
            connection,
            "SUBSCRIBE",
            id="1",
            destination=destination,
            ack="client-individual",
            **{"activemq.prefetchSize": "20", **headers},
        )
        if self.client_id and not self.subscribed.is_set():
            self.recorder.add(Subscribe(time.monotonic(), self.scope, "NEWS"))
        self.subscribed.set()
        last = time.monotonic()
        while not self.stopping:
            frame = self.next(connection, 0.1)
            if frame is not None and frame.command == "MESSAGE":
                self._take(connection, frame)
                last = time.monotonic()
            elif time.monotonic() > last + IDLE:
                self.look(connection)
                last = time.monotonic()

    def _take(self, connection: Connection, frame: Frame) -> None:
        headers, key = frame.headers, (self.scope, frame.text)
        redelivered = headers.get("redelivered") == "true"
        self.recorder.add(
            Delivery(
                time.monotonic(), self.session, *key, redelivered, message_id=headers.get("message-id", "")
            )
        )
        if not self._moves:
            with self.writing(acks=(key,)):
                self.ask(connection, "ACK", id=headers["ack"])
            return
        transaction = f"{self.session}-{frame.text}"
        connection.write("BEGIN", {"transaction": transaction})
        connection.write("ACK", {"id": headers["ack"], "transaction": transaction})
        producer, number = frame.text.rsplit(".", 1)
        name = f"{producer}/{self.session}.{number}"  # each attempt has its own, so that two are seen
        headers = {"destination": path("OUT"), "persistent": "true", "transaction": transaction}
        connection.write("SEND", headers, name.encode())
        with self.writing((("OUT", name),), (key,)):
            self.ask(connection, "COMMIT", transaction=transaction)


class _Refused(Exception):
    """The broker answered with an exception."""


class _Wire(OpenWireClient):
    """A connection of OpenWire that keeps what is dispatched while it waits for an answer."""

    def __init__(self, endpoint: Endpoint, session: str) -> None:
        self._dispatches: list[bytes] = []
        self._again: bytes | None = None
        try:
            super().__init__(
                endpoint.openwire, address=endpoint.host, patience=PATIENCE, connection_id=f"ID:{session}"
            )
            self.done(Type.SESSION_INFO, session_id=self.session_id)
        except BaseException as error:
            if hasattr(self, "socket"):
                self.socket.close()
            if isinstance(error, (AssertionError, _Refused)):
                raise EOFError(str(error)) from error
            raise

    def done(self, kind: Type, **values: Any) -> None:
        """Send a command, and wait until it is answered.

        :raises EOFError: the connection ended
        :raises _Refused: the broker refused it
        """
        command_id = self.write(kind, **values)
        while (frame := self.frame()) is not None:
            if frame[4] == Type.MESSAGE_DISPATCH:
                self._dispatches.append(frame)
            elif frame[4] in (Type.RESPONSE, Type.INTEGER_RESPONSE, Type.EXCEPTION_RESPONSE):
                command = read_command(frame, self.version)
                if command["correlation_id"] != command_id:
                    continue
                if command.type is Type.EXCEPTION_RESPONSE:
                    raise _Refused(f"{command['error'].name}: {command['error'].text}")
                return
        raise EOFError("the connection ended")

    def frame(self) -> bytes | None:
        """Return the next frame: one that was put back, or one of the connection."""
        frame, self._again = self._again, None
        return super().frame() if frame is None else frame

    def next_message(self, timeout: float) -> tuple[Message, int] | None:
        """Return the next message and its redelivery counter, or None in time.

        :raises EOFError: the connection ended
        """
        self.socket.settimeout(timeout)
        try:
            while not self._dispatches:
                frame = super().frame()
                if frame is None:
                    raise EOFError("the connection ended")
                if frame[4] == Type.MESSAGE_DISPATCH:
                    self._dispatches.append(frame)
        except TimeoutError:
            return None
        finally:
            self.socket.settimeout(PATIENCE)
        self._again = self._dispatches.pop(0)
        return self.dispatched()


@dataclass
class _Branch:
    """A branch whose end is not known."""

    begun: float
    keys: Keys
    prepared: bool = False
    decision: int = 0
    asked: bool = False
    """The decision was sent."""


class XaProducer(Client):
    """Sends in distributed transactions, and decides those that are in doubt when it is back."""

    group = "openwire"

    def __init__(self, name: str, shared: Surroundings) -> None:
        super().__init__(name, shared)
        self._numbers = itertools.count(1)
        self._doubtful: dict[XATransactionId, _Branch] = {}

    @property
    def doubtful(self) -> int:
        """The number of branches whose end is not known."""
        return len(self._doubtful)

    def serve(self, endpoint: Endpoint) -> None:
        """Decide what is left, and go on."""
        with _Wire(endpoint, self.session) as wire:
            wire.done(Type.PRODUCER_INFO, producer_id=wire.producer_id)
            while not self.stopping:
                try:
                    for xid in [*self._doubtful]:
                        self._decide(wire, xid)
                    if not self.quiet.is_set() and len(self.progress.waiting("ITEMS")) < BACKLOG:
                        self._work(wire)
                except _Refused:
                    self.pause(0.2)
                self.pause(0.03)

    def _end(self, wire: _Wire, xid: XATransactionId, operation: int) -> None:
        connection = ConnectionId(wire.connection_id)
        wire.done(Type.TRANSACTION_INFO, connection_id=connection, transaction_id=xid, operation=operation)

    def _work(self, wire: _Wire) -> None:
        names = [f"{self.name}.{next(self._numbers)}" for _ in range(self.chance.randint(1, 4))]
        xid = XATransactionId(86, names[0].encode(), b"c")
        branch = _Branch(time.monotonic(), tuple(("ITEMS", name) for name in names))
        self._doubtful[xid] = branch
        self._end(wire, xid, _BEGIN)
        for name in names:
            fields = {"transaction_id": xid, "persistent": True}
            wire.socket.sendall(wire.message(Destination.queue("ITEMS"), name, **fields))
        self._end(wire, xid, _END)
        if self.chance.random() < 0.9:
            self._end(wire, xid, _PREPARE)
            branch.prepared = True
            branch.decision = _COMMIT if self.chance.random() < 0.9 else _ROLLBACK
        else:
            branch.decision = _ROLLBACK
        if self.chance.random() < 0.95:  # else it stays in doubt for a while
            self._decide(wire, xid)

    def _decide(self, wire: _Wire, xid: XATransactionId) -> None:
        branch = self._doubtful[xid]
        asked_before, branch.asked = branch.asked, True
        outcome = Outcome.FAILED
        try:
            self._end(wire, xid, branch.decision or _ROLLBACK)
            if branch.decision == _COMMIT:
                outcome = Outcome.OK
        except _Refused as refused:
            if _NOT_KNOWN not in str(refused):
                raise
            # A branch that is not known was never prepared, or has ended.
            if branch.decision == _COMMIT:
                outcome = Outcome.OK
                if not asked_before:
                    text = f"{xid} was prepared, never decided, and is not known: {refused}"
                    self.recorder.add(Problem(time.monotonic(), text))
        now = time.monotonic()
        self.recorder.add(Write(branch.begun, now, self.session, outcome, branch.keys))
        del self._doubtful[xid]
        self.progress.note(self.group, branch.keys if outcome is Outcome.OK else ())


class WireConsumer(Client):
    """Consumes over OpenWire and acknowledges each message."""

    group = "openwire"

    def __init__(self, name: str, shared: Surroundings, scope: str) -> None:
        super().__init__(name, shared)
        self.scope = scope

    def serve(self, endpoint: Endpoint) -> None:
        """Consume until it is stopped."""
        destination = Destination.queue(self.scope)
        with _Wire(endpoint, self.session) as wire:
            consumer = ConsumerId(wire.connection_id, 1, 1)
            last = time.monotonic()
            try:
                wire.done(Type.CONSUMER_INFO, consumer_id=consumer, destination=destination, prefetch=20)
                while not self.stopping:
                    came = wire.next_message(0.1)
                    if came is not None:
                        self._take(wire, consumer, *came)
                        last = time.monotonic()
                    elif time.monotonic() > last + IDLE:
                        name = LocalTransactionId(ConnectionId(wire.connection_id), 1)
                        for operation in (_BEGIN, _ROLLBACK):
                            wire.done(Type.TRANSACTION_INFO, transaction_id=name, operation=operation)
                        last = time.monotonic()
            except _Refused as refused:
                raise EOFError(str(refused)) from refused

    def _take(self, wire: _Wire, consumer: ConsumerId, message: Message, redeliveries: int) -> None:
        key = (self.scope, str(message.body))
        self.recorder.add(
            Delivery(
                time.monotonic(),
                self.session,
                *key,
                redelivered=redeliveries > 0,
                message_id=str(message.message_id),
            )
        )
        with self.writing(acks=(key,)):
            ends = {"first": message.message_id, "last": message.message_id}
            wire.done(
                Type.MESSAGE_ACK,
                consumer_id=consumer,
                destination=message.destination,
                ack_type=2,
                count=1,
                **ends,
            )


def make_clients(shared: Surroundings) -> tuple[list[Client], list[Client]]:
    """Return the producers and the consumers of a world."""
    producers: list[Client] = [
        StompProducer("P1", shared, "ORDERS", "WORK", "NEWS"),
        StompProducer("P2", shared, "WORK", "ORDERS"),
        ScheduledProducer("P3", shared, SCHEDULED),
        XaProducer("P4", shared),
    ]
    consumers: list[Client] = [
        StompConsumer("C1", shared, "ORDERS"),
        StompConsumer("C2", shared, "WORK", moves=True),
        StompConsumer("C3", shared, "OUT"),
        StompConsumer("C4", shared, FIRST),
        StompConsumer("C5", shared, SCHEDULED),
        WireConsumer("C6", shared, "ITEMS"),
    ]
    return producers, consumers
