"""The commit of one batch: tried until it is committed, or known not to be.

A commit whose answer was lost with the connection may have taken effect. Before anything else is written, the
server is made to end the lost connection; then the rows show whether the batch is there.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

from jdbcstore.abc import MessageReference
from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.sending import SentWrite
from jdbcstore.database.adapters.sql import UNGUARDED, Batch, EpochGuard, Guards, Key, Row, RowGuard
from jdbcstore.database.connection import LONG, Ahead, Connection, Recorder
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.builder import Statement
from jdbcstore.errors import LockLost, NotMaster, OutcomeUnknown, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.lockers import Fence
from jdbcstore.stores.jdbc.acknowledgements import Acknowledgement, plan_all
from jdbcstore.stores.jdbc.bodies import claim_bodies, numbered
from jdbcstore.stores.jdbc.sequence import (
    ClaimsBegun,
    PrecedingFailed,
    SequenceAllocator,
    SequencesTaken,
    guard_unclaimed,
)
from jdbcstore.stores.jdbc.writer.units import Call, WriteUnit
from jdbcstore.stores.shared._rows_cy import have_bodies, numbered_rows, references
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

T = TypeVar("T")
W = TypeVar("W")

_TRANSIENT_RETRIES = 8
_FOREIGN_RETRIES = 4
_LONGEST_PAUSE = 1.0
_KEY = 64
"""About the bytes of the key of a message."""


class _NotConnected(Exception):
    """There is no connection, although the database answers."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


class Begun(NamedTuple):
    """A batch that was taken from the queue; without ``sent`` nothing was sent of it."""

    units: list[WriteUnit]
    sent: SentWrite | None
    connection: Connection | None = None
    """The connection over which it was sent ahead."""
    first: int = 0
    """The ID of its first message, if it was sent ahead."""
    unended: int = 0
    """:attr:`Committer.unended` when it was sent ahead."""


class Committer:
    """The writer's connection and its sequences. Hold the writer lock, except to set :attr:`cancelled`.

    A lost connection may still exist for the server, and its last request may be pending: waiting for a lock,
    a disk or a standby, or still in the network. It would be committed after later writes.
    So the server ends that connection, and is seen to have done so, before anything else is written or read.
    """

    def __init__(
        self,
        session: DatabaseSession,
        *,
        fence: Fence | None = None,
        recorder: Recorder | None = None,
        journaled: bool = False,
    ) -> None:
        """Prepare; ``recorder`` records removed messages; ``journaled``: a journal is in front."""
        self.session = session
        self.fence = fence
        self._recorder = recorder
        if fence is not None:
            fence.cuts.append(self._abort)
        self.sequence = SequenceAllocator(session, journaled=journaled)
        self._connection: Connection | None = None
        self._epoch: EpochGuard | None = None if fence is None else fence.guard
        self._unclaimed: Guards | None = None if fence is None else UNGUARDED
        """None: to be looked for."""
        self._lost: list[Row] = []
        """Lost connections, which the server still has to end."""
        self._moves = False
        """A connection was lost, or its server has become read-only."""
        self.unended = 0
        """The number of lost connections that cannot be ended: another server has them, perhaps."""
        self.cancelled = threading.Event()
        """Set to end retries at once, with :class:`StoreClosed`; by any thread."""

    @property
    def sends(self) -> bool:
        """Whether :meth:`send` can do anything."""
        return self.session.adapter.writing.starts_writes

    @property
    def sends_ahead(self) -> bool:
        """Whether :meth:`send_ahead` sends anything."""
        return self.session.adapter.writing.sends_ahead

    def send_ahead(self, units: list[WriteUnit], before: Begun | None = None) -> Begun:
        """Begin to commit the units, so that another batch may be sent before this one is answered.

        A batch has no effect unless the one before it has: its messages would be committed before those with
        lower IDs. :meth:`confirm` and :meth:`write` have to finish it.

        :param before: the batch that was sent ahead, and is not answered
        """
        first, ahead = self.sequence.last + 1, Ahead()
        if before is not None:
            adds = [add for unit in before.units for add in unit.adds]
            if before.sent is None or not adds:
                return Begun(units, None)
            first, last = before.first + len(adds), adds[-1]
            find = self.session.statements.find_written
            row = find.row(
                id_=first - 1,
                msgid_prod=last.producer,
                msgid_seq=last.producer_sequence,
                container=last.container,
            )
            ahead = Ahead(before.sent, RowGuard(find, row, touches=False, refusal=PrecedingFailed))
        sent = None
        # What fails here fails in the same way when it is written.
        with contextlib.suppress(StoreError, *self.session.failures):
            sent = self.send(units, first, ahead)
        return Begun(units, sent, self._connection, first, self.unended)

    def confirm(self, begun: Begun, error: StoreError | None) -> Begun:
        """Return a batch that was sent ahead, as it is to be written after the one before it.

        :param error: why that could not be written
        :raises StoreError: that is in doubt, and so is this one
        """
        if begun.sent is None or (error is None and begun.first == self.sequence.last + 1):
            return begun
        if error is not None and not is_undone(error):
            raise error
        return Begun(begun.units, None)

    def send(self, units: list[WriteUnit], first: int = 0, ahead: Ahead | None = None) -> SentWrite | None:
        """Begin to commit the units without waiting for anything; :meth:`write` has to finish it.

        None if they cannot be written so, and nothing was sent.

        :param first: the ID of the first message, if not the next
        :raises LockLost: the epoch has ended; nothing was sent
        """
        connection, sequence = self._connection, self.sequence
        if connection is None or self._lost:
            return None
        messages: list[EncodedMessage] = []
        keys: list[Key] = []
        size = 0
        for unit in units:
            if unit.acknowledgements or unit.updates:
                return None
            messages += unit.adds
            keys += unit.removes
            size += unit.content
        if size + _KEY * len(keys) > LONG:
            return None
        first = first or sequence.last + 1
        block = sequence.block(first + len(messages) - 1) if messages else None
        if (block is None if messages else not keys) or have_bodies(messages):
            return None
        if self.fence is not None:
            self.fence.check()
        batch = Batch(numbered_rows(messages, first), [], keys, [])
        return connection.start_write(batch, block, ahead)

    def write(self, units: list[WriteUnit], begun: Begun | None = None) -> list[list[MessageReference]]:
        """Commit the units together, and return the references of the messages of each.

        :param begun: these units, if they were sent
        :raises StoreError: none of them was committed
        :raises OutcomeUnknown: all of them were committed, or none
        """
        try:
            if begun is not None and begun.sent is not None and begun.sent.is_done:
                begun.sent.finish()
                return self.accept(units)
            attempts = _Attempts(self, begun)
            return attempts.run(attempts.write_once, attempts.find_committed, units)
        except BaseException as error:
            _reset_trackers(units)
            if not isinstance(error, StoreError):
                # Interrupted, or a defect: the state of the connection is unknown.
                self.disconnect()
                self.sequence.forget()
                for unit in units:
                    _notify_committed(unit)
            elif not is_undone(error):
                # Its rows may be there, under IDs that nothing else may get or give back.
                self.sequence.forget()
            raise

    def accept(self, units: list[WriteUnit]) -> list[list[MessageReference]]:
        """Accept a batch as committed, with the sequences it was sent with."""
        sequence = self.sequence
        results = []
        for unit in units:
            if unit.committed:
                _notify_committed(unit)
            results.append(references(unit.adds, sequence.last + 1))
            sequence.last += len(unit.adds)
        return results

    def finish(self, sent: SentWrite) -> None:
        """Wait for the answer; raises as a connection's ``write`` does."""
        connection = self._connection or self.connection()
        connection.finish(sent)

    def call(self, call: Call) -> Any:
        """Run a call in a transaction of its own; raises as :meth:`write` does."""
        attempts = _Attempts(self)
        return attempts.run(attempts.call_once, None, call)

    def find(self, sql: Statement, **values: Any) -> list[Row]:
        """Return the rows of a statement after everything written so far, tried until they are read."""
        return _Attempts(self).run(lambda _: self.connection().fetch(sql, **values), None, None)

    def guard_by(self, epoch: EpochGuard) -> None:
        """Guard every transaction from now on, also against processes that begin to claim messages."""
        self._epoch, self._unclaimed = epoch, UNGUARDED
        if self._connection is not None:
            self._connection.guard_by(epoch)

    def _abort(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.abort()

    def connection(self) -> Connection:
        """Return the writer's connection; a new one if it was lost, once the server has ended the lost one.

        :raises StoreUnavailable: the database does not answer, or cannot end the lost connection yet
        """
        try:
            if self._connection is None:
                self._connection = self._connect()
                if self._moves:
                    self._moves = False
                    self.session.end_generation()
            if self._lost:
                self._end_lost(self._connection)
            if self._unclaimed is None:
                self._unclaimed = guard_unclaimed(self.session, self._connection)
                self._connection.guard_by(self._epoch, self._unclaimed)
        except (StoreClosed, StoreUnavailable):
            raise
        except StoreError as error:
            raise _NotConnected(error) from error
        return self._connection

    def _connect(self) -> Connection:
        connection = self.session.connect(self._recorder)
        try:
            with self.session.translated():
                connection.guard_by(self._epoch, self._unclaimed or UNGUARDED)
                if self.fence is not None:
                    # Otherwise the open transaction of a vanished master keeps the next one waiting.
                    connection.control.limit_silence(self.fence.silence)
                connection.identify()
                connection.catch_up()
        except BaseException:
            connection.close()
            raise
        return connection

    def rollback(self) -> None:
        """Roll back the open transaction."""
        if self._connection is not None:
            self._connection.rollback()

    def look_again(self) -> None:
        """Look for processes that claim messages before anything else is written."""
        self._unclaimed = None

    def _end_lost(self, connection: Connection) -> None:
        try:
            with self.session.translated():
                for session in [*self._lost]:
                    if not connection.end_lost(session, self.pause):
                        self.unended += 1
                    self._lost.remove(session)
                connection.control.wait_replicated()
        except BaseException:
            # This one has not sent anything that would have to be ended.
            connection.close()
            self._connection = None
            raise

    def disconnect(self) -> None:
        """Drop a connection that cannot be trusted any more."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._moves = True
        if connection.session is None:
            self.unended += 1
        else:
            self._lost.append(connection.session)
        connection.close()

    def pause(self, seconds: float) -> None:
        """Wait before a retry; :attr:`cancelled` ends the wait with :class:`StoreClosed`."""
        if self.cancelled.wait(seconds):
            raise StoreClosed("the store was closed before this was written")

    def close(self) -> None:
        """Return unused sequences and close the connection."""
        if self._lost:
            # Once: a store opened later does not know of these.
            with contextlib.suppress(StoreError, _NotConnected, *self.session.failures):
                self.connection()
        if self._connection is None:
            return
        try:
            self.sequence.give_back(self._connection)
        except (LockLost, ClaimsBegun):
            log.info("unused sequences are not returned: another process is the master, or claims messages")
        except self.session.failures as error:
            # This only leaves a gap in the sequence.
            log.info("unused sequences were not returned: %s", error)
        self._connection.close()
        self._connection = None


class _Attempts:
    """The attempts at one batch, call or read."""

    def __init__(self, committer: Committer, begun: Begun | None = None) -> None:
        self._committer = committer
        self._begun = None if begun is None else begun.sent
        """The first attempt, if it was sent already."""
        self._session = committer.session
        self._fence = committer.fence
        self._transient = _TRANSIENT_RETRIES
        self._foreign = _FOREIGN_RETRIES
        self._sent = False
        """A batch was sent, and its answer has not arrived yet."""
        self._doubtful = False
        """Whether an attempt that was sent took effect is not known."""
        self._unended = committer.unended
        self._sends = 0
        """The attempts that were sent with the same IDs."""
        self._doubt: OutcomeUnknown | None = None
        """The error of an attempt that is not repeated, if it turns out to have had no effect."""
        self._taken = False
        """The IDs of the last attempt are used, or IDs behind them reserved: by another writer, or used by an
        attempt before it that took effect."""
        self._numbered = False
        """A call has been assigned IDs."""
        if begun is not None and begun.sent is not None and begun.connection is not None:
            self._unended = begun.unended
            if begun.connection is not committer._connection:  # the batch before it has lost it
                self._begun, self._doubtful, self._sends = None, True, 1

    @property
    def _are_ended(self) -> bool:
        """Whether each lost connection has ended: a row that is absent now will not appear."""
        return self._committer.unended == self._unended

    @cached_property
    def _backoff(self) -> Backoff:
        return Backoff(_LONGEST_PAUSE, timeout=self._session.config.reconnect_timeout)

    @cached_property
    def _contention(self) -> Backoff:
        """The time for what other writers are in the way of; connecting again does not use it up."""
        return Backoff(_LONGEST_PAUSE, timeout=self._session.config.reconnect_timeout)

    def run(self, attempt: Callable[[W], T], find: Callable[[W], T | None] | None, work: W) -> T:
        """Attempt the work until it is committed, or known not to be.

        :param find: returns the result of an attempt whose outcome is unknown, if it took effect; without,
            the work is done again, because it is idempotent
        """
        try:
            return self._repeat(attempt, find, work)
        except StoreClosed as error:
            if self._doubtful:
                raise OutcomeUnknown("the store was closed while this was in doubt: look for it") from error
            raise
        except StoreError:
            raise
        except BaseException:  # Ctrl-C: a transaction may be open
            self._committer.disconnect()
            raise

    def _repeat(self, attempt: Callable[[W], T], find: Callable[[W], T | None] | None, work: W) -> T:
        while True:
            try:
                if self._fence is not None and self._begun is None:
                    self._fence.check()
                if find is not None and (self._doubtful or (self._taken and self._sends > 1)):
                    result = find(work)
                    if result is not None:
                        return result
                if self._doubt is None:
                    return attempt(work)
            except LockLost as error:
                return self._resolve_doubt(error, find, work)
            except Exception as error:
                self._recover(error, leaves_proof=find is not None and _leaves_proof(work))
            else:
                cause = self._doubt.__cause__ or self._doubt
                raise self._session.translate(cause) if self._are_ended else self._doubt from cause

    def _resolve_doubt(self, error: LockLost, find: Callable[[W], T | None] | None, work: W) -> T:
        """Return the result of an attempt in doubt, or raise; another master has begun.

        Nothing more can be committed here, so the outcome is now certain.
        """
        if self._fence is not None:
            self._fence.lose("another master has begun")
        if not self._doubtful:
            raise error
        if error.refused and find is not None:
            with contextlib.suppress(StoreError, _NotConnected, *self._session.failures):
                if (result := find(work)) is not None:
                    return result
        raise LockLost(str(error), in_doubt=True) from error

    def _recover(self, error: Exception, *, leaves_proof: bool) -> None:
        """Prepare the next attempt, or raise the error that makes it useless."""
        if isinstance(error, self._session.failures):
            self._recover_from(error)
        elif isinstance(error, OutcomeUnknown):
            self._look_for_it(error, leaves_proof)
        elif isinstance(error, StoreUnavailable):
            self._again_later(error)
        elif isinstance(error, _NotConnected):
            self._connect_later(error.error)
        elif isinstance(error, StoreError):
            raise error
        else:
            # A value that the driver cannot send: a transaction may be open.
            self._committer.disconnect()
            raise StoreError(f"this cannot be written, and was not: {error}") from error

    def _connect_later(self, error: StoreError) -> None:
        if not self._doubtful:
            raise error from error.__cause__
        if isinstance(error, NotMaster):
            # Messages may be claimed for days.
            raise OutcomeUnknown() from error
        self._reconnect_later(error)

    def _again_later(self, error: StoreUnavailable) -> None:
        if isinstance(error, (ClaimsBegun, PrecedingFailed)):
            self._sent = False
            self._committer.look_again()
        elif not isinstance(error, SequencesTaken):
            self._reconnect_later(error)
            return
        else:
            # Another writer has reserved sequences. Without a pause, for it will do so again.
            self._sent, self._taken = False, True
        if self._contention.is_over():
            raise error

    def _look_for_it(self, error: OutcomeUnknown, leaves_proof: bool) -> None:
        """Prepare to look whether an attempt took effect whose error does not tell."""
        self._sent = False
        self._doubtful = True
        self._committer.rollback()
        if leaves_proof and self._doubt is None:
            self._doubt = error
        elif self._transient > 0 and not self._backoff.is_over():
            self._transient -= 1
            self._wait()
        else:
            raise error

    def call_once(self, call: Call) -> Any:
        """Attempt a call."""
        connection, sequence = self._committer.connection(), self._committer.sequence
        if self._taken:
            sequence.forget()
            self._taken = False
        if call.behind:
            sequence.pass_over(connection, call.behind)
        count = call.count(connection)
        first = sequence.reserve(connection, count) if count else 0
        # No other write gets these, even if the transaction fails.
        sequence.use(count)
        self._numbered = count > 0
        with connection.transaction(sequence.block(sequence.last) if count else None):
            result = call.function(connection, first)
            self._sent = True
        self._sent = False
        return result

    def find_committed(self, units: list[WriteUnit]) -> list[list[MessageReference]] | None:
        """Return the references if the commit whose answer was lost took effect, else None."""
        return self._committer.accept(units) if self._was_committed(units) else None

    def write_once(self, units: list[WriteUnit]) -> list[list[MessageReference]]:
        """Attempt a batch, of which nothing is found in the tables."""
        if self._doubtful:
            self._doubtful = not (self._are_ended and _leaves_proof(units))
        if self._taken:
            # They belong to another writer on the same tables, perhaps an ActiveMQ: none of ours is there.
            self._committer.sequence.forget()
            self._doubtful = self._taken = False
            self._sends = 0
        if self._begun is not None:
            begun, self._begun = self._begun, None
            self._sent = True
            self._sends += 1
            self._committer.finish(begun)
            self._sent = False
            return self._committer.accept(units)
        connection, own = self._committer.connection(), self._session.statements.update_message
        adds: list[EncodedMessage] = []
        acknowledgements: list[Acknowledgement] = []
        batch = Batch([], [], [], [])
        for unit in units:
            adds += unit.adds
            acknowledgements += unit.acknowledgements
            batch.removes.extend(unit.removes)
            for sql, row in unit.updates:
                if sql is own:
                    batch.updates.append(row)
                else:
                    batch.others.append((sql, [row]))
        first = self._committer.sequence.reserve(connection, len(adds)) if adds else 0
        batch.adds = numbered_rows(adds, first)
        plan = plan_all(connection, acknowledgements) if acknowledgements else None
        if plan is not None:
            batch.others += plan.writes.items()
        bodies = None
        if have_bodies(adds):
            bodies = partial(claim_bodies, self._session, messages=numbered(adds, first))
        self._sent = True
        self._sends += 1
        block = self._committer.sequence.block(first) if adds else None
        connection.write(batch, block, first=bodies)
        self._sent = False
        if plan is not None:
            plan.apply()
        return self._committer.accept(units)

    def _was_committed(self, units: list[WriteUnit]) -> bool:
        """Return whether an earlier attempt took effect: one of its messages proves it for all."""
        connection, find = self._committer.connection(), self._session.statements.find_id_owner
        adds = (add for unit in units for add in unit.adds)
        with connection.control.seeing_all():
            for id_, add in enumerate(adds, self._committer.sequence.last + 1):
                owner = connection.fetch(find, id_=id_)
                if owner and tuple(owner[0]) == (add.producer, add.producer_sequence, add.container):
                    _reset_trackers(units)  # the plan is in the tables now
                    return True
        return False

    def _recover_from(self, error: Exception) -> None:
        """As :meth:`_recover`, from an error of the driver."""
        sent, self._sent = self._sent, False
        failure = self._session.classify(error)
        if failure in (Failure.DISCONNECTED, Failure.REFUSED, Failure.READ_ONLY):
            self._doubtful |= sent and failure is not Failure.READ_ONLY
            self._committer.disconnect()
            self._reconnect_later(self._session.translate(error), error)
            return
        self._committer.rollback()
        if failure is Failure.TRANSIENT and self._transient > 0 and not self._backoff.is_over():
            self._transient -= 1
            log.info("conflict with another writer, trying again: %s", error)
            self._wait()
        elif failure is Failure.DUPLICATE and (sent or self._numbered) and self._foreign > 0:
            self._foreign -= 1
            self._taken = True
            if self._sends <= 1:
                log.warning("the next ID is taken; does another process write to these tables?")
        elif self._doubtful and failure not in (Failure.BAD_VALUE, Failure.TOO_LARGE):
            raise OutcomeUnknown() from error
        else:
            raise self._session.translate(error) from error

    def _reconnect_later(self, error: StoreError, cause: BaseException | None = None) -> None:
        if not self._backoff.is_over():
            self._wait()
        elif self._doubtful:
            raise OutcomeUnknown() from (cause or error)
        else:
            raise error from cause

    def _wait(self) -> None:
        self._committer.pause(self._backoff.pause())


def _leaves_proof(units: Any) -> bool:
    """Return whether rows show that a batch was committed; else it is repeated, because it is idempotent."""
    return any(unit.adds for unit in units)


def _notify_committed(unit: WriteUnit) -> None:
    for committed in unit.committed:
        committed()


def _reset_trackers(units: list[WriteUnit]) -> None:
    for unit in units:
        for tracker, _ in unit.acknowledgements:
            tracker.reset()


def is_undone(error: StoreError) -> bool:
    """Return whether certainly nothing was committed."""
    if isinstance(error, LockLost):
        return not error.in_doubt
    return not isinstance(error, OutcomeUnknown)
