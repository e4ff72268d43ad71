"""Journaled and filtered stores whose lock and whose databases can be checked.

Apart from their opening, because what opens a database only need not import them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from jdbcstore.abc import MasterAddress, PausedQueue, RemovalRecord, Streamed
from jdbcstore.lockers import Fence
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.stores.filtered import FilteredStore, Route
from jdbcstore.stores.io_exceptions import GuardedStore, Tenure
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.util.checkup import Checkup
from jdbcstore.util.clock import Clock
from jdbcstore.util.stream_health import StreamHealth


class JournaledJdbcStore(JournaledStore):
    """A journal in front of a database, which can be checked for both."""

    @property
    def database(self) -> JdbcStore:
        """The backing store."""
        return cast(JdbcStore, self._store)

    @property
    def fence(self) -> Fence | None:
        """The fence of the mastership; None without a locker."""
        return self.database.fence

    def announce(self, addresses: Iterable[tuple[str, str]]) -> None:
        """As :meth:`jdbcstore.abc.Announcing.announce`, in the database."""
        self.database.announce(addresses)

    def announced(self) -> list[MasterAddress]:
        """As :meth:`jdbcstore.abc.Announcing.announced`, from the database."""
        return self.database.announced()

    def pause_queue(self, queue: Destination, user: str) -> None:
        """As :meth:`jdbcstore.abc.Pausing.pause_queue`, in the database."""
        self.database.pause_queue(queue, user)

    def resume_queue(self, queue: Destination) -> None:
        """As :meth:`jdbcstore.abc.Pausing.resume_queue`."""
        self.database.resume_queue(queue)

    def paused_queues(self) -> list[PausedQueue]:
        """As :meth:`jdbcstore.abc.Pausing.paused_queues`, from the database."""
        return self.database.paused_queues()

    def examine(self) -> Checkup:
        """As :meth:`jdbcstore.abc.Examined.examine`."""
        return self.database.examine()

    def removals(self, message: MessageId, since_ms: int | None = None) -> list[RemovalRecord]:
        """As :meth:`jdbcstore.abc.Recorded.removals`, from the database."""
        return self.database.removals(message, since_ms)

    def check(self) -> None:
        """Check that the journal and the database can be written.

        :raises JournalFailed: the journal cannot be written any more
        :raises StoreUnavailable: the database, or the servers of the journal's stream, do not answer
        :raises LockLost: another process is the master
        :raises StoreError: the database answers, but refuses checkpoints
        """
        self._writer.check()
        self._journal.reach()
        self._checkpointer.check()
        self.database.check()


class GuardedFilteredStore(FilteredStore):
    """A filtered store that can check whether its stores can be written.

    ``fence`` covers the locks of all stores, also of those opened later; None without a locker.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        fence: Tenure | None = None,
        clock: Clock | None = None,
        read_only: bool = False,
    ) -> None:
        super().__init__(routes, clock=clock, read_only=read_only)
        self.fence = fence

    def streams(self) -> list[StreamHealth]:
        """As :meth:`jdbcstore.abc.Streamed.streams`, of all stores."""
        stores = [store for store in self.routes.stores if isinstance(store, Streamed)]
        return [health for store in stores for health in store.streams()]

    def check(self) -> None:
        """Check that each store can be written; :class:`StoreError` if one cannot."""
        for store in self.routes.stores:
            if isinstance(store, GuardedStore):
                store.check()
