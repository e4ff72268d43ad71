"""A world of masters without anything shared: each has a database, which follows the journal's stream."""

from __future__ import annotations

import random
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from jdbcstore import Configuration
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import StreamLockerConfig
from jdbcstore.lockers import Fence
from jdbcstore.stores.replicated.opening import open_replicated
from tests.simulation.database import Server, Sessions, server_at
from tests.simulation.jetstream import SimulatedConnection, Stream
from tests.simulation.masters import CONFIG, Broker, Led
from tests.simulation.scheduler import Process, Task, current
from tests.simulation.streamed import OF_THE_STREAM, StreamBroker, Streaming, journal_of
from tests.simulation.world import Step

_MASTERS = 3
_APPLIED = "SELECT NUMBER FROM JDBCSTORE_STATE WHERE NAME = 'journal_applied'"
_CONTENT = (
    "SELECT ID, CONTAINER, MSGID_PROD, MSGID_SEQ, MSG, PRIORITY, XID FROM ACTIVEMQ_MSGS ORDER BY ID",
    "SELECT * FROM ACTIVEMQ_ACKS ORDER BY 1, 2, 3, 4, 5",
    "SELECT * FROM JDBCSTORE_ACKS ORDER BY 1, 2, 3, 4",
)
_LEVEL = 60.0
"""Seconds within which all have what the master has, once nothing fails any more."""


class SimulatedDriver:
    """The module ``sqlite3``, for copies of a database: they take a while, and are of one moment."""

    Error = sqlite3.Error
    copied: ClassVar[set[Server]] = set()
    """Servers that were copied, or are a copy: of a moment within a checkpoint."""

    @classmethod
    def connect(cls, file: Path, timeout: float) -> sqlite3.Connection:
        del timeout
        current().sleep(current().chance.random() * 0.2)
        here = server_at(f"sqlite:///{file}")
        if here is None:
            return sqlite3.connect(file)
        cls.copied.add(here)
        return here.opened()


class Node(StreamBroker):
    """A process with its own database: it follows, until it is the master."""

    def __init__(self, world: Replicated, number: int, server: Server) -> None:
        super().__init__(world, number)
        self.server = server

    def _open(self) -> Led:
        chance = random.Random(self.world.seed)
        journal = journal_of(
            replicated=True,
            node="abc"[self.number],
            weight=chance.choice((1, 1, 1 + self.number)),
            checkpoint_size=chance.choice((2_000, 1 << 20)),
            kept_for_followers=chance.choice((1, 4_096, 1 << 20)),
        )
        configuration = Configuration(
            data_source=DataSourceConfig(url=self.server.url),
            store=CONFIG,
            journal=journal,
            broker_name=f"broker-{self.number}",
            locker=StreamLockerConfig(session_timeout=2.0, lock_keep_alive_period=0.4),
        )
        return open_replicated(configuration, clock=self.clock)

    def _epoch_of(self, store: Led, fence: Fence) -> int:  # noqa: ARG002
        world = self.world
        assert isinstance(world, Replicated)
        return world.stream.writers.index(store._journal.log.writer) + 1  # type: ignore[union-attr]

    @property
    def applied(self) -> int:
        """The last record that the database has."""
        return applied_of(self.server)


def applied_of(server: Server) -> int:
    """Return the last record that a database has."""
    return sum(int(number or 0) for (number,) in server.rows(_APPLIED))


class Replicated(Streaming):
    """Three brokers, each with a database of its own."""

    faults: ClassVar = {
        "kill": 4,
        "pause": 4,
        "wipe": 3,
        "busy": 1,
        "step": 1,
        **OF_THE_STREAM,
        "stream failed": 1,
        "stream deposed": 3,
    }
    members_count = _MASTERS
    longest = 6.0

    def __init__(self, server: Server, sessions: Sessions, seed: int) -> None:
        super().__init__(server, sessions, seed)
        self.servers = sessions.of_machines(_MASTERS)
        self.server = self.servers[0]
        self._contents: dict[int, tuple[str, str]] = {}
        """By record, who had applied up to it first, and the checksum of the database then."""
        self._seen = dict.fromkeys(self.servers, 0)

    def prepare(self) -> None:
        self.stream = SimulatedConnection.stream = Stream(self.seed)
        SimulatedDriver.copied.clear()
        for server in self.servers:
            server.on_commit = lambda process, server=server: self._compare(process, server)
        super().prepare()

    def _note_change(self, process: Process) -> None:
        """Do nothing: a database may be written by any of its processes."""

    def _trace_epoch(self, process: Process) -> None:
        """Do nothing: the stream numbers the masters."""

    def new_members(self) -> list[Broker]:
        return [Node(self, number, server) for number, server in enumerate(self.servers)]

    def _compare(self, process: Process, server: Server) -> None:
        """Check that a database that has applied up to a record has what each other one had then."""
        applied = applied_of(server)
        if applied == self._seen[server]:
            return
        self._seen[server] = applied
        if server in SimulatedDriver.copied:
            SimulatedDriver.copied.remove(server)
            return
        digest = content_of(server)
        first = self._contents.setdefault(applied, (process.name, digest))
        if first[1] != digest:
            self.problem(f"{process.name} has other messages up to record {applied} than {first[0]} had")

    def fail(self, step: Step) -> None:
        if step.what != "wipe":
            super().fail(step)
            return
        node = self.members[step.who]
        self.trace("fault", node.name, kind="wipe")
        process = node.process
        node.kill()
        if self._is_elsewhere(node):
            node.server.clear()
            self._seen[node.server] = 0
        seconds = random.Random(step.chance).choice((0.01, 2.0, 20.0))
        Task(self._start_later, (node, process, seconds), process=self.scheduler.machine).start()

    def _is_elsewhere(self, node: Node) -> bool:
        """Return whether another database and the stream have everything: who removes the last loses it."""
        most = max(one.applied for one in self.members if one is not node)
        return self.stream.exists and most >= self.stream.first_number - 1

    def drain(self) -> None:
        super().drain()
        if not self.scheduler.wait_until(lambda: self.master is not None, _LEVEL):
            self.problem(f"nobody is the master {_LEVEL:g} s after everything was consumed")
            return
        master = self.master
        assert isinstance(master, Node)
        self.server, last = master.server, master.applied
        if not self.scheduler.wait_until(lambda: all(one.applied >= last for one in self.members), _LEVEL):
            applied = {one.name: one.applied for one in self.members}
            self.problem(f"not all have record {last} after {_LEVEL:g} s: {applied}")
            return
        contents = {one.name: content_of(one.server) for one in self.members if one.applied == last}
        if len({*contents.values()}) > 1:
            self.problem(f"the databases differ: {contents}")


def content_of(server: Server) -> str:
    """Return a checksum of the messages and acknowledgements that a database has."""
    rows: list[Any] = [server.rows(sql) for sql in _CONTENT]
    return sha256(repr(rows).encode()).hexdigest()[:12]
