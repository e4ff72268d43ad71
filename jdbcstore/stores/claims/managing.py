"""The management of shared queues, in a process that does not claim messages itself."""

from __future__ import annotations

from collections.abc import Callable

from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.errors import ConfigurationError, MessageNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.stores.claims.claims import Claims
from jdbcstore.stores.claims.numbers import read_held, read_shared
from jdbcstore.util.shared_queues import HeldMessage, SharedNumbers


class SharedManagement:
    """The shared queues of a database. Thread-safe.

    :param session: reads
    :param opened: opens claims for as long as one operation takes; None if nothing can be done
    """

    def __init__(self, session: DatabaseSession, opened: Callable[[], Claims] | None) -> None:
        self._session = session
        self._opened = opened

    @property
    def may_change(self) -> bool:
        """Whether operations can be done."""
        return self._opened is not None

    def numbers(self, keyed: str | None = None) -> SharedNumbers:
        """Return the numbers of all queues and workers; with ``queue``, also of the keys of this queue.

        :raises StoreUnavailable: the database does not answer
        """
        return read_shared(self._session, keys=keyed or False)

    def measured(self) -> SharedNumbers:
        """Return the numbers of all queues, and of the keys that have settings of their own.

        :raises StoreUnavailable: the database does not answer
        """
        return read_shared(self._session, keys=True, only_set=True)

    def held(self, queue: Destination, limit: int) -> list[HeldMessage]:
        """Return the first messages of a queue that are claimed or delayed.

        :raises StoreUnavailable: the database does not answer
        """
        return read_held(self._session, queue, limit)

    def pause(self, queue: Destination, key: str | None = None) -> None:
        """Pause a queue, or one of its keys.

        :raises StoreError: as the constructor of :class:`Claims`, and :meth:`QueueFlow.pause`
        """
        with self._claims() as claims:
            flow = claims.queue(queue).flow
            flow.pause() if key is None else flow.pause_key(key)

    def resume(self, queue: Destination, key: str | None = None) -> None:
        """Resume a queue, or one of its keys.

        :raises StoreError: as there
        """
        with self._claims() as claims:
            flow = claims.queue(queue).flow
            flow.resume() if key is None else flow.resume_key(key)

    def limit(
        self,
        queue: Destination,
        key: str | None = None,
        *,
        claims: int | None = None,
        rate: float | None = None,
        burst: int | None = None,
        weight: int = 1,
    ) -> None:
        """Set all limits of a queue, or of one key with its weight; an omitted field is unlimited.

        :raises StoreError: as :meth:`pause`, and :meth:`QueueFlow.limit`
        """
        with self._claims() as opened:
            flow = opened.queue(queue).flow
            if key is None:
                flow.limit(claims=claims, rate=rate, burst=burst)
            else:
                flow.set_key(key, paused=None, claims=claims, weight=weight, rate=rate, burst=burst)

    def share(
        self,
        queue: Destination,
        keys: str | None = None,
        *,
        claims: int | None = None,
        rate: float | None = None,
        burst: int | None = None,
    ) -> None:
        """Set the use that a queue makes of keys, as :attr:`FlowSettings.keys` says it, and their limits.

        :raises ConfigurationError: there are limits of keys that are ignored
        :raises StoreError: as :meth:`pause`, and :meth:`QueueFlow.share`
        """
        if keys is None and (claims, rate, burst) != (None, None, None):
            raise ConfigurationError(
                "keys that are ignored have no limits: leave them empty, or share by keys"
            )
        with self._claims() as opened:
            flow = opened.queue(queue).flow
            if keys is None:
                flow.unshare()
            else:
                flow.share(in_order=keys == "in order", claims=claims, rate=rate, burst=burst)

    def release_worker(self, worker: str) -> int:
        """End the leases of a worker's processes; return their number.

        :raises MessageNotFound: there is none
        :raises StoreError: as the constructor of :class:`Claims`
        """
        with self._claims() as claims:
            return claims.database.lease.end_those_of(worker)

    def release_message(self, queue: Destination, sequence: int) -> None:
        """Release a claimed or delayed message; its worker has lost the claim.

        :raises MessageNotFound: it is neither
        :raises StoreError: as the constructor of :class:`Claims`
        """
        with self._claims() as claims:
            values = {"container": queue.qualified_name, "id_": sequence}
            sql = claims.database.session.of(ClaimStatements).release_claim
            if not claims.database.run(lambda connection: connection.change(sql, **values)):
                raise MessageNotFound(
                    f"message {sequence} of {queue} is neither claimed nor delayed any more"
                )
            claims.database.wakeups.wake(queue.qualified_name, returned=True)

    def purge(self, queue: Destination) -> int:
        """Remove all unclaimed messages of a queue; return their number.

        :raises StoreError: as the constructor of :class:`Claims`
        """
        with self._claims() as claims:
            return claims.queue(queue).purge()

    def _claims(self) -> Claims:
        if self._opened is None:
            raise AssertionError("nothing can be changed here")
        return self._opened()
