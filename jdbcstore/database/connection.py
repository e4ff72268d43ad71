"""Connections for writing, and the upkeep of planner statistics after their writes."""

from __future__ import annotations

import contextlib
import enum
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.adapters.control import Notifier
from jdbcstore.database.adapters.sending import SentWrite
from jdbcstore.database.adapters.sql import (
    UNGUARDED,
    Batch,
    EpochGuard,
    Guards,
    Key,
    Row,
    RowGuard,
    Sql,
)
from jdbcstore.database.statements.builder import Statement
from jdbcstore.database.statements.store import Statements
from jdbcstore.errors import OutcomeUnknown, StoreError, StoreUnavailable
from jdbcstore.message.destination import TOPICS
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

LONG = 1024 * 1024
"""The size of a batch in bytes from which it may take long to write."""
_FIRST_REFRESH = 2_000
_LAST_REFRESH = 100_000
_MANY_TIMES = 4
_END_PATIENCE = 1.0
"""Seconds after which a connection that the server ends should be gone."""
_REST = 10
"""As many times as long as a refresh took, it is not refreshed again early."""


class RemovalReason(enum.StrEnum):
    """Why a message was removed."""

    ACKNOWLEDGED = "acknowledged"
    DEAD = "dead"
    EXPIRED = "expired"
    PURGED = "purged"


class Runs(Protocol):
    """The part of a connection that settles messages: one of a store, or the application's."""

    def fetch(self, sql: Sql, **values: Any) -> list[Row]:
        """Return the rows of a statement."""

    def execute(self, sql: Sql, **values: Any) -> None:
        """Run a statement that writes."""

    def insert_rows(self, sql: Sql, rows: Sequence[Row]) -> None:
        """Insert rows of any table."""

    def remove_messages(self, keys: Sequence[Key], outcome: RemovalReason | None) -> object:
        """Delete rows of ACTIVEMQ_MSGS; ``outcome`` is for the recorder."""


class Ahead(NamedTuple):
    """The batch that was sent before one, if any, and the guard that it was committed."""

    before: SentWrite | None = None
    guard: RowGuard | None = None


class Recorder(Protocol):
    """Records messages before they are deleted, in the same transaction."""

    def record(
        self, connection: Runs, keys: Sequence[Key], outcome: RemovalReason, adds: Sequence[Row] = ()
    ) -> None:
        """Record the messages that are still stored; ``adds`` are rows that the transaction adds."""


class Connection:
    """One connection in autocommit mode, for one thread. Driver errors are not translated.

    The exception is an error that does not tell whether a statement that commits took effect: it is raised as
    :class:`~jdbcstore.errors.OutcomeUnknown`, and the connection can be used again after a rollback.
    """

    def __init__(
        self,
        adapter: Adapter,
        statements: Statements,
        driver_errors: tuple[type[Exception], ...],
        raw: Any,
        recorder: Recorder | None = None,
        generation: int = 0,
    ) -> None:
        """Open nothing; ``recorder`` records the messages that this connection removes."""
        self.generation = generation
        """The generation of the database's connections in which it was made."""
        self._adapter = adapter
        self._statements = statements
        self._driver_errors = driver_errors
        self._raw = raw
        self._writing = adapter.writing
        self.cursor = adapter.cursor(raw)
        """The driver's cursor."""
        self.control = adapter.control(self.cursor)
        """Control of the server by this connection."""
        self._recorder = recorder
        self._epoch: EpochGuard | None = None
        self._unclaimed = UNGUARDED
        self._guarding: tuple[RowGuard, Guards] | None = None
        """The last block of sequences, and the guards of a write in it."""
        self._commits = True
        """Whether statements commit themselves: no transaction is open, but those of the adapter's own."""
        self.session: Row | None = None
        """The server's identifier of this connection, after :meth:`identify`."""

    def guard_by(self, epoch: EpochGuard | None = None, unclaimed: Guards = UNGUARDED) -> None:
        """Guard every transaction from now on: by the epoch of the master, if there is one.

        ``unclaimed`` is the guard of a store without a locker: no process has begun to claim messages. A
        block of sequences, if there is one, says so as well.
        """
        self._epoch, self._unclaimed, self._guarding = epoch, unclaimed, None

    def fetch(self, sql: Statement, **values: Any) -> list[Row]:
        if not isinstance(sql, Sql):
            return sql(self.fetch, **values)
        try:
            self.cursor.execute(sql.text, sql.row(**values))
        except self._driver_errors as error:
            self._raise_doubt(error)
            raise
        rows: list[Row] = self.cursor.fetchmany(values["limit"]) if sql.cut else self.cursor.fetchall()
        return rows

    def fetch_in_turn(self, name: str, sql: Sql, **values: Any) -> tuple[list[Row], bool]:
        """Return the rows of a statement that takes turns with those of its name, and whether it got one."""
        try:
            came = self.control.query_in_turn(name, sql.text, sql.row(**values))
        except self._driver_errors as error:
            self._raise_doubt(error)
            raise
        rows: list[Row] = self.cursor.fetchall()
        return rows, came

    def execute(self, sql: Sql, **values: Any) -> None:
        """Run a statement that writes.

        :raises StoreUnavailable: the server reported success, but the statement had no effect
        """
        self.change(sql, **values)

    def change(self, sql: Sql, **values: Any) -> int:
        """Run a statement that writes; the number of rows that it found.

        :raises StoreUnavailable: the server reported success, but the statement had no effect
        """
        row = sql.row(**values)
        try:
            self.cursor.execute(sql.text, row)
        except self._driver_errors as error:
            self._raise_doubt(error)
            raise
        count = int(self.cursor.rowcount)  # the check may run a query on this cursor
        self._writing.check_done(self.cursor, sql.text, row)
        return count

    def execute_many(self, sql: Sql, rows: Sequence[Row]) -> None:
        if rows:
            self._writing.execute_many(self.cursor, sql, rows)

    def insert_rows(self, sql: Sql, rows: Sequence[Row]) -> None:
        """Insert rows of any table in few statements."""
        if rows:
            self._writing.insert_rows(self.cursor, sql, rows)

    def add_messages(self, rows: Sequence[Row]) -> None:
        """Insert rows into ACTIVEMQ_MSGS in the vendor's fastest way."""
        batch = Batch([*rows], [], [], [])
        if self._statements.writes_singly:
            batch = self._statements.arrange(batch)
        if batch.adds:
            self._writing.insert_messages(self.cursor, self._statements.add_message, batch.adds)
        for sql, singly in batch.others:
            self.execute_many(sql, singly)

    def remove_messages(
        self,
        keys: Sequence[Key],
        outcome: RemovalReason | None = RemovalReason.ACKNOWLEDGED,
        adds: Sequence[Row] = (),
    ) -> int:
        """Delete rows of ACTIVEMQ_MSGS in the vendor's fastest way, except messages in doubt.

        ``outcome`` and ``adds`` are for the recorder; None: these are not recorded. Returns the
        number of rows that were to be deleted, including those deleted before.
        """
        keys = self._decided(keys)
        if self._recorder is not None and outcome is not None:
            self._recorder.record(self, keys, outcome, adds)
        remove = self._statements.remove_message
        if self._statements.removes_singly:
            self.execute_many(remove, [(id_,) for _, id_ in keys])
        elif keys:
            self._writing.delete_messages(self.cursor, remove, keys)
        return len(keys)

    def _decided(self, keys: Sequence[Key]) -> Sequence[Key]:
        """Return the keys without messages that are in doubt for a durable subscription."""
        find = self._statements.find_acknowledged_in_doubt
        topics = {container for container, _ in keys if container.startswith(TOPICS)}
        doubtful = {(topic, id_) for topic in topics for (id_,) in self.fetch(find, container=topic)}
        return [key for key in keys if key not in doubtful] if doubtful else keys

    def write(
        self,
        batch: Batch,
        block: RowGuard | None = None,
        *,
        epoch: EpochGuard | None = None,
        first: Callable[[Connection], None] | None = None,
    ) -> None:
        """Apply and commit a batch, all of it or nothing.

        :param block: guards the block of its sequences
        :param epoch: guards this batch alone, where :meth:`guard_by` does not guard all
        :param first: called in the transaction, before anything is written

        :raises LockLost: the epoch has ended
        :raises SequencesTaken: another writer has reserved sequences after the block
        """
        epoch = epoch or self._epoch
        size = batch.size if epoch is not None else 0
        try:
            if batch.removes:
                batch.removes = [*self._decided(batch.removes)]
            if first is not None or (self._recorder is not None and batch.removes):
                self._write_in_steps(batch, block, epoch, first)
                return
            if self._statements.writes_singly:
                batch = self._statements.arrange(batch)
            guards = self._guards(block, epoch, long=size > LONG)
            self._writing.write(self.cursor, self._statements.write, batch, guards)
        except StoreError:
            self.rollback()
            raise
        except self._driver_errors as error:
            self._raise_doubt(error)
            raise

    def start_write(
        self, batch: Batch, block: RowGuard | None = None, ahead: Ahead | None = None
    ) -> SentWrite | None:
        """Begin to write a batch without waiting for anything; None if this batch cannot be written so.

        It is at most ``LONG``.

        :param ahead: another batch may be sent before this one is answered
        """
        removes = batch.removes
        if self._statements.writes_singly or (removes and self._recorder is not None):
            return None
        if removes and any(container.startswith(TOPICS) for container, _ in removes):
            return None  # it is read from the database which of them are in doubt
        if self._guarding is not None and self._guarding[0] is block:
            guards = self._guarding[1]
        else:
            guards = self._guards(block, self._epoch, long=False)
            if block is not None:
                self._guarding = block, guards
        if ahead is None:
            return self._writing.start_write(self.cursor, self._statements.write, batch, guards)
        if ahead.guard is not None:
            guards = Guards((*guards.first, ahead.guard), guards.last)
        return self._writing.send_ahead(self.cursor, self._statements.write, batch, guards, ahead.before)

    def finish(self, sent: SentWrite) -> None:
        """Wait for the answer to what :meth:`start_write` has begun; raises as :meth:`write`."""
        try:
            sent.finish()
        except StoreError:
            self.rollback()
            raise
        except self._driver_errors as error:
            self._raise_doubt(error)
            raise

    def _raise_doubt(self, error: Exception) -> None:
        """Raise OutcomeUnknown for a driver's error, if a commit may have had it and taken effect."""
        if self._commits and self._adapter.classify(error) is Failure.UNKNOWN:
            reason = " ".join(str(error).split())
            raise OutcomeUnknown(
                f"the database does not tell whether a commit took effect: {reason}; all or nothing was"
                " written: check before adding it again"
            ) from error

    def _write_in_steps(
        self,
        batch: Batch,
        block: RowGuard | None,
        epoch: EpochGuard | None,
        first: Callable[[Connection], None] | None,
    ) -> None:
        with self.transaction(block, epoch=epoch):
            if first is not None:
                first(self)
            if self._recorder is not None and batch.removes:
                self._recorder.record(self, batch.removes, RemovalReason.ACKNOWLEDGED, batch.adds)
            if self._statements.writes_singly:
                batch = self._statements.arrange(batch)
            self._writing.apply(self.cursor, self._statements.write, batch)

    def _guards(self, block: RowGuard | None, epoch: EpochGuard | None, *, long: bool) -> Guards:
        guards = UNGUARDED
        if epoch is not None:
            guards = epoch.long if long else epoch.short
        elif block is None:
            guards = self._unclaimed
        return guards if block is None else Guards((*guards.first, block), guards.last)

    @contextlib.contextmanager
    def transaction(
        self, block: RowGuard | None = None, *, epoch: EpochGuard | None = None
    ) -> Iterator[None]:
        """Run a block in a transaction, rolled back when it raises; the guards are as in :meth:`write`.

        :raises LockLost: the epoch has ended
        :raises SequencesTaken: another writer has reserved sequences after the block
        """
        guards = self._guards(block, epoch or self._epoch, long=True)
        self.begin()
        try:
            for guard in guards.first:
                self._writing.check(self.cursor, guard)
            yield
            for guard in guards.last:
                self._writing.check(self.cursor, guard)
            self._commits = True
            try:
                self._writing.commit(self.cursor)
            except self._driver_errors as error:
                self._raise_doubt(error)
                raise
        except BaseException:
            self.rollback()
            raise

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one. A failure means that the connection is lost."""
        self._commits = True
        with contextlib.suppress(*self._driver_errors):
            self._writing.rollback(self.cursor)

    def begin(self) -> None:
        """Begin a transaction that lasts until it is rolled back, or the connection is closed."""
        self._commits = False
        self._writing.begin(self.cursor)

    def identify(self) -> None:
        """Read the identifier by which another connection can end this one, where supported."""
        self.session = self.control.identify()

    def catch_up(self) -> None:
        """Wait until this node of a cluster has applied the commits of the other nodes.

        A single server has nothing to wait for.
        """
        if self._adapter.certifies:
            with self.control.seeing_all():
                # A query without a table waits for nothing.
                self.fetch(self._statements.find_id_owner, id_=0)

    def end_lost(self, lost: Row, pause: Callable[[float], None]) -> bool:
        """Wait until the server has ended a lost connection, of which it may yet commit the last request.

        Return whether it has certainly: that of another server, from which an address has moved, cannot be
        ended here, and one behind a pooler looks like those of others.

        :param lost: its :attr:`session`; this connection has one, too
        :raises StoreUnavailable: the server still has it
        """
        if self.session is None or self.session[-1] != lost[-1]:
            return False
        backoff = Backoff(0.1, first=0.001, timeout=_END_PATIENCE)
        asked = False
        while self.control.has_session(lost):
            if not asked:
                asked = True
                try:
                    self.control.end_session(lost)
                except self._driver_errors as error:
                    # It may have ended by now, or this user lacks the right: wait for it.
                    log.warning("a lost connection, number %s, could not be ended: %s", lost[0], error)
            elif backoff.is_over():
                which = "behind a pooler" if lost[0] is None else f"number {lost[0]}"
                raise StoreUnavailable(
                    f"the server still has the connection that was lost, {which}, and does not end it: its"
                    " last request may yet be committed, so nothing else is written; find its lock"
                )
            else:
                pause(backoff.pause())
        return lost[0] is not None

    def limit_query(self, seconds: float) -> None:
        """Cancel statements that run longer, where supported."""
        self._adapter.limit_query(self._raw, seconds)

    @property
    def notifier(self) -> Notifier:
        """Messages to other connections and from them."""
        return self._adapter.notifier(self._raw)

    def abort(self) -> None:
        """Interrupt another thread that is waiting for an answer on this connection."""
        with contextlib.suppress(OSError, *self._driver_errors):
            self._adapter.abort(self._raw)

    def close(self) -> None:
        with contextlib.suppress(*self._driver_errors):
            self._raw.close()


class StatisticsRefresher:
    """Counts changed rows, and refreshes planner statistics on a thread before they mislead.

    That is after 2,000, 4,000, ... 100,000 of them. It is earlier if there are many messages that the
    statistics do not have: four times as many as there were, or all that were there are gone. Each page would
    sort them all. Those refreshes take a tenth of the time at most.

    A database's own upkeep runs about once a minute. Until then the planner takes a table of a million
    messages for the empty one it knows, and plans each page accordingly.
    """

    def __init__(self, refresh: Callable[[], None], *, now: Callable[[], float] = time.monotonic) -> None:
        self._refresh = refresh
        self._now = now
        self._changed = 0
        self._removed = 0
        self._threshold = _FIRST_REFRESH
        self._present = 0
        """The messages that were added and not removed, as far as this process knows."""
        self._known = 0
        """As many there were at the last refresh."""
        self._rests_until = -math.inf
        self._thread: threading.Thread | None = None

    def count(self, added: int, removed: int) -> None:
        """Count rows that were added and removed; called by one thread."""
        self._changed += added + removed
        self._removed += removed
        self._present = max(0, self._present + added - removed)
        if self._changed < self._threshold and (self._present < _FIRST_REFRESH or not self._misleads()):
            return
        if self._thread is not None and self._thread.is_alive():
            return
        if self._changed >= self._threshold:
            self._threshold = min(self._threshold * 2, _LAST_REFRESH)
        self._changed = self._removed = 0
        self._known = self._present
        self._thread = threading.Thread(target=self._run, name="jdbcstore-statistics", daemon=True)
        with contextlib.suppress(RuntimeError):  # the interpreter is shutting down
            self._thread.start()

    def _misleads(self) -> bool:
        is_new = self._present > _MANY_TIMES * self._known or self._removed >= self._known
        return is_new and self._now() >= self._rests_until

    def _run(self) -> None:
        began = self._now()
        self._refresh()
        ended = self._now()
        self._rests_until = ended + _REST * (ended - began)

    def stop(self) -> None:
        """Wait for a running refresh."""
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
