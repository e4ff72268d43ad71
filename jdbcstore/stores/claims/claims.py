"""Claims: the queues of a database, shared by any number of processes without a master."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from jdbcstore.config import StoreConfig
from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.callers import JoinedConnection
from jdbcstore.database.connection import Connection, Recorder
from jdbcstore.database.engine import Database
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.builder import Statement
from jdbcstore.database.statements.lock import EPOCH_ROW
from jdbcstore.errors import (
    ConfigurationError,
    LockLost,
    NotMaster,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.message import Message
from jdbcstore.stores.claims.adding import MessageAdder
from jdbcstore.stores.claims.connections import ClaimConnections
from jdbcstore.stores.claims.flow import read_all
from jdbcstore.stores.claims.joined import JoinedTransaction
from jdbcstore.stores.claims.keys import filed_rows
from jdbcstore.stores.claims.lease import Lease
from jdbcstore.stores.claims.queue import ClaimQueue, RedeliveryLimits
from jdbcstore.stores.claims.wakeups import Wakeups
from jdbcstore.stores.jdbc.history import RemovalHistory
from jdbcstore.stores.shared.checks import destination_named
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.stores.shared.encoding import MessageEncoder
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.util.backoff import Backoff
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.gate import Gate
from jdbcstore.util.shared_queues import FlowSettings

log = logging.getLogger(__name__)

T = TypeVar("T")

_CONFLICTS = 10.0
"""Seconds for which work is tried again that other processes were in the way of."""
_SUSPENSION = 30.0
_CALLS_END = 10.0
"""Seconds for which a close waits for calls of other threads, of which cancelled ones may be left behind."""
_READS = 4
"""Attempts to read: a restart of the server ends all idle connections."""


class Claims:
    """The queues of a database, shared by any number of processes, of which none is the master.

    ``lease`` is the time in seconds after which the claims of a process that has ended without closing are
    free; while it runs, they are renewed in the background, whatever the work takes. ``name`` identifies the
    process in ``jdbcstore status``, and nothing depends on it. A message that was rejected, or claimed by a
    process that died, more than ``max_redeliveries`` times is moved to the queue ``dead_letters``, or removed
    if that is None; -1 is without limit. Thread-safe. A process that forks opens them afterwards.

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
        self.clock = clock or SystemClock()
        """The clock of timestamps and marks; leases and delays go by the database's."""
        if lease <= 0:
            raise ConfigurationError(f"lease={lease} must be more than 0 seconds", option="lease")
        target = None if dead_letters is None else self._destination(dead_letters)
        self.limits = RedeliveryLimits(max_redeliveries, target)
        """The policy for messages that nobody can process."""
        self._check_supported(Database(url, self.config).adapter)
        self.session = DatabaseSession(url, self.config, user=user, password=password)
        """The database."""
        self._queues: dict[Destination, ClaimQueue] = {}
        self._lost: list[Row] = []
        """Lost connections, which the server may not have ended."""
        self._lock = threading.Lock()
        self._turn = threading.Condition()
        self._taking = 0
        self._answer_lost = False
        self._gate = Gate()
        try:
            if self.session.adapter.is_of_another(self.session.engine.dialect):
                raise _unsupported(self.session.adapter)
            self.session.prepare_claims()
            history = RemovalHistory(self.session, self.clock) if self.config.history_retention else None
            self.recorder: Recorder | None = history
            """Records the messages that are removed, if there is a history."""
            length = self._lengths.message_id
            self._connections = ClaimConnections(self.session, recorder=history, lock_wait=_CONFLICTS)
            self._encoder = MessageEncoder(
                self.clock, self.session.max_message_size, length, self.session.adapter.sent_size
            )
            self._sql = self.session.claim_statements
            name = name or f"{socket.gethostname()}-{os.getpid()}"
            self.lease = Lease(
                self.session,
                self._gate,
                self.clock,
                name[: self._lengths.string_id],
                lease,
                self._connections.borrowed,
                self.tidy,
            )
            """The lease of this process."""
            self.adder = MessageAdder(self.session, self.lease)
            """Adds messages to the queues."""
            self.wakeups = Wakeups(self.session)
            """The wake-ups of processes that wait."""
            self._cleanup: CleanupTimer | None = None
            if history is not None:
                self._cleanup = CleanupTimer(partial(self._clean, history), self.config.cleanup_period)
                self._cleanup.start()
        except BaseException:
            self.session.close()
            raise

    def _check_supported(self, adapter: Adapter) -> None:
        if not adapter.shares_queues:
            raise _unsupported(adapter)
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
                self._queues[destination] = ClaimQueue(self, destination)
            return self._queues[destination]

    def flow(self) -> dict[str, FlowSettings]:
        """Return the pauses, limits and rates of all queues that have any, by the queue's name.

        :raises StoreUnavailable: the database does not answer
        """
        return {Destination.parse(name).name: one for name, one in read_all(self.session).items()}

    def _destination(self, name: str | Destination) -> Destination:
        return destination_named(name, DestinationKind.QUEUE, self._lengths)

    def join(self, connection: Any) -> JoinedTransaction:
        """Acknowledge and add messages in the transaction that is open on a connection of the application's.

        That is a connection or ORM session of SQLAlchemy, Django's connection, or one of the driver, to the
        same database and with the same driver.

        :raises ConfigurationError: it cannot be joined
        """
        session = self.session
        dialect, statements = session.engine.dialect, session.statements
        joined = JoinedConnection(session, dialect, connection, statements, self.recorder)
        return JoinedTransaction(self, joined)

    def encode(self, destination: Destination, message: Message) -> EncodedMessage:
        """Return the row of a message, all but its ID.

        :raises InvalidMessage: it does not fit the columns
        """
        return self._encoder.encode(message, destination, prioritized=True)

    def row(self, name: str | Destination, message: Message) -> EncodedMessage:
        """Return the row of a message in this queue, all but its ID.

        :raises InvalidMessage: it does not fit the columns
        """
        return self.encode(self._destination(name), message)

    def check(self) -> None:
        """Check that the database answers and the lease is running; only reads while it is believed to be.

        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        :raises StoreUnavailable: the database does not answer
        """
        self.lease.check()
        self.fetch(self.session.lock_statements.find_epoch, epoch_row=EPOCH_ROW)

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do the work on a connection; from the start again while another process is in the way.

        :raises StoreUnavailable: the database does not answer, or others are in the way for too long
        :raises OutcomeUnknown: the connection was lost meanwhile
        :raises NotMaster: it adds messages, and so is guarded, and a broker or store serves the tables now
        """
        backoff = Backoff(0.5, first=0.005, timeout=_CONFLICTS)
        while True:
            try:
                with self._gate.inside():
                    return self._run(work, backoff)
            except LockLost as error:
                self.lease.rejoin()
                if backoff.is_over():
                    raise StoreUnavailable("others take the lock again and again; try again") from error

    def fetch(self, sql: Statement, **values: Any) -> list[Row]:
        """Return the rows of a statement, read in a transaction of its own.

        :raises StoreUnavailable: the database does not answer
        """
        return self._run_again(lambda connection: connection.fetch(sql, **values))

    def _run_again(self, work: Callable[[Connection], T]) -> T:
        """Do work that may be done twice."""
        for left in reversed(range(_READS)):
            try:
                return self.run(work)
            except OutcomeUnknown as error:
                if not left:
                    raise StoreUnavailable("the connection was lost at each attempt to read") from error
        raise AssertionError

    def _run(self, work: Callable[[Connection], T], backoff: Backoff) -> T:
        connections = self._connections
        while True:
            connection = connections.checkout()
            try:
                done = work(connection)
            except self.session.failures as error:
                connections.drop(connection)
                failure = self.session.classify(error)
                if failure is Failure.DISCONNECTED:
                    if connection.session is not None:
                        self._lost.append(connection.session)
                    connections.forget_all()
                    raise OutcomeUnknown from error
                if failure is Failure.READ_ONLY:
                    connections.forget_all()
                if failure is not Failure.TRANSIENT or backoff.is_over():
                    raise self.session.translate(error) from error
                time.sleep(backoff.pause())
            except StoreUnavailable:
                connections.drop(connection)
                raise
            except BaseException:
                # Rolled back, if it was in a transaction.
                connections.give_back(connection)
                raise
            else:
                connections.give_back(connection)
                return done

    def add_by(
        self,
        connection: JoinedConnection,
        encoded: Sequence[EncodedMessage],
        delay: float,
        keyed: Collection[str],
    ) -> list[int]:
        """Add messages by an application's connection, as :meth:`MessageAdder.add_rows` does.

        :raises NotMaster: a broker or store serves the tables now
        """

        def take(own: Connection) -> list[int]:
            with own.transaction():
                return self.adder.numbers(own.fetch, len(encoded))

        def numbers() -> list[int]:
            if not self.session.adapter.takes_numbers_apart:
                return self.adder.numbers(connection.fetch, len(encoded))
            return self._run_again(take)

        self.lease.check(renews=not self.session.adapter.in_files)
        # SQLite's driver begins a transaction at its first write: a guard before that would be one alone.
        ids = numbers()
        epoch = self.lease.epoch
        if not self.is_guarded(connection):
            raise NotMaster("another process has become the master in this transaction: roll it back")
        if epoch != self.lease.epoch:
            ids = numbers()
        connection.insert_rows(
            self.session.statements.add_message,
            [one.row(id_) for one, id_ in zip(encoded, ids, strict=True)],
        )
        connection.insert_rows(self.session.flow_statements.add_keyed, filed_rows(encoded, ids, keyed))
        if delay > 0:
            for id_ in ids:
                connection.execute(self._sql.delay_message, id_=id_, delay_ms=round(delay * 1000))
        return ids

    def is_guarded(self, connection: JoinedConnection) -> bool:
        """Return whether no master can begin before the transaction on this connection ends.

        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        """
        if self._holds_epoch(connection):
            return True
        # No lease can be renewed behind the lock of a whole database that this transaction has.
        self.lease.rejoin(renews=not self.session.adapter.in_files)
        return self._holds_epoch(connection)

    def _holds_epoch(self, connection: JoinedConnection) -> bool:
        return all(connection.lock(guard) for guard in self.lease.guard.short.first)

    @contextlib.contextmanager
    def taking(self) -> Iterator[None]:
        """Around a query that claims messages, and the note of those that it has claimed.

        If its answer is lost, its claims are returned before the next such query.
        """
        with self._turn:
            if self._answer_lost:
                self._turn.wait_for(lambda: not self._taking)
                self._return_lost()
            self._taking += 1
        try:
            yield
        except OutcomeUnknown:
            self._answer_lost = True
            raise
        finally:
            with self._turn:
                self._taking -= 1
                self._turn.notify_all()

    def return_unknown(self) -> None:
        """Have the claims that no caller holds returned before the next query that claims messages."""
        self._answer_lost = True

    def _return_lost(self) -> None:
        """Return the claims that no caller holds, if there may be any; with the turn, while nobody claims."""
        if self._answer_lost:
            self._answer_lost = False  # first: another answer may be lost meanwhile
            try:
                self.run(self._return_unknown)
            except BaseException:
                self._answer_lost = True
                raise
        self._lost.clear()  # the others have claimed nothing

    def tidy(self) -> None:
        """Do what the next query that claims messages would do first: there may never be one.

        :raises StoreUnavailable: the database does not answer
        """
        with self._turn:
            if not self._taking:
                self._return_lost()
        self._forget_joined()

    def _forget_joined(self) -> None:
        """Forget claims that were settled in transactions of the application's, once these are committed."""
        with self._lock:
            queues = [*self._queues.values()]
        before = {queue: joined for queue in queues if (joined := queue.held.joined)}
        if before:
            session = self.lease.number
            claimed = {row[0] for row in self.fetch(self._sql.find_all, session=session)}
            for queue, joined in before.items():
                queue.held.forget_joined(joined, claimed)

    def _return_unknown(self, connection: Connection) -> None:
        session = self.lease.number
        for lost in [*self._lost]:
            # What it was sent may yet be committed.
            connection.end_lost(lost, time.sleep)
            self._lost.remove(lost)
        with self._lock:
            queues = [*self._queues.values()]
        dropped = {queue: queue.held.dropped for queue in queues}
        rejected = set[int]().union(*dropped.values())
        held = set[int]().union(*(queue.held.of(session) for queue in queues))
        with connection.transaction():
            unknown = {row[0] for row in connection.fetch(self._sql.find_all, session=session)} - held
            for ids, failures in ((unknown - rejected, 0), (unknown & rejected, 1)):
                values = {"session": session, "delay_ms": 0, "failures": failures}
                for sql, some in self._sql.return_claims.parts(sorted(ids)):
                    # Of this session only: if its lease has expired meanwhile, others may have claimed them.
                    connection.execute(sql, **some, **values)
        for queue, ids in dropped.items():
            queue.held.forget_dropped(ids)

    def _clean(self, history: RemovalHistory) -> int:
        """Delete the records that are older than ``history_retention``."""

        def run(work: Callable[[Connection], int]) -> int:
            def inside(connection: Connection) -> int:
                with connection.transaction():
                    return work(connection)

            return self.run(inside)

        history.clean(run)
        return 0

    def suspend(self) -> None:
        """Close the database's files before this process forks, where it is in files.

        SQLite in the child would take the parent's locks for its own.
        """
        if not self.session.adapter.in_files:
            return
        if not self._gate.close(_SUSPENSION):
            log.warning("this process forks while messages are claimed or added")
        self._connections.forget_idle()
        self.session.drop_idle()

    def resume(self) -> None:
        """Undo :meth:`suspend`."""
        self._gate.open()

    def close(self) -> None:
        """Return the claims of this process to their places, and close its connections."""
        with contextlib.suppress(StoreError):
            self.tidy()
        if not self._connections.close():
            return
        if self._cleanup is not None:
            self._cleanup.stop()
        self.wakeups.close()
        self._connections.wait(_CALLS_END)
        self.lease.close()
        self._connections.forget_idle()
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def _unsupported(adapter: Adapter) -> ConfigurationError:
    return ConfigurationError(
        f"messages cannot be claimed here through {adapter.name}: use PostgreSQL, MySQL 8, MariaDB 10.6 or"
        " later (with a URL that begins with mariadb) or SQLite; or a broker, on any database",
        option="url",
    )
