"""A message store on ActiveMQ's tables in a SQL database."""

from __future__ import annotations

import logging
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter, is_
from types import EllipsisType
from typing import Self

from jdbcstore.abc import MasterAddress, Outcome, PausedQueue, Progress, RemovalRecord
from jdbcstore.config import Configuration, StoreConfig
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.checkup import examine, examine_durability
from jdbcstore.database.schema import JOURNAL_LEFT
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.lock import ADDRESS_ROW, LockStatements
from jdbcstore.errors import StoreError, StoreUnavailable
from jdbcstore.lockers import (
    AbstractLocker,
    Fence,
    LockView,
    Mastership,
    end_epoch_of_claims,
    last_epoch,
    look,
    make_locker,
    refuse_locked,
    release,
)
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from jdbcstore.stores.jdbc.bodies import refuse_bodies
from jdbcstore.stores.jdbc.checkpoint import (
    Application,
    ReferencedBodies,
    begin_journal,
    find_mark,
    find_referring,
    refuse_pending,
)
from jdbcstore.stores.jdbc.cleanup import clean, find_consumed
from jdbcstore.stores.jdbc.history import RemovalHistory, removals
from jdbcstore.stores.jdbc.large import JdbcLargeBodies
from jdbcstore.stores.jdbc.operations import announce, drop_record, operating, record_queue
from jdbcstore.stores.jdbc.outbox import JdbcOutbox
from jdbcstore.stores.jdbc.pauses import add_pause, find_pauses, remove_pause
from jdbcstore.stores.jdbc.queue import JdbcMessageStore
from jdbcstore.stores.jdbc.sequence import last_stored, refuse_claims
from jdbcstore.stores.jdbc.topic import JdbcTopicMessageStore
from jdbcstore.stores.jdbc.writer.audited import note_stored
from jdbcstore.stores.jdbc.writer.units import WriteUnit
from jdbcstore.stores.jdbc.writer.writer import RefusingWriter, UnitWriter, Writer
from jdbcstore.stores.jdbc.xa.resource import JdbcXAResource, take_over
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.checkpoint import Changes, FindBody, JournalMark, Referring
from jdbcstore.stores.shared.checks import destination_named
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.stores.shared.encoding import MessageEncoder, Result, encode_each, everything, own_destination
from jdbcstore.stores.shared.rows import EncodedMessage, fits
from jdbcstore.stores.shared.store import DestinationsStore
from jdbcstore.stores.shared.transaction import BufferedTransaction
from jdbcstore.util.checkup import Checkup, Durability, Thresholds
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.futures import StoreFuture
from jdbcstore.util.server_view import ServerView
from jdbcstore.util.timings import Timings

log = logging.getLogger(__name__)

_destination = attrgetter("destination")


class JdbcStore(DestinationsStore[JdbcMessageStore, JdbcTopicMessageStore]):
    """A message store on a SQL database; see :class:`jdbcstore.abc.Store` for its promises.

    Several processes may write to the same tables: sequences still commit in order. With a ``locker``,
    opening waits until this store is the master, at most ``lock_timeout`` seconds and until ``cancel`` is
    set; once another process is the master, every write raises :class:`LockLost`. Without a locker, a store
    that writes does not open while another process holds the lock, and two such stores deliver a message
    twice; ``locker=None`` looks for no lock. ``elected`` is called once it is the master, before it reads
    stored messages; an error of it releases the lock.

    ``user`` and ``password`` replace those of the URL. With ``read_only``, nothing is created or written, and
    every write raises :class:`ConfigurationError`. With ``journaled``, this is the backing store of a
    journal, which writes by :meth:`apply` only and runs the cleanup; the journal's calls are in
    :class:`jdbcstore.stores.shared.checkpoint.CheckpointedStore`. Without, a store is not opened for writing
    while a journal has records that its tables lack.

    :raises ConfigurationError: the URL or an option cannot work
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are absent and are not to be created, or are not ActiveMQ's
    :raises JournalPending: a journal has records that are not in the tables yet
    :raises StoreError: with ``journaled``, there are large bodies in pieces
    :raises NotMaster: another process still holds the lock after ``lock_timeout``, or messages are being
        claimed in these tables
    :raises StoreClosed: the wait for the lock was cancelled
    """

    _most_queues = 10_000
    _history: RemovalHistory | None = None
    outbox: JdbcOutbox | None = None
    """The messages that SQL statements have inserted; None without the option, or behind a journal."""

    def __init__(
        self,
        url: str,
        config: StoreConfig | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        clock: Clock | None = None,
        read_only: bool = False,
        journaled: bool = False,
        locker: AbstractLocker | EllipsisType | None = ...,
        lock_timeout: float | None = None,
        cancel: threading.Event | None = None,
        elected: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config or StoreConfig()
        super().__init__(self.config.name_lengths, behind=journaled)
        self._clock = clock or SystemClock()
        self._session = DatabaseSession(url, self.config, user=user, password=password, read_only=read_only)
        self._mastership: Mastership | None = None
        self.fence: Fence | None = None
        """The fence of the mastership; None without a locker."""
        self.audit: DuplicateAudit | None = None
        """The message ids that were stored; None without ``enable_audit``."""
        self._writes: UnitWriter = RefusingWriter()
        with ExitStack() as on_failure:
            on_failure.callback(self._release)
            if isinstance(locker, AbstractLocker):
                self._mastership = Mastership(self._session, locker, self._clock)
            if not read_only:
                if self._mastership is None:
                    _refuse_others(self._session, self._clock if locker else None)
                else:
                    self.fence = self._mastership.acquire(lock_timeout, cancel)
                    elected()
                self._writes = self._new_writer(journaled=journaled)
                on_failure.callback(self._writes.close)
                take_over(self._session, self._writes)
                if self.config.outbox and not journaled:
                    self.outbox = JdbcOutbox(self._session, self._writes, self._begin)
            on_failure.pop_all()
        self._encoder = MessageEncoder(
            self._clock,
            self._session.max_message_size,
            self._lengths.message_id,
            self._session.adapter.sent_size,
            keeps_pieces=not journaled,
        )
        self._bodies = ReferencedBodies(self._session)
        self._acknowledged: list[JdbcTopicMessageStore] = []
        """The topics of the last applied changes, whose caches serve the next ones."""
        self.xa = JdbcXAResource(self, self._session, self._writes, self._forget_acknowledgements)
        period = 0 if journaled or read_only else self.config.cleanup_period
        self._cleanup = CleanupTimer(self.cleanup, period)
        self.large_bodies = JdbcLargeBodies(
            self._session, self._writes, self._clock, is_master=self.fence is not None, period=period
        )
        """Bodies that are kept in pieces; see :class:`jdbcstore.abc.LargeBodies`."""
        self._cleanup.start()
        self.large_bodies.start()

    def _new_writer(self, *, journaled: bool) -> Writer:
        (refuse_bodies if journaled else refuse_pending)(self._session)
        if self.config.history_retention:
            self._history = RemovalHistory(self._session, self._clock)
        if self.config.enable_audit:
            self.audit = DuplicateAudit(self.config.max_producers_to_audit, self.config.max_audit_depth)
            note_stored(self._session, self.audit)
        return Writer(
            self._session, fence=self.fence, audit=self.audit, recorder=self._history, journaled=journaled
        )

    @classmethod
    def configured(
        cls,
        configuration: Configuration,
        *,
        clock: Clock | None = None,
        read_only: bool = False,
        journaled: bool = False,
        lock_timeout: float | None = None,
        cancel: threading.Event | None = None,
        elected: Callable[[], None] = lambda: None,
        locker: EllipsisType | None = ...,
    ) -> Self:
        """Open only the database of a configuration, unlike :func:`jdbcstore.open`.

        With a locker it waits to be the master, unless ``read_only``. ``locker=None`` leaves out the
        configuration's locker.

        :raises ConfigurationError: as the constructor does, with the place where the option was set
        """
        with configuration.locating_errors():
            url, user, password = configuration.login()
            return cls(
                url,
                configuration.store,
                user=user,
                password=password,
                clock=clock,
                read_only=read_only,
                journaled=journaled,
                locker=locker and _locker(configuration, clock),
                lock_timeout=lock_timeout,
                cancel=cancel,
                elected=elected,
            )

    @property
    def engine(self) -> object:
        """The SQLAlchemy engine of the readers' pool, for diagnosis."""
        return self._session.engine

    @property
    def place(self) -> str:
        """The URL without its secrets."""
        return self._session.place

    def tables(self) -> dict[str, bool]:
        """Return the names of the tables, and whether the database has each."""
        return self._session.present_tables()

    def _new_place(self, destination: Destination, prioritized: bool | None) -> JdbcMessageStore:
        kind = JdbcTopicMessageStore if destination.is_topic else JdbcMessageStore
        return kind(
            destination,
            prioritized,
            session=self._session,
            writer=self._writes,
            encoder=self._encoder,
            clock=self._clock,
            lengths=self._lengths,
            bodies=self._bodies,
        )

    def transaction(self) -> BufferedTransaction[WriteUnit]:
        return self._begin(WriteUnit())

    def _begin(self, unit: WriteUnit) -> BufferedTransaction[WriteUnit]:
        return BufferedTransaction(self, unit, self._writes)

    def add_each_async(self, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
        adds, outcomes = self._encode_each(messages)
        return self._writes.submit(WriteUnit(outcomes, adds=adds, apart=True))

    def use_loop(self, loop: AbstractEventLoop | None) -> None:
        self._writes.use_loop(loop)

    def _encode_each(self, messages: Sequence[Message]) -> tuple[list[EncodedMessage], Result]:
        """See :func:`encode_each`; those of a turn are mostly of one destination."""
        destination = messages[0].destination if messages else None
        place = self._places.get(destination) if destination else None
        if place is not None and all(map(partial(is_, destination), map(_destination, messages))):
            with suppress(StoreError):
                return place.encode_all(messages), everything
        return encode_each(messages, self._encode)

    def _encode(self, message: Message) -> EncodedMessage:
        destination = message.destination
        place = self._places.get(destination) if destination else None
        if place is None:
            place = self._place(own_destination(message))
        return self._encoder.encode(message, place.destination, prioritized=place.prioritized)

    def _forget_acknowledgements(self, topic: str | None = None) -> None:
        """Discard the cache of a topic, or of all."""
        with self._lock:
            every = dict([*self._deleted.items(), *self._places.items()])
        if topic is not None:
            destination = Destination.named(topic, DestinationKind.TOPIC)
            every = {destination: every[destination]} if destination in every else {}
        for place in every.values():
            if isinstance(place, JdbcTopicMessageStore):
                place.reset_trackers()

    def journal_mark(self) -> JournalMark | None:
        return find_mark(self._session)

    def journal_left(self, journal: int) -> int | None:
        if not self._session.has_own_tables:
            return None
        find = self._session.statements.find_number
        rows = self._session.fetch(find, name_=JOURNAL_LEFT.format(journal))
        return int(rows[0][0]) if rows else None

    def begin_journal(self) -> None:
        if self.fence is not None or not self._session.has_own_tables:
            return  # an epoch of the fence has ended those before
        self._writes.guard_by(begin_journal(self._session))
        if self.audit is not None:
            note_stored(self._session, self.audit)

    def consumed_by_all(self) -> Iterator[tuple[str, list[int]]]:
        return find_consumed(self._session)

    def unsaved(self) -> int | None:
        return None

    def find_bodies(self, find: FindBody) -> None:
        self._bodies.resolve_with(find)

    def referring(self, after: int, up_to: int, limit: int) -> list[Referring]:
        return find_referring(self._session, after, up_to, limit)

    def apply(self, changes: Changes) -> None:
        every = changes.acknowledgements
        topics = {topic: self.topic(topic) for topic, *_ in every}
        acknowledged = [(topics[topic].tracker(*names), some) for (topic, *names), some in every.items()]
        operates = None if changes.operation is None else operating(self, self._session, changes.operation)
        application = Application(
            self._session, changes, acknowledged, self._forget_acknowledgements, operates
        )
        self._writes.call(
            application.run,
            behind=changes.mark.written,
            rows=application.rows,
            removes=application.removes,
        )
        self._acknowledged = [*topics.values()]

    def destinations(self) -> list[Destination]:
        rows = self._session.fetch(self._session.statements.find_all_destinations)
        return sorted({Destination.parse(name) for (name,) in rows if name is not None}, key=str)

    def record_queue(self, name: str | Destination) -> None:
        container = destination_named(name, DestinationKind.QUEUE, self._lengths).qualified_name
        self._writes.call(lambda connection: record_queue(self._session, connection, container))

    def drop_record(self, queue: Destination) -> None:
        self._writes.call(lambda connection: drop_record(self._session, connection, queue.qualified_name))

    def last_sequence(self) -> int:
        return last_stored(self._session, self._writes.last_sequence)

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int | None:
        if not fits(str(producer_id), self._lengths.message_id):
            return None
        query = self._session.statements.last_producer_sequence_id
        last: int | None = self._session.fetch(query, msgid_prod=str(producer_id))[0][0]
        return last

    def check(self) -> None:
        """Check that this store can write: the database answers, and the lock is still held.

        :raises StoreUnavailable: the database did not answer within ``reconnect_timeout``; or its file is
            gone, without a locker
        :raises LockLost: another process is the master, or the file of the database is gone
        """
        misplaced = self._session.misplaced
        if misplaced is not None and self.fence is None:
            raise StoreUnavailable(misplaced)
        if misplaced is not None and self.fence is not None:
            self.fence.lose(misplaced)
        self._writes.call(lambda _: None)

    def announce(self, addresses: Iterable[tuple[str, str]]) -> None:
        """Replace the addresses of the master in JDBCSTORE_STATE, in one transaction.

        :raises LockLost: another process is the master
        """
        if not self._session.has_own_tables:
            return
        since = self._clock.now_ms()
        self._writes.call(lambda connection: announce(self._session, connection, addresses, since))

    def announced(self) -> list[MasterAddress]:
        """Return the addresses of the last master, which may have ended since; sorted."""
        if not self._session.has_own_tables:
            return []
        rows = self._session.fetch(self._session.of(LockStatements).find_named, pattern=f"{ADDRESS_ROW}%")
        addresses = [(*name.removeprefix(ADDRESS_ROW).split(":", 1), since) for name, since in rows]
        return sorted(MasterAddress(kind, url, int(since)) for kind, url, since in addresses)

    def pause_queue(self, queue: Destination, user: str) -> None:
        """As :meth:`jdbcstore.abc.Pausing.pause_queue`, in JDBCSTORE_STATE."""
        add_pause(self._session, self._writes.call, queue, user, self._clock.now_ms())

    def resume_queue(self, queue: Destination) -> None:
        """As :meth:`jdbcstore.abc.Pausing.resume_queue`."""
        remove_pause(self._session, self._writes.call, queue)

    def paused_queues(self) -> list[PausedQueue]:
        """As :meth:`jdbcstore.abc.Pausing.paused_queues`."""
        return find_pauses(self._session)

    @property
    def timings(self) -> Mapping[str, Timings]:
        """The commits since it was opened, and their rows."""
        return {"commit": self._writes.timings}

    @property
    def server(self) -> ServerView | None:
        """The database server, as its first connection found it, or the first one after a failover."""
        return self._session.adapter.server

    def examine(self, thresholds: Thresholds | None = None) -> Checkup:
        """Look once at the state of the database; no row is written.

        :raises StoreUnavailable: the database does not answer
        """
        return examine(self._session, thresholds)

    def durability(self) -> Durability | None:
        """Return which acknowledged messages survive a crash, by the settings of the database server.

        None if they are not known.

        :raises StoreUnavailable: the database does not answer
        """
        return examine_durability(self._session)

    def removals(self, message: MessageId, since_ms: int | None = None) -> list[RemovalRecord]:
        """Return the records of a message's removal; see :class:`jdbcstore.abc.Recorded`."""
        return removals(self._session, message, since_ms)

    def lock_row(self) -> Row | None:
        """ID, TIME and BROKER_NAME of ACTIVEMQ_LOCK; None if the row is absent."""
        rows = self._session.fetch(self._session.statements.find_lock)
        return rows[0] if rows else None

    def lock(self) -> LockView:
        """Return the holder of the lock, its expiry, and the difference of the clocks."""
        view = look(self._session, self._clock)
        locker = None if self._mastership is None else self._mastership.locker
        holder = None if locker is None or locker.is_in_row else locker.holder
        if view.is_leased or holder is None:
            return view
        # The lock is not in the database.
        return replace(view, holder=holder, expires_ms=None)

    def release_lock(self, *, force: bool = False) -> LockView:
        """Release the lease of a holder that is gone, or with ``force`` of any holder.

        :raises NotMaster: the lease has not expired
        """
        return release(self._session, self._clock, force=force)

    def cleanup(self, progress: Progress | None = None) -> int:
        removed = clean(self._session, self._writes, progress)
        if self._history is not None:
            self._history.clean(self._writes.call)
        self.large_bodies.clean()
        if self.outbox is not None:
            self.outbox.clean()
        return removed

    def close(self, timeout: float | None = None) -> None:
        if self._session.is_reading or self._writes.is_entered:
            # In a signal handler or a future's callback, waiting for the writer would be a deadlock.
            threading.Thread(target=self._close_behind, args=(timeout,), name="jdbcstore-close").start()
            return
        self._cleanup.stop()
        self.large_bodies.stop()
        try:
            self._writes.close(timeout)
        finally:
            self._release(timeout)

    def _close_behind(self, timeout: float | None) -> None:
        try:
            self.close(timeout)
        except StoreError as error:
            log.error("the store was closed with an error: %s", error)

    def _release(self, timeout: float | None = None) -> None:
        if self._mastership is not None:
            self._mastership.release()
        self._session.close(timeout)


def _locker(configuration: Configuration, clock: Clock | None) -> AbstractLocker | EllipsisType:
    locker = configuration.locker
    if locker is None:
        return ...
    return make_locker(locker, configuration.broker_name, clock, configuration.journal)


def _refuse_others(session: DatabaseSession, clock: Clock | None) -> None:
    """Check that no process claims messages and, with a clock, that none holds the lock."""
    if not (session.has_claims or clock):
        return
    with closing(session.connect()) as connection, session.translated():
        is_ended = False
        while not is_ended:
            # Before the look: a master that begins meanwhile begins another epoch.
            epoch = last_epoch(session, connection) if session.has_claims else 0
            if session.has_claims:
                refuse_claims(session, connection)
            if clock is not None:
                refuse_locked(session, connection, clock)
            is_ended = not session.has_claims or end_epoch_of_claims(session, connection, epoch)
