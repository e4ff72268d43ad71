"""MemoryStore: queues, topics and subscriptions that end with their process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from jdbcstore.abc import Outcome, Progress
from jdbcstore.config import StoreConfig
from jdbcstore.errors import JournalPending
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ProducerId
from jdbcstore.message.message import Message
from jdbcstore.stores.memory.destinations import MemoryMessageStore
from jdbcstore.stores.memory.shared import Shared, Write
from jdbcstore.stores.memory.shelf import Shelf
from jdbcstore.stores.memory.topics import MemoryTopicMessageStore
from jdbcstore.stores.memory.transaction import MemoryTransaction
from jdbcstore.stores.memory.xa import MemoryXAResource
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.checkpoint import Changes, FindBody, JournalMark, Referring
from jdbcstore.stores.shared.checks import agreed, queue_named, topic_named
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.stores.shared.encoding import EncodedMessage, MessageEncoder, encode_each
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.futures import StoreFuture, done

_LARGEST = 2**31 - 1
"""What one MSG column can hold at most."""


class MemoryStore:
    """Keeps every promise of :class:`jdbcstore.abc.Store` but one: it ends with its process.

    ActiveMQ's ``persistent="false"``. Messages are encoded as they would be in a database, so sizes
    and what is refused agree with it, and no reader shares an object with a writer. Of the
    configuration, the audit, ``cleanup_period`` and the lengths of types count; the rest is about
    databases.
    """

    commits_in_order = True

    def __init__(self, config: StoreConfig | None = None, *, clock: Clock | None = None) -> None:
        self.config = config or StoreConfig()
        clock = clock or SystemClock()
        audit = None
        if self.config.enable_audit:
            audit = DuplicateAudit(self.config.max_producers_to_audit, self.config.max_audit_depth)
        lengths = self.config.name_lengths
        encoder = MessageEncoder(clock, _LARGEST, lengths.message_id)
        self._shared = Shared(encoder, audit, clock, lengths)
        self._queues: dict[Destination, MemoryMessageStore] = {}
        self._topics: dict[Destination, MemoryTopicMessageStore] = {}
        self._shelves: dict[Destination, Shelf] = {}
        self._cleanup: CleanupTimer | None = None
        if self.config.cleanup_period:
            self._cleanup = CleanupTimer(self.cleanup, self.config.cleanup_period)

    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> MemoryMessageStore:
        destination = queue_named(name, self._shared.lengths)
        with self._shared.entered():
            found = self._queue(destination, prioritized)
        return agreed(found, prioritized)

    def _queue(self, destination: Destination, prioritized: bool | None) -> MemoryMessageStore:
        found = self._queues.get(destination)
        if found is None:
            found = MemoryMessageStore(self._shared, self._shelf(destination, prioritized))
            self._queues[destination] = found
        return found

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> MemoryTopicMessageStore:
        destination = topic_named(name, self._shared.lengths)
        with self._shared.entered():
            found = self._topic(destination, prioritized)
        return agreed(found, prioritized)

    def _topic(self, destination: Destination, prioritized: bool | None) -> MemoryTopicMessageStore:
        found = self._topics.get(destination)
        if found is None:
            found = MemoryTopicMessageStore(self._shared, self._shelf(destination, prioritized))
            self._topics[destination] = found
        return found

    def _shelf(self, destination: Destination, prioritized: bool | None) -> Shelf:
        shelf = self._shelves[destination] = Shelf(destination, bool(prioritized))
        return shelf

    def transaction(self) -> MemoryTransaction:
        return MemoryTransaction(self, self._shared)

    def add_each_async(self, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
        writes, outcomes = encode_each(messages, self._adding)
        return done(outcomes([*self._shared.write(writes)]))

    def _adding(self, destination: Destination, message: Message) -> Write:
        place = self.topic(destination) if destination.is_topic else self.queue(destination)
        return place.adding(message)

    @property
    def xa(self) -> MemoryXAResource:
        return MemoryXAResource(self, self._shared)

    @property
    def audit(self) -> DuplicateAudit | None:
        return self._shared.audit

    def journal_mark(self) -> JournalMark | None:
        with self._shared.entered():
            return self._shared.mark

    @property
    def place(self) -> str:
        """What it is opened with."""
        return "memory:"

    def journal_left(self, journal: int) -> int | None:
        with self._shared.entered():
            return self._shared.left.get(journal)

    def unsaved(self) -> int | None:
        with self._shared.entered():
            first = [min(shelf.stored) for shelf in self._shelves.values() if shelf.stored]
            return min(first, default=self._shared.last_sequence + 1)

    def find_bodies(self, find: FindBody) -> None:
        self._shared.find_body = find

    def referring(self, after: int, up_to: int, limit: int) -> list[Referring]:
        with self._shared.entered():
            every = [one for place in self._places() for one in place.referring()]
        return sorted(one for one in every if after < one.sequence <= up_to)[:limit]

    def _places(self) -> list[MemoryMessageStore]:
        return [*self._queues.values(), *self._topics.values()]

    def apply(self, changes: Changes) -> None:
        shared, mark = self._shared, changes.mark
        with shared.entered():
            stored = shared.mark or JournalMark(0, 0, 0)
            if stored.journal and mark.journal not in (0, stored.journal):
                raise JournalPending(stored.journal, "memory:")
            for sequence, message in changes.adds:
                if sequence > stored.written:
                    self._of(message).put(sequence, message)
            for sequence, message in changes.updates:
                self._of(message).replace(sequence, message)
            for sequence, blob in changes.bodies:
                for place in self._places():
                    place.put_body(sequence, blob)
            for container, sequence in changes.removes:
                shelf = self._shelves.get(Destination.parse(container))
                if shelf is not None:
                    shelf.remove(sequence)
            self._acknowledge(changes)
            if stored.journal and not mark.journal:
                shared.left[stored.journal] = mark.applied
            written, identity = max(mark.written, stored.written), mark.store or stored.store
            shared.mark = replace(mark, written=written, store=identity)
            shared.last_sequence = max(mark.written, shared.last_sequence)

    def _of(self, message: EncodedMessage) -> MemoryMessageStore:
        destination = Destination.parse(message.container)
        make = self._topic if destination.is_topic else self._queue
        # A priority is stored where the destination is prioritised, and is 0 elsewhere.
        return make(destination, message.priority > 0)

    def _acknowledge(self, changes: Changes) -> None:
        for key, messages in changes.acknowledgements.items():
            shelf = self._shelves.get(key.topic)
            found = shelf.subscriptions.get((key.client_id, key.subscription_name)) if shelf else None
            if found is not None:
                for sequence, _ in messages:
                    found.acknowledge(sequence)

    def destinations(self) -> list[Destination]:
        with self._shared.entered():
            used = [shelf.destination for shelf in self._shelves.values() if shelf.is_used]
        return sorted(used, key=str)

    def delete_destination(self, destination: Destination, progress: Progress | None = None) -> int:
        if not destination.is_topic:
            return self.queue(destination).remove_all_messages(progress)
        topic = self.topic(destination)
        topic.remove_all_subscriptions()
        return topic.remove_all_messages(progress)

    def last_sequence(self) -> int:
        with self._shared.entered():
            return self._shared.last_sequence

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int | None:
        wanted = str(producer_id)
        with self._shared.entered():
            shelves = self._shelves.values()
            names = [name for shelf in shelves for name in (*shelf.named, *+shelf.in_doubt)]
        return max((number for producer, number in names if producer == wanted), default=None)

    def cleanup(self, progress: Progress | None = None) -> int:
        with self._shared.entered():
            topics = list(self._topics.values())
        return sum(topic.cleanup(progress) for topic in topics)

    def close(self, timeout: float | None = None) -> None:  # noqa: ARG002 - nothing waits
        if self._cleanup is not None:
            self._cleanup.stop()
        with self._shared.lock:
            self._shared.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
