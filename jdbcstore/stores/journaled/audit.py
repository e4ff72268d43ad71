"""The duplicate audit of a journaled store, which leaves messages out that are stored already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from jdbcstore.journal import Entry
from jdbcstore.stores.journaled.operations import COMMIT, PREPARE, ROLLBACK
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.stores.journaled.units import Unit
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.encoding import EncodedMessage, Name


class JournalAudit:
    """Decides whether a message is a duplicate when it is its turn to be written; only what is durable is
    seen.

    A message that is sent again while its first copy is in flight is thus stored itself if that copy is
    cancelled or refused. What is prepared is seen until it is rolled back. For the thread that writes or
    replays the journal, which is one at a time.
    """

    def __init__(self, audit: DuplicateAudit, overlay: Overlay) -> None:
        self._audit = audit
        self._overlay = overlay

    def review(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries without the messages that were seen, or that an earlier one of them has."""
        decided: dict[Name, bool] = {}
        return [self._reviewed(unit, decided) for unit in cast("Sequence[Unit]", entries)]

    def _reviewed(self, unit: Unit, decided: dict[Name, bool]) -> Unit:
        """``decided``: whether a message will have been seen once the entries before are written."""
        names = [(add.producer, add.producer_sequence) for add in unit.adds]
        if unit.kind == ROLLBACK:
            decided.update(dict.fromkeys(names, False))
        # What is committed, or prepared once more for a checkpoint, was seen when it was prepared.
        if unit.kind in (COMMIT, ROLLBACK) or (unit.kind == PREPARE and unit.xid in self._overlay.prepared):
            return unit
        is_new = []
        for name in names:
            seen = decided.get(name)
            is_new.append(not (self._audit.has_seen(*name) if seen is None else seen))
            decided[name] = True
        return unit if all(is_new) else unit.without_duplicates(is_new)

    def written(self, kind: int, messages: Iterable[EncodedMessage]) -> None:
        """A record of this kind, with these messages, is durable."""
        note = self._audit.forget if kind == ROLLBACK else self._audit.is_duplicate
        for message in messages:
            note(message.producer, message.producer_sequence)
