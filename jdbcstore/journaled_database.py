"""A journal in front of a database, as a broker's exception handler asks of its store."""

from __future__ import annotations

from jdbcstore.abc import Progress
from jdbcstore.clock import Clock
from jdbcstore.config.journal import JournalConfig
from jdbcstore.journaled import JournaledStore
from jdbcstore.lockers import Fence
from jdbcstore.store import JdbcStore


class JournaledJdbcStore(JournaledStore):
    """A journaled store that says of its database whether that can be written to."""

    def __init__(
        self,
        database: JdbcStore,
        config: JournalConfig,
        *,
        clock: Clock | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(database, config, clock=clock, progress=progress)
        self.database = database

    @property
    def fence(self) -> Fence | None:
        """What is known of being the master; None without a locker."""
        return self.database.fence

    def check(self) -> None:
        """Make sure that this store can write, to its journal and to its database.

        :raises JournalFailed: it cannot be written any more
        :raises StoreUnavailable: the database does not answer
        :raises LockLost: another is the master
        :raises StoreError: the database answers, and takes no checkpoint
        """
        self._writer.check()
        self._checkpointer.check()
        self.database.check()
