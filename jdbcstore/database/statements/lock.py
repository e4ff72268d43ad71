"""The statements of lockers and of the fence, under ActiveMQ's names and with its parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Dialect,
    and_,
    bindparam,
    delete,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.sql import EpochGuard, Guards, RowGuard, Sql, deposed
from jdbcstore.database.schema import EPOCH_ROW, LOCK_ROW
from jdbcstore.database.statements.builder import StatementBuilder
from jdbcstore.database.statements.given import GivenStatements
from jdbcstore.database.tables import Tables
from jdbcstore.errors import ConfigurationError, StoreError

FILE_ROW = "lock_file:"
"""The prefix of a lock file's path, as a name in JDBCSTORE_STATE."""
ADDRESS_ROW = "address:"
"""The prefix of an address of the master, as a name in JDBCSTORE_STATE: ``address:KIND:URL``."""
PAUSED_ROW = "paused:"
"""The prefix of a queue whose deliveries are paused: ``paused:SINCE:USER:QUEUE``, the last two encoded."""
NO_ROW = "ACTIVEMQ_LOCK has no row with ID 1, and so the lock cannot be acquired; run jdbcstore init"


class LockStatements(StatementBuilder):
    """The statements about ACTIVEMQ_LOCK, and about the master's epoch, addresses and lock files in
    JDBCSTORE_STATE."""

    takes_given = True

    def __init__(
        self, tables: Tables, adapter: Adapter, dialect: Dialect, given: GivenStatements, **flags: bool
    ) -> None:
        super().__init__(tables, adapter, dialect, **flags)
        lock, state = tables.lock, tables.state
        self._row = lock.c.id == literal_column(str(LOCK_ROW))
        self._epoch = state.c.name == bindparam("epoch_row")
        columns = (lock.c.id, lock.c.time, lock.c.broker_name)
        self.own_lock_create = self._compile(lambda: adapter.locked(select(*columns).where(self._row)))
        self.lock_probe = self._compile(lambda: adapter.shared(select(*columns).where(self._row)))
        self.lock_create = given.statement("lockCreateStatement") or self.own_lock_create
        self.lock_touch = self._compile(lambda: update(lock).where(self._row).values(id=lock.c.id))
        time = bindparam("time", type_=BigInteger())
        holder: BindParameter[Any] = bindparam("broker_name")
        own = self._compile(lambda: update(lock).where(self._row).values(time=time))
        self.lock_update = given.statement("lockUpdateStatement") or own
        now = bindparam("now", type_=BigInteger())
        free = or_(lock.c.time.is_(None), lock.c.time < now)
        lease = update(lock).values(broker_name=holder, time=time)
        own = self._compile(lambda: lease.where(free, self._row))
        self.lease_obtain = given.statement("leaseObtainStatement") or own
        own = self._compile(lambda: lease.where(lock.c.broker_name == bindparam("holder"), self._row))
        self.lease_update = given.statement("leaseUpdateStatement") or own
        own = self._compile(lambda: select(lock.c.broker_name, lock.c.time).where(self._row))
        self.lease_owner = given.statement("leaseOwnerStatement") or own
        self.now_ms: Sql | None = given.statement("currentDateTimeStatement")
        """The database's clock, converted by :func:`epoch_ms`; None if it has none."""
        if self.now_ms is None and adapter.now_ms:
            clock: ColumnElement[Any] = literal_column(adapter.now_ms)
            self.now_ms = self._compile(lambda: select(clock).select_from(lock).where(self._row))
        self._define_state()
        in_epoch = and_(self._epoch, state.c.number == bindparam("epoch", type_=BigInteger()))
        held = and_(self._row, lock.c.broker_name == bindparam("holder"))
        self._unchanged = self._compile(lambda: select(state.c.number).where(in_epoch))
        self._of_epoch = self._compile(lambda: self._holding("epoch_row", "epoch"))
        self._shared_epoch = self._compile(lambda: adapter.shared(select(state.c.number).where(in_epoch)))
        if adapter.touches_to_lock:
            self._of_holder = self._compile(lambda: update(lock).values(id=lock.c.id).where(held))
        else:
            self._of_holder = self._compile(lambda: adapter.shared(select(lock.c.id).where(held)))
        both = select(state.c.number).select_from(lock, state).where(in_epoch, held)
        self._of_both = self._compile(lambda: adapter.shared(both))

    def _define_state(self) -> None:
        """Define the statements of JDBCSTORE_STATE: epochs, and rows by name."""
        state = self._tables.state
        self.find_epoch = self._compile(lambda: select(state.c.number).where(self._epoch))
        self.add_epoch = self._compile(
            lambda: insert(state).values(name=bindparam("epoch_row"), number=literal_column("0"))
        )
        of_file = state.c.name == bindparam("name_")
        self.find_lock_files = self._compile(
            lambda: select(state.c.name).where(state.c.name.like(bindparam("pattern")))
        )
        self.remove_name = self._compile(lambda: delete(state).where(of_file))
        self.add_lock_file = self._compile(
            lambda: insert(state).values(name=bindparam("name_"), number=literal_column("0"))
        )
        named = state.c.name.like(bindparam("pattern"))
        self.find_named = self._compile(lambda: select(state.c.name, state.c.number).where(named))
        self.remove_named = self._compile(lambda: delete(state).where(named))
        since = bindparam("since", type_=BigInteger())
        self.add_named = self._compile(lambda: insert(state).values(name=bindparam("name_"), number=since))
        new, old = bindparam("new", type_=BigInteger()), bindparam("old", type_=BigInteger())
        self.begin_epoch = self._compile(lambda: self._changing("epoch_row", new, state.c.number == old))
        self.count_epoch = self._compile(
            lambda: self._changing("epoch_row", state.c.number + literal_column("1"))
        )
        """Others that count it, too, wait for the end of this transaction."""

    def guard(self, epoch: int, holder: str | None) -> EpochGuard:
        """Return the guard that this epoch has not ended and, with a holder, that it holds the lock's row."""
        values: dict[str, Any] = {"epoch_row": EPOCH_ROW, "epoch": epoch, "holder": holder}
        adapter = self._adapter
        of_epoch = self._guard(self._of_epoch, values, writes=adapter.writes_to_hold)
        shared = self._guard(self._shared_epoch, values, writes=False) if adapter.certifies else of_epoch
        joined = Guards((shared,))
        if holder is None:
            return EpochGuard(Guards((of_epoch,)), Guards((of_epoch,)), joined)
        of_holder = self._guard(self._of_holder, values, writes=adapter.touches_to_lock)
        apart = Guards((of_epoch,), (of_holder,))
        if of_epoch.touches:
            return EpochGuard(apart, apart, joined)
        return EpochGuard(Guards((self._guard(self._of_both, values, writes=False),)), apart, joined)

    def unchanged(self, row: str, number: int, refusal: Callable[[], StoreError]) -> RowGuard:
        """Return the guard that a row of JDBCSTORE_STATE has this number, read without a lock."""
        sql = self._unchanged
        return RowGuard(sql, sql.row(epoch_row=row, epoch=number), False, refusal, locks=False)

    def held(self, row: str, number: int, refusal: Callable[[], StoreError]) -> EpochGuard:
        """As :meth:`unchanged`, and a change of the number waits for the end of the transaction."""
        values = {"epoch_row": row, "epoch": number}
        guard = self._guard(self._of_epoch, values, writes=self._adapter.writes_to_hold, refusal=refusal)
        guards = Guards((guard,))
        return EpochGuard(guards, guards, guards)

    @staticmethod
    def _guard(
        sql: Sql, values: dict[str, Any], *, writes: bool, refusal: Callable[[], StoreError] = deposed
    ) -> RowGuard:
        return RowGuard(sql, sql.row(**values), writes, refusal)


def epoch_ms(now: object) -> int:
    """Return the database's clock in epoch milliseconds, from a number of them or a time with its zone.

    :raises ConfigurationError: the user's statement returns another type
    """
    if isinstance(now, str):
        with contextlib.suppress(ValueError):
            now = datetime.fromisoformat(now)
    if isinstance(now, datetime) and now.tzinfo is not None:
        return round(now.timestamp() * 1000)
    if isinstance(now, int | float | Decimal):
        return int(now)
    raise ConfigurationError(
        f"currentDateTimeStatement returns {now!r}, which is not a point in time: let it return a time with"
        " its zone, or milliseconds since 1970",
        option="statements.currentDateTimeStatement",
    )
