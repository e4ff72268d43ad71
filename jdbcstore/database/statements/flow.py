"""The statements of limits, rates, pauses and keys; ``now`` in all of them is the database's clock.

A queue that has any settings has a row of JDBCSTORE_FLOW. A claim of such a queue locks that row first, and
only then counts what is claimed: a statement that waits for the lock and counts as well would count what was
there before the wait.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.schema import FLOW_ROW
from jdbcstore.database.statements.builder import ONE, ZERO
from jdbcstore.database.statements.claims import LeaseConditions

NAMES = 32
"""The most keys that one statement returns."""
_LATE_MS = 1000
"""For how long after its end a lease counts: a renewal that was in time may be committed late."""


class FlowStatements(LeaseConditions):
    """Changing, locking and obeying the settings of a queue and of its keys."""

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
        settings = (f.c.paused, f.c.most, f.c.rate, f.c.burst, f.c.keying, f.c.key_most)
        self._columns = (*settings, f.c.drawn, f.c.last_key, f.c.credit)
        self.find = self._compile(lambda: select(*self._columns).where(self._here(f)))
        self.find_all = self._compile(lambda: select(f.c.container, *settings).order_by(f.c.container))
        self.add = self._insert(f)
        self.change = self._compile(
            lambda: update(f).where(self._here(f)).values({one.key: bindparam(one.key) for one in settings})
        )
        self.remove = self._compile(lambda: delete(f).where(self._here(f)))
        self.lock = self._compile(self._lock)
        """As ``find``; the row is locked until the transaction ends."""
        self.count = self._compile(lambda: select(self._now, self._count()))
        """The time, and the number of claims in the queue that are in force."""
        self.read_clock = self._compile(lambda: select(self._now))
        until = bindparam("until", type_=BigInteger())
        self.draw = self._compile(lambda: update(f).where(self._here(f)).values(drawn=until))
        turn = {"last_key": bindparam("last", type_=f.c.last_key.type), "credit": bindparam("credit")}
        self.turn = self._compile(lambda: update(f).where(self._here(f)).values(turn))
        self._define_keys()
        self._define_keyed()

    def _lock(self) -> Select[Any]:
        f = self._tables.flow
        query = select(*self._columns).where(self._here(f))
        if self._adapter.chains_writes:
            # The lock alone would have the commit wait for the disk.
            query = query.where(self._is_relaxed())
        return self._adapter.locked(query) if self._adapter.locks_rows else query

    def _is_held_here(self) -> ColumnElement[bool]:
        t, c, s = self._tables.messages, self._tables.claims, self._tables.claim_sessions
        # Scalar subqueries are never joins, for which a planner might read all messages of the queue.
        expires = func.coalesce(select(s.c.expires).where(s.c.id == c.c.session).scalar_subquery(), ZERO)
        here = select(ONE).where(t.c.id == c.c.id, self._found_here(t)).scalar_subquery()
        late: ColumnElement[int] = literal_column(str(_LATE_MS))
        return and_(c.c.session >= ZERO, expires + late >= self._now, here == ONE)

    def _count(self) -> ColumnElement[int]:
        held = select(func.count()).select_from(self._tables.claims).where(self._is_held_here())
        count: ColumnElement[int] = held.scalar_subquery()
        return count

    def _define_keys(self) -> None:
        k = self._tables.flow_keys
        this = and_(self._here(k), self._equal(k.c.name, bindparam("name_", type_=k.c.name.type)))
        settings = (k.c.paused, k.c.most, k.c.weight)
        self.find_key = self._compile(lambda: select(*settings).where(this))
        self.find_keys = self._compile(
            lambda: select(k.c.name, *settings).where(self._here(k)).order_by(k.c.name)
        )
        self.add_key = self._insert(k)
        self.change_key = self._compile(
            lambda: update(k).where(this).values({one.key: bindparam(one.key) for one in settings})
        )
        self.remove_key = self._compile(lambda: delete(k).where(this))

    def _define_keyed(self) -> None:
        t, c, k = self._tables.messages, self._tables.claims, self._tables.keyed
        limit = bindparam("limit", type_=Integer())
        # A scalar subquery: for an anti-join a planner reads the keys of all messages.
        filed = select(ONE).where(k.c.id == t.c.id, self._here(k)).scalar_subquery()
        is_unfiled = func.coalesce(filed, ZERO) == ZERO
        self.find_unfiled = self._compile(
            lambda: (
                select(t.c.id, t.c.priority, t.c.msg)
                .where(self._committed_here(), t.c.id > bindparam("after", type_=BigInteger()), is_unfiled)
                .order_by(t.c.id)
                .limit(limit)
            )
        )
        self.find_last = self._compile(lambda: select(func.max(t.c.id)))
        self.add_keyed = self._insert(k)
        self.remove_keyed = self._of_ids(
            k,
            # By the whole key: of a part InnoDB would lock the gap behind it, where others file theirs.
            lambda these: delete(k).where(these, self._here(k)),
            locks=True,
        )
        of_message = exists(select(ONE).where(t.c.id == k.c.id, self._found_here(t)))
        self.remove_unkeyed = self._compile(lambda: delete(k).where(self._here(k), not_(of_message)))
        """Remove the keys of messages that are not in the queue any more."""
        self.names_after = self._compile(lambda: self._names(inclusive=False))
        """The next :data:`NAMES` keys that have messages, with their settings."""
        self.names_from = self._compile(lambda: self._names(inclusive=True))
        name = select(k.c.name).where(k.c.id == c.c.id, self._here(k)).scalar_subquery()
        self.find_held = self._compile(lambda: select(name).select_from(c).where(self._is_held_here()))
        """The key of each claim in the queue that is in force."""
        self.find_of_key = self._compile(lambda: self._of_key().where(self._is_free()).limit(limit))
        """The first free messages of a key; each with the number of its next claim, and its failures."""
        self.find_head = self._compile(
            lambda: self._of_key().add_columns(case((self._is_free(), ONE), else_=ZERO)).limit(ONE)
        )
        """As ``find_of_key`` the first message, and whether it is free."""

        def messages(these: ColumnElement[bool]) -> Select[Any]:
            query = select(t.c.id, func.coalesce(t.c.priority, ZERO), t.c.msg).where(these)
            return query.with_for_update(skip_locked=True) if self._adapter.locks_rows else query

        self.lock_messages = self._of_ids(t, messages)

    def _names(self, *, inclusive: bool) -> Select[Any]:
        k, f = self._tables.keyed, self._tables.flow_keys
        here = k.c.container == bindparam("container", type_=k.c.container.type)
        begin = bindparam("name_", type_=k.c.name.type)
        first = k.c.name >= begin if inclusive else k.c.name > begin
        # One look into the index for each, however many messages it has.
        begun = select(func.min(k.c.name).label("name"), ONE.label("number")).where(here, first)
        ring = begun.cte("ring", recursive=True)
        following = select(func.min(k.c.name)).where(here, k.c.name > ring.c.name).scalar_subquery()
        ring = ring.union_all(
            select(following, ring.c.number + ONE).where(
                ring.c.name.is_not(None), ring.c.number < literal_column(str(NAMES))
            )
        )
        of_key = and_(
            f.c.container == bindparam("container", type_=f.c.container.type), f.c.name == ring.c.name
        )
        found = ring.outerjoin(f, of_key)
        query = select(ring.c.name, f.c.paused, f.c.most, f.c.weight).select_from(found)
        return query.where(ring.c.name.is_not(None)).order_by(ring.c.number)

    def _of_key(self) -> Select[Any]:
        t, c, k = self._tables.messages, self._tables.claims, self._tables.keyed
        died = case((c.c.session.is_not(None), ONE), else_=ZERO)
        there = select(ONE).where(
            t.c.id == k.c.id, t.c.xid.is_(None), self._found_here(t), self._is_current()
        )
        return (
            select(k.c.id, self._of_claim(c.c.taken) + ONE, self._of_claim(c.c.failed + died))
            .where(
                k.c.container == bindparam("container", type_=k.c.container.type),
                k.c.name == bindparam("name_", type_=k.c.name.type),
                there.scalar_subquery() == ONE,
            )
            .order_by(k.c.lane, k.c.id)
        )

    def _of_claim(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        c, k = self._tables.claims, self._tables.keyed
        return func.coalesce(select(value).where(c.c.id == k.c.id).correlate(k).scalar_subquery(), ZERO)

    def _is_free(self) -> ColumnElement[bool]:
        c = self._tables.claims
        held = or_(c.c.due > self._now, self._is_alive(c.c.session))
        return self._of_claim(case((held, ONE), else_=ZERO)) == ZERO
