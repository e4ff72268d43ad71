"""A world of an outbox: processes insert rows in transactions of their own, and move them to queues."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import ClassVar

from jdbcstore import Destination
from jdbcstore.errors import StoreError
from jdbcstore.stores.claims import Claims
from jdbcstore.stores.claims.outbox import OutboxMover
from tests.simulation.claims import DEAD, PATIENCE, QUEUES, Shared, Worker
from tests.simulation.database import application_transaction
from tests.simulation.scheduler import Process, current

_INSERT = "INSERT INTO JDBCSTORE_OUTBOX (ID, DESTINATION, BODY) VALUES (?, ?, ?)"
_WAITING = "SELECT 1 FROM JDBCSTORE_OUTBOX LIMIT 1"


class Inserter(Worker):
    """A process that also inserts, and moves."""

    mover: OutboxMover

    def _open(self, process: Process) -> Claims:
        store = super()._open(process)
        self.mover = OutboxMover(store.database, store.queue, Destination.queue(DEAD))
        return store

    def do_insert(self, client: str, chance: random.Random) -> None:
        """Insert some rows, and roll back some transactions.

        IDs are taken before the transaction, as from a sequence, so a row may be committed after higher ones.
        """
        assert isinstance(self.world, Inserting)
        queue, begun = chance.choice(QUEUES), current().now
        names = [self.world.new_name(client) for _ in range(chance.choice((1, 1, 3)))]
        rows = [(self.world.take_id(), queue, name) for name in names]
        wait, fails = chance.choice((0.0, 0.0, 0.3)), chance.random() < 0.2

        def run() -> None:
            current().sleep(wait)
            with application_transaction() as connection:
                for row in rows:
                    connection.execute(_INSERT, row)
                if fails:
                    raise StoreError("the application has changed its mind")

        self.write(client, run, sends=[(queue, name) for name in names], due=begun)

    def do_move(self, client: str, chance: random.Random) -> None:  # noqa: ARG002
        self.mover.move()


class Inserting(Shared):
    """Three processes that insert, move, claim and settle."""

    operations: ClassVar = {**Shared.operations, "add": 2, "insert": 10, "move": 12}
    worker_class = Inserter

    def prepare(self) -> None:
        self._ids = 0
        super().prepare()

    def take_id(self) -> int:
        """Return the next ID of a row."""
        self._ids += 1
        return self._ids

    def drain(self) -> None:
        """Move what is left, then consume it."""
        scheduler, drainer = self.scheduler, self.members[0]
        end = scheduler.now + PATIENCE
        while (self.server.rows(_WAITING) or self.server.has_late()) and scheduler.now < end:
            with suppress(StoreError):
                drainer.mover.move()
            scheduler.sleep(0.1)
        super().drain()
