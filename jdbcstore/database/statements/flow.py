"""The statements of limits, rates and pauses of queues; ``now`` in all of them is the database's clock.

A queue that has any has a row of JDBCSTORE_FLOW. A claim of such a queue locks that row first, and only then
counts what is claimed: a statement that waits for the lock and counts as well would count what was there
before the wait.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Select, bindparam, delete, func, literal, literal_column, select, update
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.schema import FLOW_ROW
from jdbcstore.database.statements.builder import ONE, ZERO
from jdbcstore.database.statements.claims import LeaseConditions

_LATE_MS = 1000
"""For how long after its end a lease counts: a renewal that was in time may be committed late."""


class FlowStatements(LeaseConditions):
    """Changing, locking and obeying the settings of a queue."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        f, state = self._tables.flow, self._tables.state
        of_flow = state.c.name == literal(FLOW_ROW)
        self.find_version = self._compile(lambda: select(state.c.number).where(of_flow))
        """The number of changes; nothing if there never was one."""
        self.count_change = self._compile(
            lambda: update(state).where(of_flow).values(number=state.c.number + ONE)
        )
        """Also locks out others that change something."""
        settings = (f.c.paused, f.c.most, f.c.rate, f.c.burst)
        self.find = self._compile(lambda: select(*settings, f.c.drawn).where(self._here(f)))
        self.find_all = self._compile(lambda: select(f.c.container, *settings).order_by(f.c.container))
        self.add = self._insert(f)
        self.change = self._compile(
            lambda: update(f).where(self._here(f)).values({one.key: bindparam(one.key) for one in settings})
        )
        self.remove = self._compile(lambda: delete(f).where(self._here(f)))
        self.lock = self._compile(self._lock)
        """As ``find``; the row is locked until the transaction ends."""
        self.count = self._compile(lambda: select(self._now, self._held()))
        """The time, and the number of claims in the queue that are in force."""
        self.read_clock = self._compile(lambda: select(self._now))
        self.draw = self._compile(
            lambda: update(f).where(self._here(f)).values(drawn=bindparam("until", type_=BigInteger()))
        )

    def _lock(self) -> Select[Any]:
        f = self._tables.flow
        query = select(f.c.paused, f.c.most, f.c.rate, f.c.burst, f.c.drawn).where(self._here(f))
        if self._adapter.chains_writes:
            # The lock alone would have the commit wait for the disk.
            query = query.where(self._is_relaxed())
        return self._adapter.locked(query) if self._adapter.locks_rows else query

    def _held(self) -> ColumnElement[int]:
        t, c, s = self._tables.messages, self._tables.claims, self._tables.claim_sessions
        # Scalar subqueries are never joins, for which a planner might read all messages of the queue.
        expires = func.coalesce(select(s.c.expires).where(s.c.id == c.c.session).scalar_subquery(), ZERO)
        here = select(ONE).where(t.c.id == c.c.id, self._found_here(t)).scalar_subquery()
        held = select(func.count()).where(
            c.c.session >= ZERO, expires + literal_column(str(_LATE_MS)) >= self._now, here == ONE
        )
        count: ColumnElement[int] = held.scalar_subquery()
        return count
