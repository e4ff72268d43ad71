"""The store with a journal in front: many small commits become few large ones.

A write is durable once it is in the journal (:mod:`jdbcstore.journal`), where one sync serves all writes that
are waiting. The overlay keeps in memory the journal's content that the backing store lacks, and readers
merge the two. Checkpoints write the overlay to the backing store in large transactions; a message that was
acknowledged before never gets there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from jdbcstore.abc import JournalState, Measured, MessageReference, Outcome, Progress
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreClosed
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import ProducerId
from jdbcstore.message.message import Message
from jdbcstore.stores.journaled.destinations import JournaledMessageStore, JournaledTopicMessageStore
from jdbcstore.stores.journaled.entries import JournalUnit
from jdbcstore.stores.journaled.front import JournalFront
from jdbcstore.stores.journaled.records import RecordedWrites
from jdbcstore.stores.journaled.refused import RefusedMessage
from jdbcstore.stores.journaled.transactions import JournaledTransactions
from jdbcstore.stores.shared.checkpoint import CheckpointedStore, CheckpointedTopic
from jdbcstore.stores.shared.checks import destination_named
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.stores.shared.encoding import encode_each, nothing, own_destination
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.stores.shared.store import DestinationsStore
from jdbcstore.stores.shared.transaction import BufferedTransaction
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.files import Files
from jdbcstore.util.futures import StoreFuture
from jdbcstore.util.stream_health import StreamHealth
from jdbcstore.util.timings import Timings

log = logging.getLogger(__name__)


class JournaledStore(DestinationsStore[JournaledMessageStore, JournaledTopicMessageStore]):
    """A store whose writes are durable in a journal before they are in the backing store. Thread-safe.

    It keeps every promise of :class:`jdbcstore.abc.Store`, writes messages in the order in which they were
    handed over, and closes the backing store. Nothing else may write to that: a :class:`JdbcStore` is opened
    with ``journaled=True``. While the backing store does not answer, writes are accepted until the overlay
    reaches ``memory_limit`` bytes, and then fail with :class:`StoreUnavailable` after its
    ``reconnect_timeout`` seconds; reads need it.

    Opening replays the records that the backing store does not have; ``progress`` is called with their number
    now and then.

    :raises ConfigurationError: the journal belongs to another store
    :raises CorruptJournal: an acknowledged record is damaged or missing, or the journal ends before the
        record up to which the backing store has applied it
    :raises JournalInUse: the directory is in use by another journal
    :raises JournalPending: another journal has records that the backing store does not have
    :raises StoreUnavailable: the directory cannot be used, or the backing store does not answer
    """

    _most_queues = 10_000

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
        """The options of the backing store."""
        super().__init__(self.config.name_lengths)
        self._store = store
        self._clock = clock
        self._place_of_journal = config.place
        self._memory_limit = config.memory_limit
        self._front = front = JournalFront(store, config, clock, self._releasable)
        self._overlay, self._writer, self._checkpointer = front.overlay, front.writer, front.checkpointer
        self._journal = front.open(files)
        self.xa = JournaledTransactions(front, self)
        self._closed = False
        self._recorded: set[Destination] = set()
        """The queues that were recorded since this store was opened."""
        try:
            front.prepared_before.update(transaction.xid for transaction in store.xa.recover())
            front.recover(progress)
            self._begun()
        except BaseException:
            self._writer.cancel_waiting()
            self._journal.close()
            raise
        self._checkpointer.start()
        self._cleanup = CleanupTimer(self._clean, self.config.cleanup_period)
        self._cleanup.start()

    def _begun(self) -> None:
        """Write the records that precede all others."""

    def _new_place(self, destination: Destination, prioritized: bool | None) -> JournaledMessageStore:
        self._writer.check_open()
        if prioritized is None:
            with self._overlay.lock:
                # The backing store may not have any of its messages yet.
                prioritized = self._overlay.has_priorities(destination.qualified_name) or None
        if destination.is_topic:
            return self._new_topic(self._store.topic(destination, prioritized=prioritized))
        return JournaledMessageStore(self._front, self._store.queue(destination, prioritized=prioritized))

    def _new_topic(self, backing: CheckpointedTopic) -> JournaledTopicMessageStore:
        return JournaledTopicMessageStore(self._front, backing)

    def transaction(self) -> BufferedTransaction[RecordedWrites]:
        return self.xa.begin()

    def add_each_async(self, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
        # Each message was checked for what could refuse it alone: the journal takes all or none.
        adds, outcomes = encode_each(messages, self._encode)
        return self._writer.submit(JournalUnit(RecordedWrites(adds=adds), outcomes))

    def _encode(self, message: Message) -> EncodedMessage:
        return self._place(own_destination(message)).encode(message)

    @property
    def timings(self) -> Mapping[str, Timings]:
        """The writes of the journal since it was opened, and the backing store's measurements."""
        behind = self._store.timings if isinstance(self._store, Measured) else {}
        return {"journal": self._journal.timings, **behind}

    def checkpoint(self) -> None:
        """Write everything that is stored now to the backing store.

        :raises StoreError: the backing store failed; the checkpoint is tried again in the background
        """
        self._writer.check_open()
        self._checkpointer.checkpoint()

    def journal_state(self) -> JournalState:
        """Return the journal as it is now, as :class:`jdbcstore.abc.Checkpointed` says."""
        journal, overlay = self._journal.log, self._overlay
        segments = len(journal.spans())
        with overlay.lock:
            return JournalState(
                directory=self._place_of_journal,
                first_record=journal.first_number,
                last_record=journal.last_number,
                applied=self._checkpointer.mark.applied,
                segments=segments,
                pending_bytes=overlay.size,
                memory_limit=self._memory_limit,
                checkpoint_age=self._checkpointer.age,
                failure=self._checkpointer.failure,
                refused=len(overlay.refused),
                in_doubt=len(overlay.prepared),
            )

    def streams(self) -> list[StreamHealth]:
        """Return the health of its stream by its servers; see :class:`jdbcstore.abc.Streamed`."""
        health = self._journal.health()
        return [] if health is None else [health]

    def refused(self) -> list[RefusedMessage]:
        """Return the messages that the backing store refused, oldest first.

        They are set aside, and do not hold up others.

        :raises StoreError: their files cannot be read
        """
        return self._checkpointer.refused.every()

    def retry_refused(self, sequence: int) -> MessageReference | None:
        """Store a refused message again, after all others; or its new contents, if it was an update.

        To be called once its cause is corrected. If the process is killed meanwhile, it may be stored twice.

        :returns: its new reference; None if it was refused again, and is set aside under another ID
        :raises MessageNotFound: it is not set aside, or the message to be updated is gone
        """
        refused = self._checkpointer.refused.find(sequence)
        place = self._place(Destination.parse(refused.destination))
        if self._store.audit is not None:
            self._store.audit.forget(refused.encoded.producer, refused.encoded.producer_sequence)
        if refused.is_update:
            place.update_message(refused.message)
            reference = MessageReference(sequence, refused.encoded.message_id)
        else:
            reference = place.add_message(refused.message)
        self.drop_refused(sequence)
        self.checkpoint()
        with self._overlay.lock:
            return None if reference.sequence in self._overlay.refused else reference

    def drop_refused(self, sequence: int) -> None:
        """Delete a refused message, if it is set aside."""
        self._checkpointer.refused.drop(sequence)
        with self._overlay.lock:
            self._overlay.refused.pop(sequence, None)

    def destinations(self) -> list[Destination]:
        with self._lock:
            opened = {*self._places}
        every, doubtful = self._found()
        if not doubtful <= opened:
            # Opening one would decide whether it uses priorities, which is for its first user to say.
            self.checkpoint()
            every, doubtful = self._found()
        known = (doubtful & opened) - self._recorded
        return sorted(
            (destination for destination in every if destination not in known or self._has_any(destination)),
            key=str,
        )

    def _releasable(self, number: int) -> int:
        """Return up to which record the journal may be released, of those up to a number."""
        return number

    def record_queue(self, name: str | Destination) -> None:
        # Not in the journal: it is one row, which may well be there before the messages are.
        self._writer.check_open()
        self._store.record_queue(name)
        self._recorded.add(destination_named(name, DestinationKind.QUEUE, self._lengths))

    def drop_record(self, queue: Destination) -> None:
        self._writer.check_open()
        self._store.drop_record(queue)
        self._recorded.discard(queue)

    def _found(self) -> tuple[set[Destination], set[Destination]]:
        """Destinations that are in use, or were; and those of them that the overlay may have emptied."""
        with self._overlay.lock:
            used, touched = self._overlay.containers()
        # A checkpoint may be writing messages that are in neither the tables nor the active layer.
        every = {*self._store.destinations(), *map(Destination.parse, used | touched)}
        return every, every & {*map(Destination.parse, touched - used)}

    def _has_any(self, destination: Destination) -> bool:
        place = self._place(destination)
        is_subscribed = isinstance(place, JournaledTopicMessageStore) and place.subscriptions()
        return bool(is_subscribed or place.message_count())

    def last_sequence(self) -> int:
        self._writer.check_open()
        with self._overlay.lock:
            return self._overlay.last_sequence

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int | None:
        with self._overlay.lock:
            removes = self._overlay.removes_anything()
        if removes:
            # The backing store cannot know which of a producer's messages are gone.
            self.checkpoint()
        with self._overlay.lock:
            added = self._overlay.last_of_producer(str(producer_id))
        stored = self._store.last_producer_sequence_id(producer_id)
        return max((number for number in (added, stored) if number is not None), default=None)

    def cleanup(self, progress: Progress | None = None) -> int:
        with self._checkpointer.up_to_date():
            return self._store.cleanup(progress)

    def _clean(self) -> int:
        """As :meth:`cleanup`, without a checkpoint: what that is needed for can wait for the next one."""
        total = 0
        for topic, done in self._front.subscriptions.consumed(self._overlay, self._overlay.active).items():
            if done:
                self._writer.execute(
                    JournalUnit(RecordedWrites(removes=[(topic.qualified_name, sorted(done))]), nothing)
                )
                total += len(done)
        with self._checkpointer.alone():
            return total + self._store.cleanup()

    def close(self, timeout: float | None = None) -> None:
        """As in :class:`jdbcstore.abc.Store`. Messages that do not reach the backing store in time stay in
        the journal."""
        with self._lock:
            was_closed, self._closed = self._closed, True
        if was_closed:
            return
        end = None if timeout is None else time.monotonic() + timeout

        def left() -> float | None:
            return None if end is None else max(end - time.monotonic(), 0.0)

        self._cleanup.stop()
        self._writer.stop(StoreClosed())
        unwritten = 0
        try:
            if self._writer.has_ended(left()):
                self._checkpointer.finish(left())
            self._checkpointer.stop()
            unwritten = self._writer.cancel_waiting()
            self._journal.close(left())
        finally:
            try:
                self._store.close(left())
            except StoreClosed as error:
                # Only a checkpoint writes there.
                log.warning(
                    "the store is closed during a checkpoint; the rest stays in the journal: %s", error
                )
        if unwritten:
            raise StoreClosed(
                f"closed after {timeout} seconds: {unwritten} operations that waited for room in memory were"
                " not written; their callers were notified",
                unwritten=unwritten,
            )
