"""Stores that report to the I/O exception handler whether they can be written to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from jdbcstore.abc import Progress
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import LockLost
from jdbcstore.lockers import Fence
from jdbcstore.lockers.io_exceptions import GuardedStore, Tenure
from jdbcstore.stores.filtered import FilteredStore, Route
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.util.clock import Clock


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


class Tenancies:
    """Being the master of several stores: it ends with the first that is lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._each: list[Tenure] = []
        self._listeners: list[Callable[[LockLost], None]] = []

    def add(self, one: Tenure) -> None:
        """One more store is open."""
        with self._lock:
            self._each.append(one)
            listeners = [*self._listeners]
        for listener in listeners:
            one.on_lost(listener)

    @property
    def lost(self) -> LockLost | None:
        with self._lock:
            return next((one.lost for one in self._each if one.lost is not None), None)

    def on_lost(self, listener: Callable[[LockLost], None]) -> None:
        with self._lock:
            self._listeners.append(listener)
            each = [*self._each]
        for one in each:
            one.on_lost(listener)


class GuardedFilteredStore(FilteredStore):
    """A filtered store that says of its stores whether they can be written to.

    ``fence`` has the locks of all of them, also of those that are opened later; None without a locker.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        fence: Tenancies | None,
        *,
        clock: Clock | None = None,
        read_only: bool = False,
    ) -> None:
        self.fence = fence
        super().__init__(routes, clock=clock, read_only=read_only)

    def check(self) -> None:
        """Make sure that each store can write.

        :raises StoreError: one cannot
        """
        for store in self.routes.stores:
            if isinstance(store, GuardedStore):
                store.check()
