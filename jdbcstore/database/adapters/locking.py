"""How a vendor locks rows, and how what waits for a lock, or holds one, is ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import URL, Select

from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.errors import LockLost, StoreError

DEPOSED = "another master has begun, and this store writes no more; open it again to wait for the lock"


def deposed() -> StoreError:
    return LockLost(DEPOSED, refused=True)


class Guard(NamedTuple):
    """A condition that holds until the end of the transaction that has found it to hold.

    ``sql`` finds and locks one row, or with ``touches`` changes nothing in one. Where it does not hold,
    ``refusal`` makes the error.
    """

    sql: Sql
    values: Row
    touches: bool
    refusal: Callable[[], StoreError] = deposed


class Guards(NamedTuple):
    """What must hold of a transaction that writes: ``first`` before it does, ``last`` before it commits.

    What nobody must wait for during a long transaction is among the last.
    """

    first: tuple[Guard, ...] = ()
    last: tuple[Guard, ...] = ()


UNGUARDED = Guards()


class TenureGuard(NamedTuple):
    """That a tenure has not ended.

    A transaction that takes its time is guarded by ``long``, which looks at the lock's row at its end: it
    stays locked until then, and whoever has the lock could not renew it.
    """

    short: Guards
    long: Guards


class Locking:
    """The part of an adapter that has to do with locks."""

    touches_to_lock: ClassVar[bool] = False
    """Whether a row is locked by an UPDATE that changes nothing, because no SELECT here does it for good."""
    locks_rows: ClassVar[bool] = True
    """Whether one row can be locked while others are written."""

    def locked(self, query: Select[Any]) -> Select[Any]:
        """The query such that the row it finds is locked until the transaction ends."""
        return query if self.touches_to_lock else query.with_for_update()

    def shared(self, query: Select[Any]) -> Select[Any]:
        """The query such that nobody changes the rows it finds until the transaction ends."""
        return self.locked(query)

    def limit_lock_wait(self, cursor: Any, seconds: float) -> None:
        """Let a wait for a row's lock end after so long, as a :attr:`Failure.TRANSIENT` error.

        Nothing where the server has a limit of its own, or none at all.
        """

    def limit_silence(self, cursor: Any, seconds: float) -> None:
        """Let the server end this connection when a transaction is open, and it is silent for so long.

        What it has locked is free then. Nothing where the server cannot be told.
        """

    def limit_query(self, connection: Any, seconds: float) -> None:
        """Let a statement end after so long, as a :attr:`Failure.TRANSIENT` error.

        Nothing where it cannot.
        """

    def network_arguments(self, url: URL, seconds: float) -> dict[str, Any]:  # noqa: ARG002
        """Arguments of the driver's ``connect`` with which what is not answered for so long is given up.

        As :attr:`Failure.DISCONNECTED`. What the URL says itself is not among them.
        """
        return {}

    def limit_answers(self, connection: Any, seconds: float) -> None:
        """The same for a connection that is there, where the driver cannot be told before.

        Nothing where it cannot be told at all.
        """

    def session_of(self, cursor: Any) -> Row | None:  # noqa: ARG002
        """What tells this connection from every other one that the server has, ever had or will have.

        None where another connection can neither see it nor end it.
        """
        return None

    def has_session(self, cursor: Any, session: Row) -> bool:  # noqa: ARG002
        """Whether the server still has a connection, which may be running what it was sent."""
        return False

    def end_session(self, cursor: Any, session: Row) -> None:
        """Ask the server to end a connection; it may take a while, or be refused by a driver's error."""

    def wait_replicated(self, cursor: Any) -> None:
        """Return when what other connections have committed is as safe as what this one commits.

        Nothing where what is seen is safe.
        """

    def abort(self, connection: Any) -> None:
        """End what another thread may be waiting for on a connection, which then gets an error.

        The connection is that thread's to close: under a statement that runs, some drivers crash.
        Nothing where the driver has no such call.
        """
        cancel = getattr(connection, "cancel", None)
        if cancel is not None:
            cancel()

    def check(self, cursor: Any, guard: Guard) -> None:
        """Make sure that the guard holds until the transaction ends.

        :raises StoreError: it does not
        """
        cursor.execute(guard.sql.text, guard.values)
        held = cursor.rowcount == 1 if guard.touches else bool(cursor.fetchall())
        if not held:
            raise guard.refusal()
