"""A queue behind a journal, and what a topic has in common with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jdbcstore.abc import Cursor, MessageReference, Page, Progress, Reference, Statistics
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.stores.journaled.counting import count_messages, summarize
from jdbcstore.stores.journaled.operations import Writes
from jdbcstore.stores.journaled.parts import Parts
from jdbcstore.stores.journaled.reading import Source, decode, read_page
from jdbcstore.stores.journaled.units import Unit
from jdbcstore.stores.shared.checkpoint import CheckpointedDestination
from jdbcstore.stores.shared.checks import message_not_found, name_of
from jdbcstore.stores.shared.encoding import EncodedMessage, everything, nothing
from jdbcstore.stores.shared.paging import PRIORITIES, REMOVE_BATCH
from jdbcstore.util.futures import StoreFuture


class JournaledMessageStore:
    """See :class:`jdbcstore.abc.MessageStore`."""

    def __init__(self, parts: Parts, behind: CheckpointedDestination) -> None:
        self._parts = parts
        self._behind = behind
        self._destination = behind.destination
        self._container = behind.destination.qualified_name
        self._lanes = PRIORITIES if behind.prioritized else 1
        self._source = Source(parts.overlay, self._container, self._lanes)

    @property
    def destination(self) -> Destination:
        return self._destination

    @property
    def prioritized(self) -> bool:
        return self._behind.prioritized

    def add_message(self, message: Message) -> MessageReference:
        return self._parts.writer.add(self._behind.encode(message))

    def add_message_async(self, message: Message) -> StoreFuture[MessageReference]:
        return self._parts.writer.add_async(self._behind.encode(message))

    def add_messages(self, messages: Iterable[Message]) -> list[MessageReference]:
        unit = Unit(Writes(adds=[self._behind.encode(message) for message in messages]), everything)
        references: list[MessageReference] = self._parts.writer.execute(unit)
        return references

    def encode(self, message: Message) -> EncodedMessage:
        """The message's row, checked; for the writers of this package."""
        return self._behind.encode(message)

    def acknowledge(self, *messages: Reference) -> None:
        self._parts.writer.remove(self._container, self._resolved(messages))

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        return self._parts.writer.remove_async(self._container, self._resolved(messages))

    def remove_in(self, writes: Writes, messages: Sequence[Reference]) -> None:
        """Have messages removed; for the writers of this package."""
        sequences = self._resolved(messages)
        if sequences:
            writes.removes.append((self._container, sequences))

    def _resolved(self, messages: Sequence[Reference]) -> list[int]:
        return self._decided([sequence for message in messages for sequence, _ in self.resolve(message)])

    def _decided(self, sequences: list[int]) -> list[int]:
        """Those that no durable subscription has in doubt."""
        return sequences

    def update_message(self, message: Message) -> None:
        self._parts.writer.execute(Unit(Writes(updates=[self.updated(message)]), nothing))

    def updated(self, message: Message) -> tuple[int, EncodedMessage]:
        """The sequence of a stored message and its new row; for the writers of this package."""
        try:
            stored: Message | CorruptMessage = self._find(name_of(message))
        except CorruptMessage as error:
            stored = error
        if message.message_id is None:
            if isinstance(stored, CorruptMessage):
                raise stored
            message = message.replace(message_id=stored.message_id)
        return stored.sequence or 0, self._behind.encode(message)

    def get_message(self, message: MessageId | int) -> Message:
        return self._find(message)

    def _find(self, name: MessageId | int) -> Message:
        sequences = [name] if isinstance(name, int) else [found for found, _ in self.resolve(name)]
        overlay = self._parts.overlay
        self._parts.writer.check_open()
        for sequence in sorted(sequences):
            with overlay.lock:
                oldest = overlay.oldest
                if overlay.is_gone(self._container, sequence, oldest):
                    continue
                found = overlay.message(self._container, sequence, oldest)
            return self._behind.get_message(sequence) if found is None else decode(found, sequence)
        raise message_not_found(name, self._destination)

    def resolve(self, message: Reference, *, with_priority: bool = False) -> list[tuple[int, int]]:
        """(sequence, priority) of every message that is meant; the priority is 0 unless asked for."""
        overlay, container, name = self._parts.overlay, self._container, name_of(message)
        if not isinstance(name, int):
            return self._named(name, with_priority=with_priority)
        self._parts.writer.check_open()
        with overlay.lock:
            if not 0 <= name <= overlay.last_sequence:
                return []
            for layer in overlay.oldest.chain():
                added = layer.adds.get(name)
                if added is not None:
                    return [(name, added.priority)] if added.container == container else []
        return self._behind.resolve(message, with_priority=with_priority)

    def _named(self, name: MessageId, *, with_priority: bool) -> list[tuple[int, int]]:
        if name.producer_id is None:
            return []
        overlay = self._parts.overlay
        with overlay.lock:
            oldest = overlay.oldest
            found = overlay.find(self._container, (str(name.producer_id), name.producer_sequence))
        # A name may have come twice: the layers are asked first, for messages only move from here to there.
        behind = dict(self._behind.resolve(name, with_priority=with_priority))
        with overlay.lock:
            for sequence in found:
                message = overlay.message(self._container, sequence, oldest)
                behind[sequence] = message.priority if message else 0
            gone = [number for number in behind if overlay.is_gone(self._container, number, oldest)]
        for number in gone:
            del behind[number]
        return sorted(behind.items())

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        return read_page(self._source, self._behind.recover, limit, after)

    def recover_expired(self, limit: int = 500, after: Cursor | None = None) -> Page:
        source = Source(self._parts.overlay, self._container, 1, expired_ms=self._parts.clock.now_ms())
        return read_page(source, self._behind.recover_expired, limit, after)

    def message_count(self) -> int:
        return count_messages(self._parts, self._source, self._behind)

    def statistics(self) -> Statistics:
        return summarize(self._parts, self._source, self._behind)

    def remove_all_messages(self, progress: Progress | None = None) -> int:
        return self._remove_found(self.recover, progress)

    def remove_expired(self, progress: Progress | None = None) -> int:
        return self._remove_found(self.recover_expired, progress)

    def _remove_found(self, find: Callable[[int, Cursor | None], Page], progress: Progress | None) -> int:
        """Remove what is found up to where the store is now, each page as one unit."""
        with self._parts.overlay.lock:
            last = self._parts.overlay.last_sequence
        total, after, at_end = 0, None, False
        while not at_end:
            page = find(REMOVE_BATCH, after)
            found = [one.sequence for one in (*page, *page.corrupt) if one.sequence is not None]
            sequences = self._decided([sequence for sequence in found if sequence <= last])
            if sequences:
                self._parts.writer.remove(self._container, sequences)
                total += len(sequences)
                if progress is not None:
                    progress(len(sequences))
            after, at_end = page.cursor, page.at_end
        return total
