"""The commit of batches without the messages that were stored before, with ``enable_audit``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import compress
from typing import Any, TypeVar

from jdbcstore.abc import MessageReference
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import StoreError
from jdbcstore.stores.jdbc.writer.committer import Begun, Committer, is_undone
from jdbcstore.stores.jdbc.writer.units import Call, WriteUnit
from jdbcstore.stores.shared.audit import DuplicateAudit, with_duplicates
from jdbcstore.stores.shared.encoding import Name
from jdbcstore.stores.shared.rows import EncodedMessage

T = TypeVar("T")


def note_stored(session: DatabaseSession, audit: DuplicateAudit) -> None:
    """Let an audit see the messages stored last."""
    recent = session.fetch(session.statements.find_all_message_ids, limit=session.config.audit_recovery_depth)
    for producer, sequence in reversed(recent):
        if producer is not None and sequence is not None:
            audit.is_duplicate(producer, sequence)


class AuditedCommitter(Committer):
    """The committer with ``enable_audit``: omits duplicates, whose references have the sequence -1.

    A message is judged in its turn to be written, after the outcome of everything queued before it is known:
    only committed messages count as seen. If the outcome of a commit is unknown, the table is read before
    anything else is written, because that might remove the message again.
    """

    def __init__(self, session: DatabaseSession, audit: DuplicateAudit, **parts: Any) -> None:
        super().__init__(session, **parts)
        self._audit = audit
        self._doubtful: set[Name] = set()
        """Messages whose commit or removal has an unknown outcome."""

    @property
    def sends(self) -> bool:
        return False  # duplicates are looked for first

    sends_ahead = sends

    def write(self, units: list[WriteUnit], begun: Begun | None = None) -> list[list[MessageReference]]:  # noqa: ARG002
        self._find_doubtful()
        names: set[Name] = set()
        fresh = [self._fresh(unit.adds, names) for unit in units]
        pairs = [*zip(units, fresh, strict=True)]
        written = self._commit(
            names, lambda: super(AuditedCommitter, self).write([_only(*pair) for pair in pairs])
        )
        return [
            with_duplicates(unit.adds, new, references)
            for (unit, new), references in zip(pairs, written, strict=True)
        ]

    def call(self, call: Call) -> Any:
        self._find_doubtful()
        names: set[Name] = set()
        if call.adding is not None:
            call.adding.adds = _only(call.adding, self._fresh(call.adding.adds, names)).adds
        try:
            result = self._commit(names, lambda: super(AuditedCommitter, self).call(call))
        except BaseException:
            self._doubtful.update(call.removed())
            raise
        for name in call.removed():
            self._audit.forget(*name)
        return result

    def _fresh(self, adds: list[EncodedMessage], names: set[Name]) -> list[bool]:
        """Return which of them are not duplicates, also not of ``names``, to which they are added."""
        fresh = []
        for add in adds:
            name = (add.producer, add.producer_sequence)
            is_new = name not in names and not self._audit.has_seen(*name)
            if is_new:
                names.add(name)
            fresh.append(is_new)
        return fresh

    def _commit(self, names: set[Name], commit: Callable[[], T]) -> T:
        """Commit messages of these names; they then count as seen, as in doubt, or as not stored."""
        self._doubtful |= names
        try:
            result = commit()
        except StoreError as error:
            if is_undone(error):
                self._doubtful -= names
            raise
        for name in names:
            self._audit.is_duplicate(*name)
        self._doubtful -= names
        return result

    def _find_doubtful(self) -> None:
        """Read from the table which doubtful messages are stored.

        :raises StoreError: it cannot be read; nothing was written
        """
        find = self.session.statements.find_ids_by_name
        for name in [*self._doubtful]:
            producer, sequence = name
            if self.find(find, msgid_prod=producer, msgid_seq=sequence):
                self._audit.is_duplicate(*name)
            else:
                self._audit.forget(*name)
            self._doubtful.discard(name)


def _only(unit: WriteUnit, fresh: list[bool]) -> WriteUnit:
    """Return the unit with these of its messages."""
    return unit if all(fresh) else replace(unit, adds=[*compress(unit.adds, fresh)])
