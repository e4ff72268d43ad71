"""The claims of a process on a database, which its short-lived kombu connections share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from jdbcstore import Claims, Destination, StoreConfig
from jdbcstore.errors import ClaimLost, OutcomeUnknown, StoreError
from jdbcstore.plugins.opened import OpenOnce
from jdbcstore.stores.claims import Claim, ClaimQueue
from jdbcstore.stores.claims.routing import Routing
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

_RETRY = 0.5
"""Seconds between two attempts to settle claims after a failure of the database."""


class Acknowledger:
    """Removes messages in the background, with one statement for all waiting messages of a queue."""

    def __init__(self) -> None:
        self._pending: list[tuple[ClaimQueue, Claim]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._failing = False
        self._busy = False
        self._closed = False

    def acknowledge(self, queue: ClaimQueue, claim: Claim) -> None:
        """Remove a message soon; a lost claim is logged. Thread-safe."""
        with self._changed:
            self._pending.append((queue, claim))
            self._changed.notify_all()
            if self._thread is None:
                name = "jdbcstore-acknowledge"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        backoff = Backoff(5.0)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closed)
                pending, self._pending = self._pending, []
                self._busy = bool(pending)
            if not pending:
                return
            failed = self._remove(pending)
            with self._changed:
                self._pending = failed + self._pending
                self._failing, self._busy = bool(failed), False
                self._changed.notify_all()
                if not failed:
                    backoff = Backoff(5.0)
                    continue
                if self._closed:
                    return
                self._changed.wait_for(lambda: self._closed, backoff.pause())

    def finish(self) -> bool:
        """Wait until pending messages are removed; return false if the database does not answer."""
        with self._changed:
            self._changed.wait_for(lambda: self._failing or not (self._pending or self._busy))
            return not self._failing

    def _remove(self, pending: list[tuple[ClaimQueue, Claim]]) -> list[tuple[ClaimQueue, Claim]]:
        """Remove claims; return the claims that could not be removed because the database does not answer."""
        queues: dict[ClaimQueue, list[Claim]] = {}
        for queue, claim in pending:
            queues.setdefault(queue, []).append(claim)
        failed: list[tuple[ClaimQueue, Claim]] = []
        for queue, claims in queues.items():
            try:
                settle(queue.acknowledge, claims)
            except StoreError as error:
                log.warning("%d messages are not acknowledged yet: %s", len(claims), error)
                failed += [(queue, claim) for claim in claims]
        return failed

    def close(self) -> None:
        """Remove pending messages, and stop; messages that cannot be removed are delivered again."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()


class SharedClaims:
    """The claims of one process on one database, which its connections share.

    While a connection consumes, a thread keeps its expiring queues alive, and deletes expired queues.
    """

    def __init__(self, url: str, lease: float, redeliveries: int, letters: str | None, prefix: str) -> None:
        self.users = 0
        """Number of connections that share the claims."""
        config = StoreConfig(table_prefix=prefix)
        self.claims = Claims(url, config, lease=lease, max_redeliveries=redeliveries, dead_letters=letters)
        """The claims."""
        self.database = self.claims.database
        try:
            self.routing = Routing(self.claims, grace=lease)
            """The queues, exchanges and bindings."""
            self.routing.remove_unused_queues()
        except BaseException:
            self.claims.close()
            raise
        self.acknowledger = Acknowledger()
        """Background acknowledger for connections on an event loop."""
        self.lease = lease
        """The lease in seconds."""
        self._interval = lease / 3
        self._lock = threading.Lock()
        self._used: dict[str, int] = {}
        self._lost: set[str] = set()
        self._unreleased: list[tuple[ClaimQueue, list[Claim]]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def queue(self, name: str) -> ClaimQueue:
        """Return the queue of a name. It need not be declared."""
        return self.claims.queue(Destination.queue(name))

    def use(self, name: str, expires_ms: int | None) -> None:
        """Keep a queue from expiring from now on."""
        with self._lock:
            if expires_ms is not None:
                self._used[name] = expires_ms
            self._start()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="jdbcstore-kombu", daemon=True)
            self._thread.start()

    def disuse(self, name: str) -> None:
        """Undo :meth:`use`."""
        with self._lock:
            self._used.pop(name, None)
            self._lost.discard(name)

    @property
    def lost(self) -> list[str]:
        """Queues that expired while in use, because this process was suspended for too long."""
        return sorted(self._lost)

    def release(self, queue: ClaimQueue, claims: Iterable[Claim]) -> None:
        """Return claims to their places; if the database does not answer, later."""
        left = [*claims]

        def release(*some: Claim) -> None:
            try:
                queue.release(*some)
            except OutcomeUnknown as error:
                # Not again, because another connection of this process may have claimed them since.
                log.warning("%d messages of %s are returned later: %s", len(some), queue.destination, error)

        try:
            settle(release, left)
        except StoreError as error:
            log.warning("%d messages of %s cannot be returned yet: %s", len(left), queue.destination, error)
            with self._lock:
                self._unreleased.append((queue, left))
                self._start()

    def finish(self) -> bool:
        """Settle pending claims; return false if the database does not answer."""
        return self.acknowledger.finish() and not self._unreleased

    def finish_later(self) -> bool:
        """Wait until :meth:`finish` is true; return false if the claims were closed before."""
        while not self._stop.wait(_RETRY):
            if self.finish():
                return True
        return False

    def _run(self) -> None:
        # Not while the lease is renewed, which would take another connection.
        wait = self._interval / 2
        while not self._stop.wait(wait):
            wait = self._interval
            try:
                self._keep()
            except StoreError as error:
                log.warning("cannot keep queues from expiring: %s", error)

    def _keep(self) -> None:
        with self._lock:
            used = {**self._used}
            unreleased, self._unreleased = self._unreleased, []
        for name, expires_ms in used.items():
            if not self.routing.use_queue(name, expires_ms):
                with self._lock:
                    if name in self._used:
                        self._lost.add(name)
        for queue, claims in unreleased:
            self.release(queue, claims)
        self.routing.remove_unused_queues()

    def close(self) -> None:
        """Return claimed messages to their queues, and close the claims."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.acknowledger.close()
        self.claims.close()


def settle(how: Callable[..., None], claims: list[Claim]) -> None:
    """Settle the claims that are not lost; afterwards the list has the claims that could not be settled.

    One call settles claims of one lease, and one claim of each message, because if a message was lost and
    claimed again, only the first claim is lost.
    """
    while claims:
        session = claims[0].session
        some: dict[int, Claim] = {}
        for claim in claims:
            if claim.session == session:
                some.setdefault(claim.sequence, claim)
        done = {*some}
        try:
            how(*some.values())
        except ClaimLost as lost:
            log.warning("lost the claims of %d messages; another process may have them", len(lost.sequences))
            done.intersection_update(lost.sequences)
        claims[:] = [
            claim for claim in claims if claim.sequence not in done or some[claim.sequence] is not claim
        ]


class OpenClaims(OpenOnce[SharedClaims]):
    """The shared claims of this process, which are closed when they have no users, or before the process
    ends."""

    def acquire(self, *key: Any) -> SharedClaims:
        """Open claims with these arguments of :class:`SharedClaims`, or share open ones."""
        with self._lock:
            is_open = key in self._shared
            shared = self._get(key)
            if is_open:
                shared.claims.check()  # otherwise a lost database would be noticed late
            shared.users += 1
            return shared

    def release(self, shared: SharedClaims) -> None:
        """Release the claims of one user; without users they are closed.

        While the database does not answer they stay open for the next connection of this process, because
        pending acknowledgements would otherwise be lost.
        """
        with self._lock:
            shared.users -= 1
            # After a fork, or when all were closed, no thread would do the pending work.
            if shared.users or shared not in self._shared.values():
                return
        if shared.finish():
            self._close_unused(shared)
        else:
            name = "jdbcstore-close"
            threading.Thread(target=self._close_later, args=(shared,), name=name, daemon=True).start()

    def _close_later(self, shared: SharedClaims) -> None:
        if shared.finish_later():
            self._close_unused(shared)

    def _close_unused(self, shared: SharedClaims) -> None:
        with self._lock:
            if shared.users or shared not in self._shared.values():
                return
            self._shared = {key: queue for key, queue in self._shared.items() if queue is not shared}
        shared.close()


open_claims = OpenClaims(SharedClaims)
"""The open claims of this process."""
