"""References to message bodies kept in the journal, and the move of bodies to the backing store."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import CorruptJournal, CorruptMessage
from jdbcstore.message.openwire.reference import read_reference
from jdbcstore.stores.journaled.writer import JournalWriter
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore, JournalMark, Referring

log = logging.getLogger(__name__)

_PAGE = 500


class Bodies:
    """Resolves and moves references to messages in the journal's files. Thread-safe."""

    def __init__(self, store: CheckpointedStore, writer: JournalWriter, config: JournalConfig) -> None:
        self._store = store
        self._writer = writer
        self._batch_size = config.max_checkpoint_message_add_size
        self._files = config.journal_log_files
        self.are_used = config.use_quick_journal
        """Whether the backing store gets references."""

    def find(self, reference: bytes, sequence: int, container: str) -> bytes:
        """Return the body that a reference names; see :data:`jdbcstore.stores.shared.checkpoint.FindBody`."""
        place, journal = read_reference(reference, sequence, container), self._writer.journal.log
        try:
            if place.journal != journal.journal:
                raise ValueError(f"the open journal is number {journal.journal}")
            return place.complete(journal.read(place.segment, place.offset, place.length), sequence)
        except (CorruptJournal, ValueError) as error:
            raise CorruptMessage(
                f"it is in segment {place.segment} of the journal number {place.journal} at {place.offset}:"
                f" {error}",
                blob=reference,
                sequence=sequence,
                container=container,
            ) from error

    def referring(self, mark: JournalMark, up_to: int) -> Iterator[Referring]:
        """Yield the references in the backing store, up to a sequence."""
        after = mark.referred - 1
        while mark.referred and (page := self._store.referring(after, up_to, _PAGE)):
            yield from page
            after = page[-1].sequence

    def sizes(self, mark: JournalMark, container: str) -> dict[int, int]:
        """Return the sizes of a destination's messages that are references in the backing store."""
        lengths: dict[int, int] = {}
        for sequence, name, reference in self.referring(mark, mark.written):
            if name == container:
                with contextlib.suppress(CorruptMessage):
                    lengths[sequence] = read_reference(reference).length
        return lengths

    def due(self, mark: JournalMark, *, everything: bool) -> Iterator[tuple[int, int]]:
        """Yield steps: the last sequence to be moved, and the last record that is then obsolete."""
        unsaved = self._store.unsaved()
        if unsaved is not None:
            yield from ((-1, number) for number in self._without(unsaved, mark))
            return
        if everything or not self.are_used or not mark.referred:
            yield mark.written, mark.applied
            return
        spans = self._writer.journal.log.spans()
        for index, span in enumerate(spans[: -self._files]):
            if span.last_number > mark.applied:
                return
            later = [other.first_sequence for other in spans[index + 1 :] if other.first_sequence]
            yield min([mark.written, *(first - 1 for first in later)]), span.last_number

    def _without(self, unsaved: int, mark: JournalMark) -> Iterator[int]:
        """Last records of files that hold nothing that ends with the process."""
        spans = self._writer.journal.log.spans()
        for index, span in enumerate(spans[:-1]):
            later = [other.first_sequence for other in spans[index + 1 :] if other.first_sequence]
            if span.last_number > mark.applied or not later or min(later) > unsaved:
                return
            yield span.last_number

    def moves(self, mark: JournalMark, up_to: int) -> Iterator[Changes]:
        """Transactions that replace all references up to a sequence by bodies.

        A damaged body is logged, and its reference stays. The last mark may be written later.
        """
        bodies: list[tuple[int, bytes]] = []
        size = damaged = 0
        for sequence, container, reference in self.referring(mark, up_to):
            try:
                body = self.find(reference, sequence, container)
            except CorruptMessage as error:
                log.error("a message is lost with a damaged part of the journal: %s", error)
                damaged += 1
                continue
            bodies.append((sequence, body))
            size += len(body)
            if size >= self._batch_size:
                yield Changes(replace(mark, referred=sequence + 1), bodies=bodies)
                bodies, size = [], 0
        if bodies or damaged:
            yield Changes(self.moved(mark, up_to), bodies=bodies)

    @staticmethod
    def moved(mark: JournalMark, up_to: int) -> JournalMark:
        """Return the mark after :meth:`moves`."""
        if up_to >= mark.written:
            return replace(mark, referred=0)
        return replace(mark, referred=max(mark.referred, up_to + 1))

    def check(self, mark: JournalMark) -> None:
        """Raise :class:`CorruptJournal` if a file to which the backing store refers is missing."""
        oldest = self._writer.journal.log.spans()[0]
        for sequence, container, reference in self.referring(mark, oldest.first_sequence - 1):
            try:
                place = read_reference(reference, sequence, container)
            except CorruptMessage:
                continue  # reported to its readers
            raise CorruptJournal(
                f"its file is missing, and the message with the ID {sequence} of {container} is in it",
                segment=place.segment,
                offset=place.offset,
            )
