"""Opening a journal in front of a store: whether the two belong together, and the replay of its records.

Each knows the other. The store has an identity, chosen at random when a journal is first put in front of it,
and each file of the journal names it. The store records the journal's number and how far it was applied, also
of journals that were detached. To both, a database that was copied, deleted or restored is another one, or an
older one.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from dataclasses import replace

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, CorruptJournal, CorruptMessage, JournalInUse, JournalPending
from jdbcstore.journal.abc import Contents
from jdbcstore.journal.inspection import BackingState
from jdbcstore.journal.logs import contents
from jdbcstore.message.openwire.reference import read_reference
from jdbcstore.stores.journaled.records import (
    decode_record,
)
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore, JournalMark
from jdbcstore.stores.shared.checks import MAX_SEQUENCE, sequences_used_up

log = logging.getLogger(__name__)

_NEW = JournalMark(0, 0, 0)
"""The mark of a store that never had a journal."""
_OF_A_PROCESS = 1
"""The identity of a store that ends with its process: the journal alone has everything."""


def known_of(store: CheckpointedStore, journal: int) -> BackingState | None:
    """Return how far the store has applied its pending journal, or else the journal with this number."""
    mark = store.journal_mark()
    if mark is None:
        return None
    if mark.journal:
        first = store.referring(mark.referred - 1, mark.written, 1) if mark.referred else []
        segment = 0
        if first:
            with contextlib.suppress(CorruptMessage):
                segment = read_reference(first[0].reference).segment
        return BackingState(mark.journal, mark.applied, mark.store, segment)
    left = store.journal_left(journal)
    return None if left is None else BackingState(journal, left, mark.store)


def check_opens(config: JournalConfig, store: CheckpointedStore | None) -> None:
    """Check what opening would, and change nothing; without the backing store, only the files.

    :raises CorruptJournal: as opening would
    :raises JournalPending: as opening would
    :raises ConfigurationError: as opening would
    """
    config = replace(config, ignore_missing_journalfiles=False)
    binding = None if store is None else JournalBinding(store, config)
    if binding:
        binding.read_mark()  # first: the files may grow meanwhile
    with contents(config) as journal:
        after = binding.check(journal) if binding else journal.first_number - 1
        for record in journal.records(after):
            decode_record(record)


def has_more(config: JournalConfig, store: CheckpointedStore) -> bool:
    """Return whether a directory has a journal with records that the store does not have.

    :raises CorruptJournal: it is damaged
    :raises ConfigurationError: it belongs to another store
    """
    binding = JournalBinding(store, config)
    binding.read_mark()
    with contents(config) as log:
        return next(log.records(binding.check(log)), None) is not None


class JournalBinding:
    """The check, while a journal is opened and before it is changed, that it and the store belong together.

    :raises StoreError: the backing store does not answer
    """

    def __init__(self, store: CheckpointedStore, config: JournalConfig) -> None:
        self._store = store
        self._config = config
        self.mark = _NEW
        self.last_sequence = 0
        self.after = 0
        """The last record that the store has; later ones are replayed."""
        self._chosen = secrets.randbits(62) | 1 << 62
        """The identity that the store gets if it has none."""

    @property
    def was_new(self) -> bool:
        """Whether the store never had a journal."""
        return self.mark == _NEW

    def bind(self, contents: Contents) -> None:
        """Note from where a journal that another process writes is replayed; see :meth:`check`."""
        self.after = self.check(contents)

    def read_mark(self) -> None:
        """Read the store's offset."""
        self.mark = self._store.journal_mark() or _NEW
        self.last_sequence = self._store.last_sequence()

    def accept(self, contents: Contents) -> tuple[int, int]:
        """Return the store's identity, for the headers of the journal, and its next sequence.

        A store that has no identity yet gets one.

        :raises CorruptJournal: the journal ends before the store's offset, or a needed record is
        missing
        :raises JournalInUse: another process has appended to it meanwhile
        :raises JournalPending: another journal has records that the store does not have
        :raises ConfigurationError: the journal belongs to another store
        """
        try:
            return self._accepted(contents)
        except (CorruptJournal, JournalPending) as error:
            if contents.is_current():
                raise
            raise JournalInUse(self._config.place) from error

    def _accepted(self, contents: Contents) -> tuple[int, int]:
        mark = self._store.journal_mark()
        if mark is None or mark.journal in (0, contents.journal) or self._config.ignore_missing_journalfiles:
            if self._config.stream is not None:
                self._claim(contents)
            self._store.begin_journal()  # else another journal may be open, and this one is refused
        self.read_mark()
        if self.last_sequence >= MAX_SEQUENCE:
            raise sequences_used_up(self.last_sequence)
        return self._identity(contents), self.last_sequence + 1

    def _claim(self, contents: Contents) -> None:
        """Claim a journal, which another process may be writing, before its writes to the store are ended.

        A refusal, by the check or by the log, leaves everything to that process.
        """
        self.read_mark()
        if self._store.unsaved() is None:
            if contents.store not in (0, self.mark.store):
                if self._config.replicated and self.was_new:
                    raise JournalInUse(self._config.place)  # begun by another since this one looked for it
                raise self.foreign(contents)
            if not self._config.ignore_missing_journalfiles:
                self._after(contents)
            # Otherwise another store would take the stream for a new one, until there is a record. But
            # brokers that follow take the stream only together with its first record.
            contents.claim(0 if self._config.replicated else self.mark.store or self._chosen)

    def _identity(self, contents: Contents) -> int:
        if self._store.unsaved() is not None and self.was_new:
            if contents.store not in (0, _OF_A_PROCESS):
                raise self.foreign(contents)
            self.after = contents.first_number - 1
            return _OF_A_PROCESS
        if contents.store not in (0, self.mark.store):
            raise self.foreign(contents)
        self.after = self._after(contents)
        if not self.mark.store:
            self._apply(replace(self.mark, store=self._chosen))
        return self.mark.store

    def check(self, contents: Contents) -> int:
        """As :meth:`accept`, without changing anything; returns :attr:`after`. No file may be missing."""
        if contents.store not in (0, self.mark.store):
            raise self.foreign(contents)
        return self._after(contents)

    def _after(self, contents: Contents) -> int:
        mark, pending = self.mark, self.mark.journal
        if pending and pending == contents.journal:
            return self._checked(contents, mark.applied)
        if pending:
            if not self._config.ignore_missing_journalfiles:
                raise JournalPending(
                    pending,
                    self._store.place,
                    directory=self._config.place,
                    in_stream=self._config.stream is not None,
                )
            self._apply(replace(mark, journal=0, referred=0))
        if not contents.journal:
            return 0
        left = self._store.journal_left(contents.journal)
        if left is None and not contents.store:
            return self._adopted(contents)
        after = self._checked(contents, left or 0)
        first = next(contents.records(after, ignore_missing=self._config.ignore_missing_journalfiles), None)
        if first is None:
            return contents.last_number
        if first.sequence <= self.last_sequence:
            raise ConfigurationError(
                f"{self._store.place} was restored from before record {first.number} of the journal in"
                f" {self._config.place}, and was written to since: the two do not match any more."
                f" Restore the database as it was with this journal, or {self._advice}",
                option=self._option,
            )
        return after

    def _checked(self, contents: Contents, applied: int) -> int:
        """Return ``applied``, unless the journal ends before: new records would be taken for applied ones."""
        if contents.last_number < applied:
            segment, offset = contents.end
            which = "it is an older copy"
            if self._config.stream is None:
                which = (
                    "the files are an older copy, which a repair notices only with the configuration that"
                    " names both"
                )
            raise CorruptJournal(
                f"it ends with record {contents.last_number}, and {self._store.place} has applied it up to"
                f" record {applied}: the end is lost, or {which}",
                segment=segment,
                offset=offset,
                in_stream=self._config.stream is not None,
            )
        return applied

    def _adopted(self, contents: Contents) -> int:
        """As :meth:`_after`, for a journal of an earlier version, which does not name its store."""
        applied = self.mark.applied
        if not self.mark.store and applied and contents.last_number - applied in (0, 1):
            # It belonged to this store when that was last closed; its last record marks the clean shutdown.
            first = next(contents.records(applied), None)
        else:
            first = next(contents.records(contents.first_number - 1), None)
        if first is not None:
            raise self.foreign(contents)
        return contents.last_number

    def adopt(self, contents: Contents) -> None:
        """Give the store, which is new, the identity that a journal names."""
        self._apply(JournalMark(0, 0, 0, store=contents.store))

    def foreign(self, contents: Contents) -> ConfigurationError:
        """Return the error for a journal of another store."""
        which = "which does not know it."
        if self.was_new and not self.last_sequence:
            which = "which is new: was the database deleted, or is the URL another one?"
        return ConfigurationError(
            f"the journal in {self._config.place} (number {contents.journal}) belongs to another store than"
            f" {self._store.place}, {which} Open it with its own database, or restore that; to start over,"
            f" {self._advice}",
            option=self._option,
        )

    @property
    def _option(self) -> str:
        return "directory" if self._config.stream is None else "stream_name"

    @property
    def _advice(self) -> str:
        """Return what to do to continue without this journal."""
        if self._config.stream is None:
            return (
                "name another directory, or move the files away; jdbcstore replay delivers the messages in"
                " its files"
            )
        return "name another stream_name; jdbcstore journal dump prints the content of this one"

    def _apply(self, mark: JournalMark) -> None:
        self._store.apply(Changes(mark))
        self.mark = mark
