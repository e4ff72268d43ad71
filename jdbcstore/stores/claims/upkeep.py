"""Upkeep of one queue by the processes that claim: expired messages, and messages in no lane."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jdbcstore.database.connection import Connection, RemovalReason
from jdbcstore.database.statements.builder import Statement
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.stores.claims.database import ClaimDatabase
from jdbcstore.stores.claims.of_ids import execute, fetch

_EXPIRY = 10.0
"""Seconds between two removals of expired messages, which are not claimable, and searches for strays."""
_PATIENCE = 100
"""The time until the next such look, as a multiple of the last one's duration; for each process."""
_PAGE = 256
_PARTS = 1000
"""Places of a period, of which the number of a session chooses its first."""


class Upkeep:
    """Removes unclaimed messages, and finds messages that no claim would find.

    ``remove`` removes locked messages; ``file`` files messages under their keys.
    """

    def __init__(
        self,
        database: ClaimDatabase,
        container: str,
        remove: Callable[[Connection, list[int], RemovalReason], None],
        file: Callable[[Connection], None],
    ) -> None:
        self._database = database
        self._sql = database.session.of(ClaimStatements)
        self._container = container
        self._remove = remove
        self._file = file
        self._expiry_due = self._strays_due = float("-inf")
        self._is_new = True
        self.processes = 0
        """The processes that claimed at the last upkeep."""

    def keep_up(self) -> None:
        """Remove expired messages and search for strays, if it is time to."""
        now = self._database.clock.monotonic()
        if now < min(self._expiry_due, self._strays_due):
            return
        # Each process does it: of many, none so often.
        self.processes = processes = len(self._database.fetch(self._sql.find_sessions))
        if now >= self._expiry_due:
            if self._is_new and processes > 1:
                # It reads the whole queue, and of many that begin at once none needs to do it now.
                part = self._database.lease.number % _PARTS / _PARTS
                self._expiry_due = now + _EXPIRY * processes * part
            else:
                self._expiry_due = self._after(self._remove_expired, processes)
            self._is_new = False
        if now >= self._strays_due:
            self._strays_due = self._after(self._bring_in, processes)

    def _after(self, work: Callable[[], object], processes: int) -> float:
        """Do the work; return when it is due again."""
        clock = self._database.clock
        begun = clock.monotonic()
        work()
        ended = clock.monotonic()
        return ended + max(_EXPIRY, (ended - begun) * _PATIENCE * processes)

    def _remove_expired(self) -> None:
        # By the database's clock: a process whose own is ahead must not remove what others may still get.
        self.remove(self._sql.find_expired, RemovalReason.EXPIRED)

    def _bring_in(self) -> None:
        """Clamp priorities to 0-9, and assign missing priorities and keys."""
        while rows := self._database.fetch(self._sql.find_strays, container=self._container, limit=_PAGE):
            self._database.run(partial(execute, of_ids=self._sql.bring_in, ids=[row[0] for row in rows]))
        self._database.run(self._file)

    def remove(self, find: Statement, outcome: RemovalReason) -> int:
        """Remove the unclaimed messages that a statement finds; return their number."""
        removed, after = 0, 0
        while True:
            page = {"container": self._container, "after": after, "limit": _PAGE}
            ids = [row[0] for row in self._database.fetch(find, **page)]
            if not ids:
                return removed
            removed += self._database.run(partial(self._remove_free, ids=ids, outcome=outcome))
            after = ids[-1]

    def _remove_free(self, connection: Connection, ids: list[int], outcome: RemovalReason) -> int:
        with connection.transaction():
            free = [row[0] for row in fetch(connection, self._sql.lock_unclaimed, ids)]
            if free and self._database.session.adapter.locks_rows:
                # Looked at again now that they are locked.
                free = [row[0] for row in fetch(connection, self._sql.lock_unclaimed, free)]
            if free:
                self._remove(connection, free, outcome)
        return len(free)
