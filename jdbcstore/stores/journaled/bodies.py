"""Messages that the store behind only refers to: where they are, and when they have to go there after all."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import CorruptJournal, CorruptMessage
from jdbcstore.message.openwire import read_reference
from jdbcstore.stores.journaled.writing import JournalWriter
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore, JournalMark, Referring

log = logging.getLogger(__name__)

_PAGE = 500


class Bodies:
    """What is in the files of the journal, and has to be kept there or moved. For any number of threads."""

    def __init__(self, store: CheckpointedStore, writer: JournalWriter, config: JournalConfig) -> None:
        self._store = store
        self._writer = writer
        self._batch_size = config.max_checkpoint_message_add_size
        self._files = config.journal_log_files
        self.are_used = config.use_quick_journal
        """Whether the store behind is to get references."""

    def find(self, reference: bytes, sequence: int, container: str) -> bytes:
        """As :data:`jdbcstore.stores.shared.checkpoint.FindBody` says."""
        found, journal = read_reference(reference, sequence, container), self._writer.journal
        try:
            if found.journal != journal.journal:
                raise ValueError(f"that is another one than the number {journal.journal}, which is open")
            return found.complete(journal.read(found.segment, found.offset, found.length), sequence)
        except (CorruptJournal, ValueError) as error:
            raise CorruptMessage(
                f"it is in segment {found.segment} of the journal number {found.journal} at {found.offset}:"
                f" {error}",
                blob=reference,
                sequence=sequence,
                container=container,
            ) from error

    def referring(self, mark: JournalMark, up_to: int) -> Iterator[Referring]:
        """What the store behind refers to, up to a sequence."""
        after = mark.referred - 1
        while mark.referred and (page := self._store.referring(after, up_to, _PAGE)):
            yield from page
            after = page[-1].sequence

    def sizes(self, mark: JournalMark, container: str) -> dict[int, int]:
        """The bytes of each message of a destination that the store behind refers to."""
        found: dict[int, int] = {}
        for sequence, name, reference in self.referring(mark, mark.written):
            if name == container:
                with contextlib.suppress(CorruptMessage):
                    found[sequence] = read_reference(reference).length
        return found

    def due(self, mark: JournalMark, *, everything: bool) -> Iterator[tuple[int, int]]:
        """The last sequence that has to be moved, and the last record that may go then, in steps."""
        unsaved = self._store.unsaved()
        if unsaved is not None:
            yield from ((-1, number) for number in self._without(unsaved, mark))
            return
        if everything or not self.are_used or not mark.referred:
            yield mark.written, mark.applied
            return
        spans = self._writer.journal.segments()
        for index, span in enumerate(spans[: -self._files]):
            if span.last_number > mark.applied:
                return
            later = [other.first_sequence for other in spans[index + 1 :] if other.first_sequence]
            yield min([mark.written, *(first - 1 for first in later)]), span.last_number

    def _without(self, unsaved: int, mark: JournalMark) -> Iterator[int]:
        """Last records of files that hold nothing that ends with the process."""
        spans = self._writer.journal.segments()
        for index, span in enumerate(spans[:-1]):
            later = [other.first_sequence for other in spans[index + 1 :] if other.first_sequence]
            if span.last_number > mark.applied or not later or min(later) > unsaved:
                return
            yield span.last_number

    def moves(self, mark: JournalMark, up_to: int) -> Iterator[Changes]:
        """Transactions after which the store behind refers to no message up to this sequence.

        What is damaged is logged and left as it is: its row says where it was. The last mark need not be
        written at once.
        """
        bodies: list[tuple[int, bytes]] = []
        size = damaged = 0
        for sequence, container, reference in self.referring(mark, up_to):
            try:
                body = self.find(reference, sequence, container)
            except CorruptMessage as error:
                log.error("a message is lost with a part of the journal: %s", error)
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
        """The mark after :meth:`moves`."""
        if up_to >= mark.written:
            return replace(mark, referred=0)
        return replace(mark, referred=max(mark.referred, up_to + 1))

    def check(self, mark: JournalMark) -> None:
        """
        :raises CorruptJournal: a file is gone that the store behind refers to
        """
        oldest = self._writer.journal.segments()[0]
        for sequence, container, reference in self.referring(mark, oldest.first_sequence - 1):
            try:
                found = read_reference(reference, sequence, container)
            except CorruptMessage:
                continue  # whoever reads it is told
            raise CorruptJournal(
                f"its file is missing, and the message with the ID {sequence} of {container} is in it",
                segment=found.segment,
                offset=found.offset,
            )
