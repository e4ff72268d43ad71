"""Claims: the queues of a database, shared by any number of processes without a master."""

from __future__ import annotations

import threading
from typing import Any

from jdbcstore.config import StoreConfig
from jdbcstore.config.fields import LONGEST
from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.callers import JoinedConnection
from jdbcstore.database.engine import Database
from jdbcstore.database.schema import EPOCH_ROW
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.lock import LockStatements
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.dead_letters import DEAD_LETTERS
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.stores.claims.database import ClaimDatabase, unsupported
from jdbcstore.stores.claims.flow import read_all
from jdbcstore.stores.claims.joined import JoinedTransaction
from jdbcstore.stores.claims.outbox import OutboxMover
from jdbcstore.stores.claims.queue import ClaimQueue, RedeliveryLimits
from jdbcstore.stores.shared.checks import destination_named
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.closing import Closing
from jdbcstore.util.shared_queues import FlowSettings


class Claims(Closing):
    """The queues of a database, shared by any number of processes, of which none is the master.

    ``lease`` is the time in seconds after which the claims of a process that has ended without closing are
    free; while it runs, they are renewed in the background, however long the work takes. ``name`` identifies
    the process in ``jdbcstore status``, and nothing depends on it. A message that was rejected, or claimed by
    a process that died, more than ``max_redeliveries`` times is moved to the queue ``dead_letters``, or
    removed if that is None; -1 is without limit. Thread-safe. A process that forks opens them afterwards.

    :raises ConfigurationError: the URL or an option cannot work, or this database cannot be shared so
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are missing and must not be created, or are not ActiveMQ's
    :raises JournalPending: a journal has records that are not in the tables yet
    :raises NotMaster: a broker or a store with a locker serves the same tables
    """

    def __init__(
        self,
        url: str,
        config: StoreConfig | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        name: str | None = None,
        lease: float = 30.0,
        max_redeliveries: int = 6,
        dead_letters: str | Destination | None = "ActiveMQ.DLQ",
        clock: Clock | None = None,
    ) -> None:
        self.config = config or StoreConfig()
        """The options."""
        self._lengths = self.config.name_lengths
        if not 0 < lease <= LONGEST:
            raise ConfigurationError(
                f"lease={lease} must be more than 0 and at most {LONGEST:,.0f} seconds", option="lease"
            )
        target = None if dead_letters is None else self._destination(dead_letters)
        self.limits = RedeliveryLimits(max_redeliveries, target)
        """The policy for messages that fail again and again."""
        self._check_supported(Database(url, self.config).adapter)
        self._queues: dict[Destination, ClaimQueue] = {}
        self._lock = threading.Lock()
        session = DatabaseSession(url, self.config, user=user, password=password)
        try:
            self.database = ClaimDatabase(
                session, self.config, clock or SystemClock(), name=name, lease=lease
            )
            """The database, as this process uses it."""
        except BaseException:
            session.close()
            raise
        self._mover: OutboxMover | None = None
        if self.config.outbox:
            self._mover = self._move_inserted(target or DEAD_LETTERS)

    def _move_inserted(self, dead_letters: Destination) -> OutboxMover:
        try:
            mover = OutboxMover(self.database, self.queue, dead_letters)
        except BaseException:
            self.database.close()
            raise
        mover.start()
        return mover

    def _check_supported(self, adapter: Adapter) -> None:
        if not adapter.shares_queues:
            raise unsupported(adapter)
        if self.config.statements:
            raise ConfigurationError(
                "claims run their own statements: leave out the option statements", option="statements"
            )

    def queue(self, name: str | Destination) -> ClaimQueue:
        """Return the queue of a name, the same object each time.

        :raises InvalidDestination: it is not the name of a queue
        """
        destination = self._destination(name)
        with self._lock:
            if destination not in self._queues:
                self._queues[destination] = ClaimQueue(self.database, self.limits, destination)
            return self._queues[destination]

    def flow(self) -> dict[str, FlowSettings]:
        """Return the pauses, limits and rates of all queues that have any, by the queue's name.

        :raises StoreUnavailable: the database does not answer
        """
        return {
            Destination.parse(name).name: settings
            for name, settings in read_all(self.database.session).items()
        }

    def _destination(self, name: str | Destination) -> Destination:
        return destination_named(name, DestinationKind.QUEUE, self._lengths)

    def join(self, connection: Any) -> JoinedTransaction:
        """Acknowledge and add messages in the transaction that is open on a connection of the application's.

        That is a connection or ORM session of SQLAlchemy, Django's connection, or one of the driver, to the
        same database and with the same driver.

        :raises ConfigurationError: it cannot be joined
        """
        database, session = self.database, self.database.session
        dialect, statements = session.engine.dialect, session.statements
        joined = JoinedConnection(session, dialect, connection, statements, database.recorder)
        return JoinedTransaction(database, joined, self.queue)

    def check(self) -> None:
        """Check that the database answers and the lease is running; only reads while it is believed to be.

        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        :raises StoreUnavailable: the database does not answer
        """
        self.database.lease.check()
        self.database.fetch(self.database.session.of(LockStatements).find_epoch, epoch_row=EPOCH_ROW)

    def close(self) -> None:
        """Return the claims of this process to their places, and close its connections."""
        if self._mover is not None:
            self._mover.stop()
        self.database.close()
        if self._mover is not None:
            self._mover.join()
