"""JdbcStore: ActiveMQ's tables behind the store contract."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self
from weakref import WeakValueDictionary

from jdbcstore.abc import Outcome, Progress
from jdbcstore.config import Configuration, StoreConfig
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.session import Session
from jdbcstore.errors import StoreError
from jdbcstore.lockers import AbstractLocker, Fence, LockView, Mastership, look, make_locker, release
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import ProducerId
from jdbcstore.message.message import Message
from jdbcstore.stores.jdbc.checkpoint import (
    Application,
    Bodies,
    find_left,
    find_mark,
    find_referring,
    refuse_pending,
)
from jdbcstore.stores.jdbc.cleanup import clean
from jdbcstore.stores.jdbc.queue import JdbcMessageStore, StoreContext
from jdbcstore.stores.jdbc.sequence import last_stored
from jdbcstore.stores.jdbc.topic import JdbcTopicMessageStore
from jdbcstore.stores.jdbc.writer.audited import recovered_audit
from jdbcstore.stores.jdbc.writer.units import Unit
from jdbcstore.stores.jdbc.writer.writer import ReadOnlyWriter, Writer, is_writing
from jdbcstore.stores.jdbc.xa.prepared import take_over
from jdbcstore.stores.jdbc.xa.resource import JdbcXAResource
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.checkpoint import Changes, FindBody, JournalMark, Referring
from jdbcstore.stores.shared.checks import agreed, queue_named, topic_named
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.stores.shared.encoding import EncodedMessage, MessageEncoder, encode_each, fits
from jdbcstore.stores.shared.transaction import BufferedTransaction
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.futures import StoreFuture

log = logging.getLogger(__name__)


class JdbcStore:
    """A message store on a SQL database; see :class:`jdbcstore.abc.Store` for what it promises.

    Several processes may write to a set of tables: sequences commit in order all the same. With a ``locker``,
    opening waits until this store is the master, for ``lock_timeout`` seconds if that is given, or until
    ``cancel`` is set, and no write passes once another is: each is then :class:`LockLost`. Without, nothing
    keeps a second writer away, which may give a message to a consumer that the first has given to another.

    ``user`` and ``password`` are used in place of the URL's. With ``read_only``, nothing is created or
    written, and every write is a :class:`ConfigurationError`.
    With ``journaled``, a journal is in front of it: it alone writes, by :meth:`apply`, and says when to clean
    up. Without, a store whose journal has more than its tables is not opened, unless it is to be read.

    :raises ConfigurationError: the URL or an option cannot work
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are absent and are not to be created, or are not ActiveMQ's
    :raises JournalPending: a journal has what is not in the tables yet
    :raises NotMaster: another holds the lock, and is waited for no longer
    :raises StoreClosed: another held it when the wait was cancelled
    """

    commits_in_order = True

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
        locker: AbstractLocker | None = None,
        lock_timeout: float | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        self.config = config or StoreConfig()
        self._clock = clock or SystemClock()
        self._session = Session(url, self.config, user=user, password=password, read_only=read_only)
        self._session.is_journaled = journaled
        self._mastership: Mastership | None = None
        self.fence: Fence | None = None
        """What is known of being the master; None without a locker."""
        try:
            if locker is not None:
                self._mastership = Mastership(self._session, locker, self._clock)
            if self._mastership is not None and not read_only:
                self.fence = self._mastership.acquire(lock_timeout, cancel)
            if not (journaled or read_only):
                refuse_pending(self._session)
            self._writer = self._make_writer(read_only)
        except BaseException:
            self._release()
            raise
        lengths = self.config.name_lengths
        encoder = MessageEncoder(
            self._clock, self._session.max_message_size, lengths.message_id, self._session.adapter.sent_size
        )
        bodies = Bodies(self._session)
        self._context = StoreContext(self._session, self._writer, encoder, self._clock, lengths, bodies)
        self._lock = threading.Lock()
        self._queues: dict[Destination, JdbcMessageStore] = {}
        self._topics: dict[Destination, JdbcTopicMessageStore] = {}
        self._deleted: WeakValueDictionary[Destination, JdbcMessageStore] = WeakValueDictionary()
        """What somebody may still use of destinations that were deleted: there are never two of one."""
        self._cleanup: CleanupTimer | None = None
        if not read_only:
            self._take_over()
        if self.config.cleanup_period and not (journaled or read_only):
            self._cleanup = CleanupTimer(self.cleanup, self.config.cleanup_period)

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
    ) -> Self:
        """The store of a configuration's database; :func:`jdbcstore.open` opens all that it describes.

        With a locker it is open once it is the master, unless ``read_only``.

        :raises ConfigurationError: as opening it by hand does, and where the option was given
        """
        locker = configuration.locker
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
                locker=make_locker(locker, configuration.broker_name, clock) if locker else None,
                lock_timeout=lock_timeout,
                cancel=cancel,
            )

    @property
    def engine(self) -> object:
        """The SQLAlchemy engine behind the pool of readers, for diagnosis."""
        return self._session.engine

    @property
    def place(self) -> str:
        """The URL, without what is secret in it."""
        return self._session.place

    def tables(self) -> dict[str, bool]:
        """The tables by name, and whether the database has each."""
        return self._session.present_tables()

    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> JdbcMessageStore:
        destination = queue_named(name, self._context.lengths)
        with self._lock:
            found = self._queues.get(destination) or self._taken_up(destination, self._queues)
        if found is None:
            made = JdbcMessageStore(self._context, destination, prioritized)
            with self._lock:
                found = self._queues.setdefault(destination, made)
        return agreed(found, prioritized)

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> JdbcTopicMessageStore:
        destination = topic_named(name, self._context.lengths)
        with self._lock:
            found = self._topics.get(destination) or self._taken_up(destination, self._topics)
        if found is None:
            made = JdbcTopicMessageStore(self._context, destination, prioritized)
            with self._lock:
                found = self._topics.setdefault(destination, made)
        return agreed(found, prioritized)

    def _taken_up(self, destination: Destination, used: dict[Destination, Any]) -> Any:
        """What is still used of a destination that was deleted; None if nothing is. The lock is held."""
        found = self._deleted.pop(destination, None)
        if found is not None:
            used[destination] = found
        return found

    def transaction(self) -> BufferedTransaction[Unit]:
        return BufferedTransaction(self, Unit(), self._writer.execute, self._writer.submit)

    def add_each_async(self, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
        adds, outcomes = encode_each(messages, self._encode)
        return self._writer.submit(Unit(outcomes, adds=adds, apart=True))

    def _encode(self, destination: Destination, message: Message) -> EncodedMessage:
        found = (self._topics if destination.is_topic else self._queues).get(destination)
        if found is None:
            found = self.topic(destination) if destination.is_topic else self.queue(destination)
        return found.encode(message)

    @property
    def xa(self) -> JdbcXAResource:
        return JdbcXAResource(self, self._session, self._writer, self._forget_acknowledgements)

    def _forget_acknowledgements(self, topic: str) -> None:
        destination = Destination.named(topic, DestinationKind.TOPIC)
        with self._lock:
            found = self._topics.get(destination) or self._deleted.get(destination)
        if isinstance(found, JdbcTopicMessageStore):
            found.reset_trackers()

    @property
    def audit(self) -> DuplicateAudit | None:
        return self._writer.audit

    def journal_mark(self) -> JournalMark | None:
        return find_mark(self._session)

    def journal_left(self, journal: int) -> int | None:
        return find_left(self._session, journal)

    def unsaved(self) -> int | None:
        return None

    def find_bodies(self, find: FindBody) -> None:
        self._context.bodies.find = find

    def referring(self, after: int, up_to: int, limit: int) -> list[Referring]:
        return find_referring(self._session, after, up_to, limit)

    def apply(self, changes: Changes) -> None:
        self._session.is_journaled = True
        every = changes.acknowledgements.items()
        acknowledged = [(self.topic(topic).tracker(*who), some) for (topic, *who), some in every]
        application = Application(self._session, changes, acknowledged, self._forget_all)
        self._writer.call(application.run, behind=changes.mark.written, rows=application.rows)

    def _forget_all(self) -> None:
        with self._lock:
            every = [*self._topics.values(), *self._deleted.values()]
        for topic in every:
            if isinstance(topic, JdbcTopicMessageStore):
                topic.reset_trackers()

    def destinations(self) -> list[Destination]:
        rows = self._session.fetch(self._session.statements.find_all_destinations)
        return sorted({Destination.parse(name) for (name,) in rows if name is not None}, key=str)

    def delete_destination(self, destination: Destination, progress: Progress | None = None) -> int:
        removed = self._delete(destination, progress)
        used: dict[Destination, Any] = self._topics if destination.is_topic else self._queues
        with self._lock:
            gone = used.pop(destination, None)
            if gone is not None:
                self._deleted[destination] = gone
        return removed

    def _delete(self, destination: Destination, progress: Progress | None) -> int:
        if not destination.is_topic:
            return self.queue(destination).remove_all_messages(progress)
        topic = self.topic(destination)
        topic.remove_all_subscriptions()
        return topic.remove_all_messages(progress)

    def last_sequence(self) -> int:
        return last_stored(self._session, self._writer.last_sequence)

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int | None:
        if not fits(str(producer_id), self._context.lengths.message_id):
            return None
        query = self._session.statements.last_producer_sequence_id
        last: int | None = self._session.fetch(query, msgid_prod=str(producer_id))[0][0]
        return last

    def check(self) -> None:
        """Make sure that this store can write: the database answers, and the lock is still ours.

        :raises StoreUnavailable: it did not, within ``reconnect_timeout``
        :raises LockLost: another is the master
        """
        self._writer.call(lambda _: None)

    def lock_row(self) -> Row | None:
        """ID, TIME and BROKER_NAME of ACTIVEMQ_LOCK, as a broker's locker left them."""
        rows = self._session.fetch(self._session.statements.find_lock)
        return rows[0] if rows else None

    def lock(self) -> LockView:
        """Who holds the lock, until when, and how far the clocks differ."""
        view = look(self._session, self._clock)
        locker = None if self._mastership is None else self._mastership.locker
        holder = None if locker is None or locker.is_in_row else locker.holder
        if view.is_leased or holder is None:
            return view
        # A lock that is not in the database.
        return replace(view, holder=holder, expires_ms=None)

    def release_lock(self, *, force: bool = False) -> LockView:
        """Free the lease of a holder that is gone; with ``force`` also of one that is not.

        :raises NotMaster: the lease is running
        """
        return release(self._session, self._clock, force=force)

    def cleanup(self, progress: Progress | None = None) -> int:
        return clean(self._session, self._writer, progress)

    def close(self, timeout: float | None = None) -> None:
        if is_writing():
            # Called by a signal's handler, or a future's callback: what it waited for would wait for it.
            threading.Thread(target=self._close_behind, args=(timeout,), name="jdbcstore-close").start()
            return
        if self._cleanup is not None:
            self._cleanup.stop()
        try:
            self._writer.close(timeout)
        finally:
            self._release()

    def _close_behind(self, timeout: float | None) -> None:
        try:
            self.close(timeout)
        except StoreError as error:
            log.error("while the store was being closed: %s", error)

    def _release(self) -> None:
        if self._mastership is not None:
            self._mastership.release()
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_over(self) -> None:
        try:
            take_over(self._session, self._writer)
        except BaseException:
            self.close()
            raise

    def _make_writer(self, read_only: bool) -> Writer:
        if read_only:
            return ReadOnlyWriter()
        audit = recovered_audit(self._session) if self.config.enable_audit else None
        return Writer(self._session, self.fence, audit)
