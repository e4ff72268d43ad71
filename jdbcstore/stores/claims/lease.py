"""The lease of one process: a row that it renews, without which its claims are free.

The database's clock decides. A lease that has expired is never renewed: its claims are lost, and a new one
begins. A process that adds messages judges by its own monotonic clock, from before the last renewal.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.sql import EpochGuard
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import BEGUN_ROW, SEQUENCE_ROW
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.database.statements.lock import LockStatements
from jdbcstore.errors import MessageNotFound, NotMaster, StoreClosed, StoreError
from jdbcstore.lockers.inspection import OtherLocks, follow_clock, last_epoch, number_in
from jdbcstore.stores.jdbc.checkpoint import refuse_pending
from jdbcstore.stores.jdbc.sequence import fetch_reserved
from jdbcstore.util.backoff import Backoff
from jdbcstore.util.clock import Clock
from jdbcstore.util.gate import Gate

log = logging.getLogger(__name__)

_BELIEVED = 0.9
"""The part of a lease for which it is believed to be running."""
_RENEWALS = 3
"""Renewals in the time of one lease."""
_LOCK_WAIT = 1.0
_CONFLICTS = 10.0
_CLOSE_WAIT = 5.0
_KNOWS_FLOW = 1 << 62
"""Set in the number of a session that obeys limits and pauses: older versions' numbers are below."""
_CHANCE = 30
"""The random bits of a number; above them are the seconds at which the session began."""


def knows_flow(number: int) -> bool:
    """Return whether the session of this number obeys the limits and pauses of queues."""
    return number >= _KNOWS_FLOW


def begun_of(number: int) -> int | None:
    """Return when the session of this number began, in seconds since 1970; None if it does not say so."""
    return (number - _KNOWS_FLOW) >> _CHANCE if knows_flow(number) else None


def _new_number(now_ms: int) -> int:
    begun = max(0, now_ms // 1000) % (1 << 62 - _CHANCE)
    # As many random bits as ever: else each seed of the simulation becomes another history.
    return _KNOWS_FLOW | begun << _CHANCE | secrets.randbits(62) % (1 << _CHANCE)


class Lease:
    """The lease of one process, renewed by a thread until :meth:`close`.

    :raises NotMaster: a broker or a store with a locker serves the same tables
    """

    def __init__(
        self,
        session: DatabaseSession,
        gate: Gate,
        clock: Clock,
        name: str,
        seconds: float,
        borrowed: Callable[[], AbstractContextManager[Connection]],
        renewed: Callable[[], None],
    ) -> None:
        """``borrowed`` gives a connection for a while; ``renewed`` is called after each regular renewal."""
        self._session = session
        self._borrowed = borrowed
        self._renewed = renewed
        self._gate = gate
        self._sql = session.of(ClaimStatements)
        self._clock = clock
        self._name = name
        self._seconds = seconds
        self._believed_until = float("-inf")
        self.number = 0
        """The number of the session, in the rows of its claims; new after an expiry."""
        self.epoch = 0
        """The last epoch of a master."""
        self.guard: EpochGuard
        """The guard of transactions that add messages: no master has begun since. A new master waits for
        transactions under way and reads their messages."""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._begin()
        self._thread = threading.Thread(target=self._renew, name="jdbcstore-claims", daemon=True)
        self._thread.start()

    def check(self, *, renews: bool = True) -> int:
        """Return the number of the session; begin a new one if its lease is not believed to be running.

        :param renews: without, it may have expired
        :raises NotMaster: the lease has expired, and a broker or store has taken over
        :raises StoreUnavailable: the database does not answer
        """
        if self._stop.is_set():
            raise StoreClosed("the claims are closed; open them again")
        if renews and time.monotonic() >= self._believed_until:
            self._keep()
        return self.number

    def holds(self, session: int) -> bool:
        """Return whether this session's lease is certainly valid; renew it if necessary.

        :raises NotMaster: the lease has expired, and a broker or store has taken over
        :raises StoreUnavailable: the database does not answer
        """
        # Also the answer to a renewal may come too late.
        while time.monotonic() >= self._believed_until:
            self.check()
        return self.number == session

    def rejoin(self, *, renews: bool = True) -> None:
        """Follow a later epoch, if its master serves no longer, or never did because of this lease.

        :param renews: no master can begin meanwhile, because the lease is renewed first; without, because the
            caller holds a lock of the whole database
        :raises NotMaster: it serves
        :raises StoreUnavailable: the database does not answer
        """
        if renews:
            self._keep()
        with self._gate.inside(), self._lock:
            self._refuse_exclusive()
            with self._borrowed() as connection:
                self._follow(last_epoch(self._session, connection))

    def renew(self) -> None:
        """Renew the lease now, or begin a new one if it has expired.

        :raises NotMaster: the lease has expired, and a broker or store has taken over
        :raises StoreUnavailable: the database does not answer
        """
        self._keep()

    def close(self) -> None:
        """Return all claims to their places, and end the lease; a failure leaves it to expire."""
        self._stop.set()
        self._thread.join()
        with (
            contextlib.suppress(StoreError),
            self._gate.inside(),
            contextlib.closing(self._session.connect()) as connection,
            self._session.translated(),
        ):
            connection.control.limit_lock_wait(_CLOSE_WAIT)
            self._again(lambda: connection.execute(self._sql.return_all, session=self.number))
            connection.execute(self._sql.remove_session, session=self.number)

    def _renew(self) -> None:
        while not self._stop.wait(self._seconds / _RENEWALS):
            try:
                self._keep()
                with self._gate.inside(), self._borrowed() as connection:
                    # Each time: a clock that is set forward has just prolonged the lease.
                    self._again(lambda: follow_clock(self._session, connection))
                self._renewed()
            except StoreClosed:
                return  # they are being closed, and end the lease
            except StoreError as error:
                log.warning("the lease of %s is not renewed: %s", self._name, error)

    def _keep(self) -> None:
        """Renew the lease, or begin a new one if it has expired."""
        with self._gate.inside(), self._lock:
            asked = time.monotonic()
            with self._borrowed() as connection:
                renewed = connection.change(self._sql.renew_session, session=self.number, **self._lease())
                # Some drivers count only rows that have changed, not one renewed twice in a millisecond.
                if renewed or self.number in (row[0] for row in connection.fetch(self._sql.find_sessions)):
                    self._believed_until = asked + _BELIEVED * self._seconds
                    return
            log.error("the lease of %s has expired: its claims are lost", self._name)
            self._begin()

    def end_those_of(self, name: str) -> int:
        """End the leases of the processes of a name, which may hang; return their number.

        Their claims are free immediately. A process that continues has lost its claims.

        :raises MessageNotFound: there is none
        :raises StoreUnavailable: the database does not answer
        """
        with self._borrowed() as connection:
            ended = connection.change(self._sql.remove_worker, name_=name)
        if not ended:
            raise MessageNotFound(f"there is no worker {name}; see jdbcstore status")
        return ended

    def _lease(self) -> dict[str, int]:
        return {"lease_ms": round(self._seconds * 1000)}

    def _begin(self) -> None:
        asked, number = time.monotonic(), _new_number(self._clock.now_ms())
        with self._borrowed() as connection:
            self._again(lambda: follow_clock(self._session, connection))
            # The lease first, then a look for a lock: a master does it the other way round, and so at least
            # one of the two sees the other.
            connection.execute(self._sql.add_session, session=number, name_=self._name, **self._lease())
            try:
                self._refuse_exclusive()
                self._again(lambda: self._prepare(connection, number))
                epoch = last_epoch(self._session, connection)
            except BaseException:
                connection.rollback()
                connection.execute(self._sql.remove_session, session=number)
                raise
        self._session.drop_idle()  # connections that inspected tables and locks
        self._follow(epoch)
        self.number, self._believed_until = number, asked + _BELIEVED * self._seconds

    def _again(self, work: Callable[[], object]) -> None:
        """Do work that has no effect if it fails; again while a process at another node is in the way."""
        backoff = Backoff(0.5, first=0.005, timeout=_CONFLICTS)
        while True:
            try:
                work()
            except self._session.failures as error:
                if self._session.classify(error) is not Failure.TRANSIENT or backoff.is_over():
                    raise
                time.sleep(backoff.pause())
            else:
                return

    def _follow(self, epoch: int) -> None:
        self.epoch, self.guard = epoch, self._session.of(LockStatements).guard(epoch, None)

    def _refuse_exclusive(self) -> None:
        refuse_pending(self._session)
        with contextlib.closing(self._session.connect()) as connection:
            connection.control.limit_lock_wait(_LOCK_WAIT)
            holder = OtherLocks(self._session, self._clock).exclusive(connection)
        if holder is not None:
            raise NotMaster(
                f"{holder} serves these tables alone: stop it before messages are claimed, or consume"
                " from it",
                holder=holder,
            )

    def _prepare(self, connection: Connection, number: int) -> None:
        """Begin above every ID that was given, and let a store without a locker give none any more."""
        sql, own = self._session.statements, self._sql
        number_in(BEGUN_ROW, self._session, connection)  # there is such a row
        with connection.transaction():
            connection.execute(self._session.of(LockStatements).count_epoch, epoch_row=BEGUN_ROW)
            reserved = fetch_reserved(connection, sql)
            highest = max(
                reserved,
                connection.fetch(sql.find_last_sequence_id_in_msgs)[0][0] or 0,
                connection.fetch(sql.find_last_sequence_id_in_acks)[0][0] or 0,
            )
            # Also beside others: of two that begin at once, each sees the other.
            connection.execute(sql.update_number, name_=SEQUENCE_ROW, new=highest + 1)
            others = [row for row in connection.fetch(own.find_sessions) if row[0] != number]
            if not others:
                connection.execute(own.remove_old_sessions)
                connection.execute(own.remove_stale)
            if self._session.adapter.series:
                connection.control.raise_sequence(own.ids_name, highest + 1)
