"""A store in memory: queues, topics and subscriptions that end with their process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from jdbcstore.abc import Outcome, Progress
from jdbcstore.config import StoreConfig
from jdbcstore.errors import JournalPending
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ProducerId
from jdbcstore.message.message import Message
from jdbcstore.stores.memory.destinations import MemoryMessageStore, MemoryTopicMessageStore
from jdbcstore.stores.memory.shelf import Shelf
from jdbcstore.stores.memory.state import MemoryUnit, MemoryWrite, MemoryXAResource, State
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.checkpoint import Changes, FindBody, JournalMark, Referring
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.stores.shared.encoding import MessageEncoder, encode_each, own_destination
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.stores.shared.store import DestinationsStore
from jdbcstore.stores.shared.transaction import BufferedTransaction
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.futures import StoreFuture

_LARGEST = 2**31 - 1
"""The limit of an MSG column."""


class MemoryStore(DestinationsStore[MemoryMessageStore, MemoryTopicMessageStore]):
    """Keeps every promise of :class:`jdbcstore.abc.Store` except durability: it ends with its process.

    ActiveMQ's ``persistent="false"``. Messages are encoded as for a database, so that sizes and refusals
    agree with it, and no reader shares an object with a writer. Of the configuration, the audit options,
    ``cleanup_period`` and the lengths of types apply. It can be the backing store of a journal: see
    :class:`jdbcstore.stores.shared.checkpoint.CheckpointedStore`.
    """

    place = "memory:"
    """The URL that opens it."""

    def __init__(self, config: StoreConfig | None = None, *, clock: Clock | None = None) -> None:
        self.config = config or StoreConfig()
        super().__init__(self.config.name_lengths)
        clock = clock or SystemClock()
        self.audit: DuplicateAudit | None = None
        if self.config.enable_audit:
            self.audit = DuplicateAudit(self.config.max_producers_to_audit, self.config.max_audit_depth)
        encoder = MessageEncoder(clock, _LARGEST, self._lengths.message_id)
        self._state = State(encoder, self.audit, clock, self._lengths, self._lock, self._places)
        self._cleanup = CleanupTimer(self.cleanup, self.config.cleanup_period)
        self._cleanup.start()

    def _new_place(self, destination: Destination, prioritized: bool | None) -> MemoryMessageStore:
        kind = MemoryTopicMessageStore if destination.is_topic else MemoryMessageStore
        with self._state.entered():  # or it is closed
            return kind(self._state, Shelf(destination, bool(prioritized), self._state.total))

    def transaction(self) -> BufferedTransaction[MemoryUnit]:
        return BufferedTransaction(self, MemoryUnit(), self._state)

    def add_each_async(self, messages: Sequence[Message]) -> StoreFuture[list[Outcome]]:
        writes, outcomes = encode_each(messages, self._adding)
        return self._state.submit(MemoryUnit(outcomes, writes))

    def _adding(self, message: Message) -> MemoryWrite:
        return self._place(own_destination(message)).adding(message)

    @property
    def xa(self) -> MemoryXAResource:
        return MemoryXAResource(self, self._state)

    @property
    def memory_size(self) -> int:
        """The approximate bytes of all stored messages, their objects included."""
        return self._state.total.size

    def watch_memory(self, changed: Callable[[], None] | None) -> None:
        """Call back after each change of :attr:`memory_size`, in the thread that made it; None ends that."""
        with self._state.lock:
            self._state.changed = changed

    def journal_mark(self) -> JournalMark | None:
        with self._state.entered():
            return self._state.mark

    def journal_left(self, journal: int) -> int | None:
        with self._state.entered():
            return self._state.left.get(journal)

    def begin_journal(self) -> None:
        """No other process writes here."""

    def consumed_by_all(self) -> Iterator[tuple[str, list[int]]]:
        return iter(())  # it removes them itself: no other store follows its journal

    def unsaved(self) -> int | None:
        with self._state.entered():
            first = [min(shelf.stored) for shelf in self._shelves() if shelf.stored]
            return min(first, default=self._state.last_sequence + 1)

    def find_bodies(self, find: FindBody) -> None:
        self._state.find_body = find

    def referring(self, after: int, up_to: int, limit: int) -> list[Referring]:
        with self._state.entered():
            every = [
                reference for destination in self._places.values() for reference in destination.referring()
            ]
        return sorted(reference for reference in every if after < reference.sequence <= up_to)[:limit]

    def _shelves(self) -> list[Shelf]:
        return [destination.shelf for destination in self._places.values()]

    def apply(self, changes: Changes) -> None:
        state, mark, of = self._state, changes.mark, self._of
        adds = [(of(message), sequence, message) for sequence, message in changes.adds]
        updates = [(of(message), sequence, message) for sequence, message in changes.updates]
        with state.entered():
            stored = state.mark or JournalMark(0, 0, 0)
            if stored.journal and mark.journal not in (0, stored.journal):
                raise JournalPending(stored.journal, self.place)
            for destination, sequence, message in adds:
                if sequence > stored.written:
                    destination.put(sequence, message)
            for destination, sequence, message in updates:
                destination.replace(sequence, message)
            for sequence, blob in changes.bodies:
                for destination in self._places.values():
                    destination.put_body(sequence, blob)
            for container, sequence in changes.removes:
                place = self._places.get(Destination.parse(container))
                if place is not None:
                    place.shelf.remove(sequence)
            self._acknowledge(changes)
            if stored.journal and not mark.journal:
                state.left[stored.journal] = mark.applied
            state.mark = replace(
                mark,
                written=max(mark.written, stored.written),
                store=mark.store or stored.store,
                writer=mark.writer or stored.writer,
            )
            state.last_sequence = max(mark.written, state.last_sequence)

    def _of(self, message: EncodedMessage) -> MemoryMessageStore:
        # A priority is stored where the destination is prioritised, and is 0 elsewhere.
        return self._opened(Destination.parse(message.container), message.priority > 0)

    def _acknowledge(self, changes: Changes) -> None:
        for key, messages in changes.acknowledgements.items():
            destination = self._places.get(key.topic)
            subscription = destination and destination.shelf.subscriptions.get(
                (key.client_id, key.subscription_name)
            )
            if subscription is not None:
                for sequence, _ in messages:
                    subscription.acknowledge(sequence)

    def destinations(self) -> list[Destination]:
        with self._state.entered():
            used = [shelf.destination for shelf in self._shelves() if shelf.is_used]
        return sorted(used, key=str)

    def record_queue(self, name: str | Destination) -> None:
        shelf = self.queue(name).shelf
        with self._state.entered():
            shelf.recorded = True

    def drop_record(self, queue: Destination) -> None:
        shelf = self.queue(queue).shelf
        with self._state.entered():
            shelf.recorded = False

    def _is_used(self, destination: MemoryMessageStore) -> bool:
        return destination.shelf.is_used

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
            destinations = list(self._places.values())
        return sum(
            destination.cleanup(progress)
            for destination in destinations
            if isinstance(destination, MemoryTopicMessageStore)
        )

    def close(self, timeout: float | None = None) -> None:  # noqa: ARG002 - nothing waits
        self._cleanup.stop()
        with self._state.lock:
            self._state.closed = True
