"""Whether a journal and the store behind it belong together, and from which record on the journal has more.

Each knows the other. The store has an identity, made by chance when first a journal is in front of it, and
each file of the journal says it. The store has the journal's number and how far it came, also of journals
that were left. A database that was copied, deleted or restored is another one to them, or an older one.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import replace
from pathlib import Path

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, CorruptJournal, CorruptMessage, JournalPending
from jdbcstore.journal import Known, Recovered, recover
from jdbcstore.message.openwire import read_reference
from jdbcstore.stores.journaled.operations import decode_record
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore, JournalMark

_OF_A_PROCESS = 1
"""In place of an identity: the store ends with its process, and the journal alone has everything."""


def known_of(store: CheckpointedStore, journal: int) -> Known | None:
    """What the store has of the journal that has what it has not, or else of the one with this number."""
    mark = store.journal_mark()
    if mark is None:
        return None
    if mark.journal:
        first = store.referring(mark.referred - 1, mark.written, 1) if mark.referred else []
        segment = 0
        if first:
            with contextlib.suppress(CorruptMessage):
                segment = read_reference(first[0].reference).segment
        return Known(mark.journal, mark.applied, mark.store, segment)
    left = store.journal_left(journal)
    return None if left is None else Known(journal, left, mark.store)


def check_opens(config: JournalConfig, store: CheckpointedStore | None) -> None:
    """Do what opening does, and change nothing. Without the store behind, only what can be told without it.

    :raises CorruptJournal: as opening would
    :raises JournalPending: as opening would
    :raises ConfigurationError: as opening would
    """
    config = replace(config, ignore_missing_journalfiles=False)
    belonging = None if store is None else Belonging(store, config)  # first: the files may grow meanwhile
    found = recover(Path(config.directory))
    after = belonging.check(found) if belonging else found.first_number - 1
    for record in found.records(after):
        decode_record(record)


def has_more(config: JournalConfig, store: CheckpointedStore) -> bool:
    """Whether the journal in a directory, if there is one, has what a store has not that waits for none.

    :raises CorruptJournal: it is damaged
    :raises ConfigurationError: it is another store's
    """
    directory = Path(config.directory)
    found = recover(directory) if directory.is_dir() else Recovered()
    return next(found.records(Belonging(store, config).check(found)), None) is not None


class Belonging:
    """Asked once, while the journal is opened and before anything of it is changed.

    :raises StoreError: the store behind does not answer
    """

    def __init__(self, store: CheckpointedStore, config: JournalConfig) -> None:
        self._store = store
        self._config = config
        self.mark = store.journal_mark() or JournalMark(0, 0, 0)
        """As it is in the store."""
        self.was_new = self.mark == JournalMark(0, 0, 0)
        """There never was a journal in front of the store."""
        self.last_sequence = store.last_sequence()
        """Of the store behind."""
        self.after = 0
        """The record behind which the journal has what the store has not."""

    def accept(self, found: Recovered) -> int:
        """The identity of the store, which the journal is to keep. The store may get one.

        :raises CorruptJournal: the journal ends before what the store has of it, or lacks what it has not
        :raises JournalPending: it is another journal that has what the store has not
        :raises ConfigurationError: the journal belongs to another store
        """
        if self._store.unsaved() is not None and self.was_new:
            if found.store not in (0, _OF_A_PROCESS):
                raise self._foreign(found)
            self.after = found.first_number - 1
            return _OF_A_PROCESS
        if found.store not in (0, self.mark.store):
            raise self._foreign(found)
        self.after = self._after(found)
        if not self.mark.store:
            self._apply(replace(self.mark, store=secrets.randbits(62) | 1 << 62))
        return self.mark.store

    def check(self, found: Recovered) -> int:
        """As :meth:`accept`, without changing anything; :attr:`after`. No file may be ignored."""
        if found.store not in (0, self.mark.store):
            raise self._foreign(found)
        return self._after(found)

    def _after(self, found: Recovered) -> int:
        mark, pending = self.mark, self.mark.journal
        if pending and pending == found.journal:
            return self._checked(found, mark.applied)
        if pending:
            if not self._config.ignore_missing_journalfiles:
                raise JournalPending(pending, self._store.place, directory=self._config.directory)
            self._apply(replace(mark, journal=0, referred=0))
        if not found.journal:
            return 0
        left = self._store.journal_left(found.journal)
        if left is None and not found.store:
            return self._adopted(found)
        after = self._checked(found, left or 0)
        first = next(found.records(after, ignore_missing=self._config.ignore_missing_journalfiles), None)
        if first is None:
            return found.last_number
        if first.sequence <= self.last_sequence:
            raise ConfigurationError(
                f"{self._store.place} was restored from before record {first.number} of the journal in"
                f" {self._config.directory}, and was written to since: the two do not fit together any more."
                f" Restore the database as it was with this journal, or name another directory; {_REPLAY}",
                option="directory",
            )
        return after

    def _checked(self, found: Recovered, applied: int) -> int:
        """What the store has is what the journal has had: new records must not be taken for it."""
        if found.last_number < applied:
            end = found.segments[-1]
            raise CorruptJournal(
                f"it ends with record {found.last_number}, and {self._store.place} has what it held up to"
                f" record {applied}: the end is lost, or the files are an older copy",
                segment=end.header.number,
                offset=end.end,
            )
        return applied

    def _adopted(self, found: Recovered) -> int:
        """The same of a journal that was never told whose it is: an earlier version made it."""
        applied = self.mark.applied
        if not self.mark.store and applied and found.last_number - applied in (0, 1):
            # It was in front of this store when that was last closed, and then came its end.
            first = next(found.records(applied), None)
        else:
            first = next(found.records(found.first_number - 1), None)
        if first is not None:
            raise self._foreign(found)
        return found.last_number

    def _foreign(self, found: Recovered) -> ConfigurationError:
        behind = "which was never told of it."
        if self.was_new and not self.last_sequence:
            behind = "which is new: was the database deleted, or has it another URL?"
        return ConfigurationError(
            f"the journal in {self._config.directory} (number {found.journal}) belongs to another store than"
            f" {self._store.place}, {behind} Open it with its own database, or restore that; to begin anew,"
            f" name another directory, or move the files away; {_REPLAY}",
            option="directory",
        )

    def _apply(self, mark: JournalMark) -> None:
        self._store.apply(Changes(mark))
        self.mark = mark


_REPLAY = "jdbcstore replay takes along messages that are in its files"
