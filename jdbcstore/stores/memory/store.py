"""A store in memory: queues, topics and subscriptions that end with their process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self, cast

from jdbcstore.abc import Outcome, Progress
from jdbcstore.config import StoreConfig
from jdbcstore.errors import JournalPending
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ProducerId
from jdbcstore.message.message import Message
from jdbcstore.stores.memory.queue import MemoryMessageStore
from jdbcstore.stores.memory.shelf import Shelf
from jdbcstore.stores.memory.state import State, Write
from jdbcstore.stores.memory.topic import MemoryTopicMessageStore
from jdbcstore.stores.memory.xa import MemoryXAResource
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.checkpoint import Changes, FindBody, JournalMark, Referring
from jdbcstore.stores.shared.checks import agreed, queue_named, topic_named
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.stores.shared.encoding import EncodedMessage, MessageEncoder, encode_each
from jdbcstore.stores.shared.transaction import BufferedTransaction
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.futures import StoreFuture, done

_LARGEST = 2**31 - 1
"""The limit of an MSG column."""


class MemoryStore:
    """Keeps every promise of :class:`jdbcstore.abc.Store` except durability: it ends with its process.

    ActiveMQ's ``persistent="false"``. Messages are encoded as for a database, so that sizes and refusals
    agree with it, and no reader shares an object with a writer. Of the configuration, the audit options,
    ``cleanup_period`` and the lengths of types apply. It can be the backing store of a journal: see
    :class:`jdbcstore.stores.shared.checkpoint.CheckpointedStore`.
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
        self._state = State(encoder, audit, clock, lengths)
        self._cleanup: CleanupTimer | None = None
        if self.config.cleanup_period:
            self._cleanup = CleanupTimer(self.cleanup, self.config.cleanup_period)

    def queue(self, name: str | Destination, *, prioritized: bool | None = None) -> MemoryMessageStore:
        destination = queue_named(name, self._state.lengths)
        with self._state.entered():
            found = self._place(destination, prioritized)
        return agreed(found, prioritized)

    def topic(self, name: str | Destination, *, prioritized: bool | None = None) -> MemoryTopicMessageStore:
        destination = topic_named(name, self._state.lengths)
        with self._state.entered():
            found = cast(MemoryTopicMessageStore, self._place(destination, prioritized))
        return agreed(found, prioritized)

    def _place(self, destination: Destination, prioritized: bool | None) -> MemoryMessageStore:
        """The queue or topic of a destination; the lock is held."""
        state = self._state
        found: MemoryMessageStore | None = state.places.get(destination)
        if found is None:
            found = state.deleted.pop(destination, None) or self._new_place(destination, prioritized)
            state.places[destination] = found
        return found

    def _new_place(self, destination: Destination, prioritized: bool | None) -> MemoryMessageStore:
        kind = MemoryTopicMessageStore if destination.is_topic else MemoryMessageStore
        return kind(self._state, Shelf(destination, bool(prioritized)))

    def transaction(self) -> BufferedTransaction[list[Write]]:
        return BufferedTransaction(self, [], self._state.write, self._state.write_async)

    def add_each_async(self, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
        writes, outcomes = encode_each(messages, self._adding)
        return done(outcomes([*self._state.write(writes)]))

    def _adding(self, destination: Destination, message: Message) -> Write:
        place = self.topic(destination) if destination.is_topic else self.queue(destination)
        return place.adding(message)

    @property
    def xa(self) -> MemoryXAResource:
        return MemoryXAResource(self, self._state)

    @property
    def audit(self) -> DuplicateAudit | None:
        return self._state.audit

    def journal_mark(self) -> JournalMark | None:
        with self._state.entered():
            return self._state.mark

    @property
    def place(self) -> str:
        """The URL that opens it."""
        return "memory:"

    def journal_left(self, journal: int) -> int | None:
        with self._state.entered():
            return self._state.left.get(journal)

    def unsaved(self) -> int | None:
        with self._state.entered():
            first = [min(shelf.stored) for shelf in self._shelves() if shelf.stored]
            return min(first, default=self._state.last_sequence + 1)

    def find_bodies(self, find: FindBody) -> None:
        self._state.find_body = find

    def referring(self, after: int, up_to: int, limit: int) -> list[Referring]:
        with self._state.entered():
            every = [one for place in self._state.places.values() for one in place.referring()]
        return sorted(one for one in every if after < one.sequence <= up_to)[:limit]

    def _shelves(self) -> list[Shelf]:
        return [place.shelf for place in self._state.places.values()]

    def apply(self, changes: Changes) -> None:
        state, mark = self._state, changes.mark
        with state.entered():
            stored = state.mark or JournalMark(0, 0, 0)
            if stored.journal and mark.journal not in (0, stored.journal):
                raise JournalPending(stored.journal, "memory:")
            for sequence, message in changes.adds:
                if sequence > stored.written:
                    self._of(message).put(sequence, message)
            for sequence, message in changes.updates:
                self._of(message).replace(sequence, message)
            for sequence, blob in changes.bodies:
                for place in state.places.values():
                    place.put_body(sequence, blob)
            for container, sequence in changes.removes:
                place = state.places.get(Destination.parse(container))
                if place is not None:
                    place.shelf.remove(sequence)
            self._acknowledge(changes)
            if stored.journal and not mark.journal:
                state.left[stored.journal] = mark.applied
            written, identity = max(mark.written, stored.written), mark.store or stored.store
            state.mark = replace(mark, written=written, store=identity)
            state.last_sequence = max(mark.written, state.last_sequence)

    def _of(self, message: EncodedMessage) -> MemoryMessageStore:
        # A priority is stored where the destination is prioritised, and is 0 elsewhere.
        return self._place(Destination.parse(message.container), message.priority > 0)

    def _acknowledge(self, changes: Changes) -> None:
        for key, messages in changes.acknowledgements.items():
            place = self._state.places.get(key.topic)
            found = place and place.shelf.subscriptions.get((key.client_id, key.subscription_name))
            if found is not None:
                for sequence, _ in messages:
                    found.acknowledge(sequence)

    def destinations(self) -> list[Destination]:
        with self._state.entered():
            used = [shelf.destination for shelf in self._shelves() if shelf.is_used]
        return sorted(used, key=str)

    def delete_destination(self, destination: Destination, progress: Progress | None = None) -> int:
        place = self.topic(destination) if destination.is_topic else self.queue(destination)
        if isinstance(place, MemoryTopicMessageStore):
            place.remove_all_subscriptions()
        removed = place.remove_all_messages(progress)
        with self._state.entered():
            if not place.shelf.is_used and self._state.places.pop(destination, None) is not None:
                self._state.deleted[destination] = place
        return removed

    def last_sequence(self) -> int:
        with self._state.entered():
            return self._state.last_sequence

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int | None:
        wanted = str(producer_id)
        with self._state.entered():
            names = [name for shelf in self._shelves() for name in (*shelf.named, *+shelf.in_doubt)]
        return max((number for producer, number in names if producer == wanted), default=None)

    def cleanup(self, progress: Progress | None = None) -> int:
        with self._state.entered():
            places = list(self._state.places.values())
        return sum(place.cleanup(progress) for place in places if place.destination.is_topic)

    def close(self, timeout: float | None = None) -> None:  # noqa: ARG002 - nothing waits
        if self._cleanup is not None:
            self._cleanup.stop()
        with self._state.lock:
            self._state.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
