"""Running seeds: the product's modules are given the simulated threads, clock, chances and sessions."""

from __future__ import annotations

import atexit
import gc
import logging
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import jdbcstore.journal.stream.aside
import jdbcstore.journal.stream.connection
import jdbcstore.journal.stream.keys
import jdbcstore.journal.stream.objects
import jdbcstore.journal.stream.server
import jdbcstore.plugins.kombu
import jdbcstore.plugins.sharing
import jdbcstore.stores.claims.claims
import jdbcstore.stores.jdbc.store
import jdbcstore.stores.jdbc.writer.writer
import jdbcstore.stores.journaled
import jdbcstore.stores.replicated.copying
import jdbcstore.stores.replicated.locker
import jdbcstore.stores.replicated.opening
from jdbcstore.stores.shared import rows
from tests.simulation.ahead import Ahead
from tests.simulation.claims import Shared
from tests.simulation.database import Server, Sessions
from tests.simulation.flow import Limited
from tests.simulation.jetstream import SimulatedConnection, SimulatedLoop
from tests.simulation.journal import Journaling
from tests.simulation.kombu import Kombu
from tests.simulation.masters import CONFIG, Masters
from tests.simulation.outbox import Inserting
from tests.simulation.replicated import Replicated, SimulatedDriver
from tests.simulation.scheduler import SimulatedSystem, replacements
from tests.simulation.streamed import Streaming
from tests.simulation.world import Step, World
from tests.support.histories.checker import Violation

WORLDS: dict[str, type[World]] = {
    "masters": Masters,
    "ahead": Ahead,
    "claims": Shared,
    "flow": Limited,
    "outbox": Inserting,
    "journal": Journaling,
    "kombu": Kombu,
    "streamed": Streaming,
    "replicated": Replicated,
}
LENGTH = 50
_COLLECTED = 20
"""Seeds between two garbage collections: what killed processes leave is in circles."""


class Simulation:
    """The simulations of one worker process. Not thread-safe."""

    def __init__(self) -> None:
        self.server = Server()
        self.sessions = Sessions()
        atexit.register(self.close)
        # Without libpq, whose thread may run on for seconds after a test with PostgreSQL.
        names = [
            name for name in sys.modules if name.startswith("jdbcstore.") and not name.endswith(".libpq")
        ]
        modules = [sys.modules[name] for name in names]
        self._replaced = replacements(modules)
        for module in (jdbcstore.stores.jdbc.store, jdbcstore.stores.claims.claims):
            self._replaced.append((module, "DatabaseSession", self.sessions.open))
        self._replaced.append((jdbcstore.plugins.sharing, "StoreConfig", lambda **_: CONFIG))
        stream = jdbcstore.journal.stream
        replicated = jdbcstore.stores.replicated
        self._replaced += [
            (one, "NatsConnection", SimulatedConnection) for one in (stream.server, replicated.locker)
        ]
        self._replaced += [
            (one, "asyncio", SimulatedLoop)
            for one in (stream.aside, stream.connection, stream.keys, stream.objects, stream.server)
        ]
        self._replaced.append((replicated.copying, "sqlite3", SimulatedDriver))
        # Their ids and lengths are in each message, and so in the journal's records.
        self._replaced += [(rows, "os", SimulatedSystem), (rows, "socket", SimulatedSystem)]
        # Of the worlds whose batches are sent ahead: one message is enough for one.
        self._replaced.append((jdbcstore.stores.jdbc.writer.writer, "_MOST", 1))
        # Writers of killed processes are not closed when this one ends.
        self._replaced.append((jdbcstore.stores.jdbc.writer.writer, "_open", weakref.WeakSet()))

        self._seeds = 0

    @contextmanager
    def _patched(self) -> Iterator[None]:
        before = [(module, name, getattr(module, name)) for module, name, _ in self._replaced]
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        for module, name, simulated in self._replaced:
            setattr(module, name, simulated)
        try:
            yield
        finally:
            for module, name, value in before:
                setattr(module, name, value)
            logging.disable(disabled)

    def world(self, kind: str, seed: int) -> World:
        """Return a world that has not begun."""
        return WORLDS[kind](self.server, self.sessions, seed)

    def run(self, kind: str, seed: int, steps: Iterable[Step] | None = None) -> list[Violation]:
        """Run a seed, or other steps with its chances; return what was wrong."""
        return self.run_world(self.world(kind, seed), steps)

    def run_world(self, world: World, steps: Iterable[Step] | None = None) -> list[Violation]:
        """As :meth:`run`, with a world whose history the caller wants to see."""
        gc.disable()
        try:
            with self._patched():
                return world.run(world.script(world.seed, LENGTH) if steps is None else steps)
        finally:
            self._seeds += 1
            if not self._seeds % _COLLECTED:
                gc.collect(1)
            gc.enable()

    def close(self) -> None:
        """Remove the databases."""
        self.server.close()
        self.sessions.close()
