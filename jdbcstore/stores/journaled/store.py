"""JournaledStore: a journal in front of any store."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from jdbcstore.abc import MessageReference, Outcome, Progress
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreClosed
from jdbcstore.journal import Journal
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ProducerId
from jdbcstore.message.message import Message
from jdbcstore.stores.journaled.audit import JournalAudit
from jdbcstore.stores.journaled.belonging import Belonging
from jdbcstore.stores.journaled.bodies import Bodies
from jdbcstore.stores.journaled.checkpointer import Checkpointer
from jdbcstore.stores.journaled.destinations import JournaledMessageStore
from jdbcstore.stores.journaled.holding import Claims
from jdbcstore.stores.journaled.operations import Writes
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.stores.journaled.parts import Parts
from jdbcstore.stores.journaled.recovery import Recovery
from jdbcstore.stores.journaled.refused import RefusedMessage
from jdbcstore.stores.journaled.subscriptions import Subscriptions
from jdbcstore.stores.journaled.topics import JournaledTopicMessageStore
from jdbcstore.stores.journaled.transaction import JournaledTransaction
from jdbcstore.stores.journaled.units import Unit
from jdbcstore.stores.journaled.writing import JournalWriter
from jdbcstore.stores.journaled.xa import JournaledXAResource
from jdbcstore.stores.shared.checkpoint import CheckpointedStore
from jdbcstore.stores.shared.checks import MAX_SEQUENCE, agreed, queue_named, sequences_used_up, topic_named
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.stores.shared.encoding import EncodedMessage, encode_each, nothing
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.files import Files
from jdbcstore.util.futures import StoreFuture

log = logging.getLogger(__name__)


class JournaledStore:
    """A journal in front of a store: writes are durable once they are in its files, one sync for many.

    It keeps every promise of :class:`jdbcstore.abc.Store`, and closes the store behind it. Nobody else may
    write to that one: a :class:`JdbcStore` is opened with ``journaled=True``. A checkpoint writes there what
    is left by then; a message that was acknowledged before never gets there. While the store behind does not
    answer, messages are taken until ``memory_limit``; reads need it.

    Opening takes what the journal has and the store has not: ``progress`` hears of the records.

    :raises ConfigurationError: the journal is another store's
    :raises CorruptJournal: a record that was acknowledged is damaged or gone, or the journal ends before what
        the store behind has of it
    :raises JournalInUse: another journal has the directory
    :raises JournalPending: another journal has what the store behind has not
    :raises StoreUnavailable: the directory cannot be used, or the store behind does not answer
    """

    commits_in_order = True

    def __init__(
        self,
        store: CheckpointedStore,
        config: JournalConfig | None = None,
        *,
        clock: Clock | None = None,
        progress: Progress | None = None,
        files: Files | None = None,
    ) -> None:
        config, clock = config or JournalConfig(), clock or SystemClock()
        self.config = store.config
        self._store = store
        self._overlay = overlay = Overlay()
        due = threading.Event()
        audit = None if store.audit is None else JournalAudit(store.audit, overlay)
        self._writer = writer = JournalWriter(
            overlay, config, audit, due.set, clock, store.config.reconnect_timeout
        )
        self._subscriptions = subscriptions = Subscriptions(store)
        bodies = Bodies(store, writer, config)
        self._checkpointer = checkpointer = Checkpointer(
            store, overlay, writer, subscriptions, bodies, config, clock, due
        )
        behind_prepared = {transaction.xid for transaction in store.xa.recover()}
        belonging = Belonging(store, config)
        if belonging.last_sequence >= MAX_SEQUENCE:
            raise sequences_used_up(belonging.last_sequence)
        self._journal = writer.journal = Journal(
            config,
            committed=writer.committed,
            failed=writer.failed,
            review=None if audit is None else audit.review,
            first_sequence=belonging.last_sequence + 1,
            accept=belonging.accept,
            files=files,
            clock=clock,
        )
        try:
            Recovery(store, overlay, writer, audit, checkpointer, bodies, config, belonging).run(progress)
        except BaseException:
            writer.give_up()
            self._journal.close()
            raise
        self._parts = Parts(
            store, overlay, writer, checkpointer, bodies, subscriptions, clock, behind_prepared
        )
        self._claims = Claims(self._parts)
        self._lock = threading.Lock()
        self._closed = False
        self._queues: dict[Destination, JournaledMessageStore] = {}
        self._topics: dict[Destination, JournaledTopicMessageStore] = {}
        self._checkpointer.start()
        self._cleanup: CleanupTimer | None = None
        if self.config.cleanup_period:
            self._cleanup = CleanupTimer(self._clean, self.config.cleanup_period)

    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> JournaledMessageStore:
        destination = queue_named(name, self.config.name_lengths)
        with self._lock:
            found = self._queues.get(destination)
        if found is None:
            self._writer.check_open()
            behind = self._store.queue(destination, prioritized=self._as_stored(destination, prioritized))
            made = JournaledMessageStore(self._parts, behind)
            with self._lock:
                found = self._queues.setdefault(destination, made)
        return agreed(found, prioritized)

    def topic(
        self, name: str | Destination, *, prioritized: bool | None = None
    ) -> JournaledTopicMessageStore:
        destination = topic_named(name, self.config.name_lengths)
        with self._lock:
            found = self._topics.get(destination)
        if found is None:
            self._writer.check_open()
            behind = self._store.topic(destination, prioritized=self._as_stored(destination, prioritized))
            made = JournaledTopicMessageStore(self._parts, behind)
            with self._lock:
                found = self._topics.setdefault(destination, made)
        return agreed(found, prioritized)

    def _as_stored(self, destination: Destination, prioritized: bool | None) -> bool | None:
        """What the store behind is to be told: it may have none of the messages yet."""
        if prioritized is None:
            with self._overlay.lock:
                return True if self._overlay.has_priorities(destination.qualified_name) else None
        return prioritized

    def transaction(self) -> JournaledTransaction:
        return JournaledTransaction(self, self._parts)

    def add_each_async(self, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
        # What could refuse one of them was asked now: the journal takes all or none.
        adds, outcomes = encode_each(messages, self._encode)
        return self._writer.submit(Unit(Writes(adds=adds), outcomes))

    def _encode(self, destination: Destination, message: Message) -> EncodedMessage:
        found = (self._topics if destination.is_topic else self._queues).get(destination)
        if found is None:
            found = self.topic(destination) if destination.is_topic else self.queue(destination)
        return found.encode(message)

    @property
    def xa(self) -> JournaledXAResource:
        return JournaledXAResource(self, self._parts, self._claims)

    def checkpoint(self) -> None:
        """Have all that is stored now in the store behind.

        :raises StoreError: the store behind did not take it; it is tried again by and by
        """
        self._writer.check_open()
        self._checkpointer.checkpoint()

    def refused(self) -> list[RefusedMessage]:
        """Messages that the store behind did not take, the oldest first: they stand aside, and others go on.

        :raises StoreError: their files cannot be read
        """
        return self._checkpointer.refused.every()

    def retry_refused(self, sequence: int) -> MessageReference | None:
        """Store a message that was refused anew, behind all others; or its new contents, if it was updated.

        What refused it is to be mended before. If the process ends in the middle it may be stored twice.

        :returns: where it is now; None if it was refused again, and stands aside under another ID
        :raises MessageNotFound: it does not stand aside, or is not there any more to be updated
        """
        one = self._checkpointer.refused.find(sequence)
        destination = Destination.parse(one.destination)
        place = self.topic(destination) if destination.is_topic else self.queue(destination)
        if self._store.audit is not None:
            self._store.audit.forget(one.encoded.producer, one.encoded.producer_sequence)
        if one.is_update:
            place.update_message(one.message)
            reference = MessageReference(sequence, one.encoded.message_id)
        else:
            reference = place.add_message(one.message)
        self.drop_refused(sequence)
        self.checkpoint()
        with self._overlay.lock:
            return None if reference.sequence in self._overlay.refused else reference

    def drop_refused(self, sequence: int) -> None:
        """Let go of a message that was refused. One that does not stand aside is no error."""
        with self._overlay.lock:
            self._overlay.refused.pop(sequence, None)
        self._checkpointer.refused.drop(sequence)

    def destinations(self) -> list[Destination]:
        with self._lock:
            opened = {*self._queues, *self._topics}
        every, doubtful = self._found()
        if not doubtful <= opened:
            # To look into one would decide whether it is by priority, which who uses it first does.
            self.checkpoint()
            every, doubtful = self._found()
        known = doubtful & opened
        return sorted((one for one in every if one not in known or self._is_used(one)), key=str)

    def _found(self) -> tuple[set[Destination], set[Destination]]:
        """Destinations that are used, or were; and of these, those where the overlay may have ended that."""
        with self._overlay.lock:
            used, touched = self._overlay.containers()
        # A checkpoint may be writing what is neither there yet nor in the active layer any more.
        every = {*self._store.destinations(), *map(Destination.parse, used | touched)}
        return every, every & {*map(Destination.parse, touched - used)}

    def _is_used(self, destination: Destination) -> bool:
        if destination.is_topic:
            topic = self.topic(destination)
            return bool(topic.subscriptions() or topic.message_count())
        return self.queue(destination).message_count() > 0

    def delete_destination(self, destination: Destination, progress: Progress | None = None) -> int:
        if not destination.is_topic:
            return self.queue(destination).remove_all_messages(progress)
        topic = self.topic(destination)
        topic.remove_all_subscriptions()
        return topic.remove_all_messages(progress)

    def last_sequence(self) -> int:
        self._writer.check_open()
        with self._overlay.lock:
            return self._overlay.last_sequence

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int | None:
        with self._overlay.lock:
            removes = self._overlay.removes_anything()
        if removes:
            # The store behind cannot tell which of a producer's messages are gone.
            self.checkpoint()
        with self._overlay.lock:
            added = self._overlay.last_of_producer(str(producer_id))
        behind = self._store.last_producer_sequence_id(producer_id)
        return max((number for number in (added, behind) if number is not None), default=None)

    def cleanup(self, progress: Progress | None = None) -> int:
        with self._checkpointer.everything_behind():
            return self._store.cleanup(progress)

    def _clean(self) -> int:
        """As :meth:`cleanup`, without a checkpoint: what it is needed for can wait for the next one."""
        total = 0
        for topic, done in self._subscriptions.done(self._overlay, self._overlay.active).items():
            if done:
                self._writer.execute(Unit(Writes(removes=[(topic.qualified_name, sorted(done))]), nothing))
                total += len(done)
        with self._checkpointer.alone():
            return total + self._store.cleanup()

    def close(self, timeout: float | None = None) -> None:
        """As the contract says. Without the time to have all in the store behind, the journal keeps it."""
        with self._lock:
            was_closed, self._closed = self._closed, True
        if was_closed:
            return
        end = None if timeout is None else time.monotonic() + timeout

        def left() -> float | None:
            return None if end is None else max(end - time.monotonic(), 0.0)

        if self._cleanup is not None:
            self._cleanup.stop()
        self._writer.stop(StoreClosed())
        unwritten = 0
        try:
            if self._writer.has_ended(left()):
                self._checkpointer.finish(left())
            self._checkpointer.stop()
            unwritten = self._writer.give_up()
            self._journal.close(left())
        finally:
            try:
                self._store.close(left())
            except StoreClosed as error:
                # Nobody but a checkpoint writes there.
                log.warning("the store is closed in a checkpoint; the journal has the rest: %s", error)
        if unwritten:
            raise StoreClosed(
                f"closed after {timeout} seconds: {unwritten} operations had waited for room in memory, and"
                " are not written; their callers were told so",
                unwritten=unwritten,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
