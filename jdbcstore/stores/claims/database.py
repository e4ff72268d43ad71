"""The database of a process that claims: its connections, its lease, and the claims that it holds."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from jdbcstore.config import StoreConfig
from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection, Recorder
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.builder import Statement
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.errors import ConfigurationError, LockLost, OutcomeUnknown, StoreError, StoreUnavailable
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.stores.claims.adding import MessageAdder
from jdbcstore.stores.claims.connections import ClaimConnections
from jdbcstore.stores.claims.held import HeldClaims
from jdbcstore.stores.claims.lease import Lease
from jdbcstore.stores.jdbc.history import RemovalHistory
from jdbcstore.stores.jdbc.wakeups import Wakeups
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.stores.shared.encoding import MessageEncoder
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.util.backoff import Backoff
from jdbcstore.util.clock import Clock
from jdbcstore.util.gate import Gate

log = logging.getLogger(__name__)

T = TypeVar("T")

_CONFLICTS = 10.0
"""Seconds for which work is retried after conflicts with other processes."""
_SUSPENSION = 30.0
_CALLS_END = 10.0
"""Seconds for which a close waits for calls of other threads, of which cancelled ones may be left behind."""
_READS = 4
"""Attempts to read: a restart of the server ends all idle connections."""


class ClaimDatabase:
    """The session, the lease and the wake-ups of one process. Thread-safe.

    :raises StoreError: as the constructor of :class:`~jdbcstore.stores.claims.Claims`
    """

    def __init__(
        self,
        session: DatabaseSession,
        config: StoreConfig,
        clock: Clock,
        *,
        name: str | None,
        lease: float,
    ) -> None:
        self.session = session
        self.clock = clock
        """The clock of timestamps and marks; leases and delays go by the database's."""
        self._held: list[HeldClaims] = []
        self._lost: list[Row] = []
        """Lost connections, which the server may not have ended."""
        self._changed = threading.Condition()
        self._taking = 0
        self._answer_lost = False
        self._gate = Gate()
        if session.adapter.is_of_another(session.engine.dialect):
            raise unsupported(session.adapter)
        session.adapter.check_sessions("a process that claims messages")
        session.prepare_claims()
        history = RemovalHistory(session, clock) if config.history_retention else None
        self.recorder: Recorder | None = history
        """Records the removed messages, if there is a history."""
        self._connections = ClaimConnections(session, recorder=history, lock_wait=_CONFLICTS)
        lengths = config.name_lengths
        self._encoder = MessageEncoder(
            clock, session.max_message_size, lengths.message_id, session.adapter.sent_size
        )
        self._sql = session.of(ClaimStatements)
        self._conflicts = {Failure.TRANSIENT}
        if session.adapter.certifies:
            self._conflicts.add(Failure.DUPLICATE)  # a worker at another node was faster
        name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.lease = Lease(
            session,
            self._gate,
            clock,
            name[: lengths.string_id],
            lease,
            self._connections.borrowed,
            self.return_orphans,
        )
        """The lease of this process."""
        self.adder = MessageAdder(session, self.lease)
        """Adds messages to the queues."""
        self.wakeups = Wakeups(session)
        """The wake-ups of processes that wait."""
        self._cleanup: CleanupTimer | None = None
        if history is not None:
            self._cleanup = CleanupTimer(partial(self._clean, history), config.cleanup_period)
            self._cleanup.start()

    def hold(self) -> HeldClaims:
        """Return the holder of the claims of one more queue."""
        held = HeldClaims()
        self._held.append(held)
        return held

    def encode(self, destination: Destination, message: Message) -> EncodedMessage:
        """Return the row of a message, all but its ID.

        :raises InvalidMessage: it does not fit the columns
        """
        return self._encoder.encode(message, destination, prioritized=True)

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
        return self.run_again(lambda connection: connection.fetch(sql, **values))

    def run_again(self, work: Callable[[Connection], T]) -> T:
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
                if failure not in self._conflicts or backoff.is_over():
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

    @contextlib.contextmanager
    def taking(self) -> Iterator[None]:
        """Surround a query that claims messages and the note of its claims.

        If its answer is lost, its claims are returned before the next such query.
        """
        with self._changed:
            if self._answer_lost:
                self._changed.wait_for(lambda: not self._taking)
                self._return_lost()
            self._taking += 1
        try:
            yield
        except OutcomeUnknown:
            self._answer_lost = True
            raise
        finally:
            with self._changed:
                self._taking -= 1
                self._changed.notify_all()

    def return_unknown(self) -> None:
        """Schedule the return of orphaned claims before the next query that claims messages."""
        self._answer_lost = True

    def _return_lost(self) -> None:
        """Return orphaned claims, if there may be any; the caller holds the condition."""
        if self._answer_lost:
            self._answer_lost = False  # first: another answer may be lost meanwhile
            try:
                self.run(self._return_unknown)
            except BaseException:
                self._answer_lost = True
                raise
        self._lost.clear()  # the others have claimed nothing

    def return_orphans(self) -> None:
        """Return orphaned claims now instead of before the next claim.

        :raises StoreUnavailable: the database does not answer
        """
        with self._changed:
            if not self._taking:
                self._return_lost()
        self._forget_joined()

    def _forget_joined(self) -> None:
        """Forget claims that were settled in transactions of the application's, once these are committed."""
        before = [(held, joined) for held in [*self._held] if (joined := held.joined)]
        if before:
            session = self.lease.number
            claimed = {row[0] for row in self.fetch(self._sql.find_all, session=session)}
            for held, joined in before:
                held.forget_joined(joined, claimed)

    def _return_unknown(self, connection: Connection) -> None:
        session = self.lease.number
        for lost in [*self._lost]:
            # Its last statement may still commit.
            connection.end_lost(lost, time.sleep)
            self._lost.remove(lost)
        holders = [*self._held]
        dropped = [holder.dropped for holder in holders]
        rejected = set[int]().union(*dropped)
        held = set[int]().union(*(holder.of(session) for holder in holders))
        with connection.transaction():
            unknown = {row[0] for row in connection.fetch(self._sql.find_all, session=session)} - held
            for ids, failures in ((unknown - rejected, 0), (unknown & rejected, 1)):
                values = {"session": session, "delay_ms": 0, "failures": failures}
                for sql, some in self._sql.return_claims.parts(sorted(ids)):
                    # Of this session only: if its lease has expired meanwhile, others may have claimed them.
                    connection.execute(sql, **some, **values)
        for holder, ids in zip(holders, dropped, strict=True):
            holder.forget_dropped(ids)

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
            self.return_orphans()
        if not self._connections.close():
            return
        if self._cleanup is not None:
            self._cleanup.stop()
        self.wakeups.close()
        self._connections.wait(_CALLS_END)
        self.lease.close()
        self._connections.forget_idle()
        self.session.close()


def unsupported(adapter: Adapter) -> ConfigurationError:
    """Return the error for a database whose queues cannot be shared."""
    return ConfigurationError(
        f"messages cannot be claimed here through {adapter.name}: use PostgreSQL, MySQL 8, MariaDB 10.6 or"
        " later (with a URL that begins with mariadb) or SQLite; or a broker, on any database",
        option="url",
    )
