"""The statements of limits, rates, pauses and keys; ``now`` in all of them is the database's clock.

A queue that has any settings has a row of JDBCSTORE_FLOW. A claim of such a queue locks that row first, and
only then counts claims: a statement that waits for the lock and counts as well would count the claims
before the wait. Where the vendor chains writes, a claim counts without the lock, and claims only if the
row is still the version that it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sqlalchemy import (
    ARRAY,
    CTE,
    BigInteger,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    literal_column,
    not_,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.schema import FLOW_ROW
from jdbcstore.database.statements.builder import ONE, ZERO
from jdbcstore.database.statements.keyed import KeyedMessages

UNKEYED, KEYED, KEYED_IN_ORDER = range(3)
"""The use that a queue makes of keys: none, shares of keys, or shares and the order of each."""
NS_PER_MS = 1_000_000
RATE_NS = 1_000_000 * 1_000_000_000
"""A million seconds in nanoseconds: the time for which a rate is stored."""


class FlowStatements(KeyedMessages):
    """Changing, locking and obeying the settings of a queue and of its keys."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        f = self._tables.flow
        self.find_version, self.count_change = self._versioned(FLOW_ROW)
        of_keys = (f.c.keying, f.c.key_most, f.c.key_rate, f.c.key_burst)
        settings = (f.c.paused, f.c.most, f.c.rate, f.c.burst, *of_keys)
        self._columns = (*settings, f.c.drawn, f.c.last_key, f.c.credit)
        self.find = self._compile(lambda: select(*self._columns).where(self._here(f)))
        self.find_all = self._compile(lambda: select(f.c.container, *settings).order_by(f.c.container))
        self.add = self._insert(f)
        self.change = self._compile(
            lambda: (
                update(f)
                .where(self._here(f))
                .values({setting.key: bindparam(setting.key) for setting in settings})
            )
        )
        self.remove = self._compile(lambda: delete(f).where(self._here(f)))
        self.lock = {keyed: self._compile(partial(self._lock, keyed=keyed)) for keyed in (False, True)}
        """As ``find``; if it is thought to be keyed, also ``has_later``, if it is. The row is locked."""
        self.count = self._compile(lambda: select(self._now, self._count()))
        """The time, and the number of claims in the queue that are in force."""
        self.read_clock = self._compile(lambda: select(self._now))
        until = bindparam("until", type_=BigInteger())
        self.draw = self._compile(lambda: update(f).where(self._here(f)).values(drawn=until))
        turn = {"last_key": bindparam("last", type_=f.c.last_key.type), "credit": bindparam("credit")}
        self.turn = self._compile(lambda: update(f).where(self._here(f)).values(turn))
        self._define_keys()
        self._define_keyed()
        if self._adapter.chains_writes:
            self._define_chained()

    def _lock(self, *, keyed: bool) -> Select[Any]:
        f = self._tables.flow
        query = select(*self._columns, *([self._is_later_keyed()] if keyed else ())).where(self._here(f))
        if self._adapter.chains_writes:
            # The lock alone would have the commit wait for the disk.
            query = query.where(self._is_relaxed())
        return self._adapter.locked(query) if self._adapter.locks_rows else query

    def _count(self) -> ColumnElement[int]:
        held = select(func.count()).select_from(self._tables.claims).where(self._is_held_here())
        count: ColumnElement[int] = held.scalar_subquery()
        return count

    def _define_keys(self) -> None:
        k = self._tables.flow_keys
        this = and_(self._here(k), self._equal(k.c.name, bindparam("name_", type_=k.c.name.type)))
        settings = (k.c.paused, k.c.most, k.c.weight, k.c.rate, k.c.burst)
        is_plain = (k.c.paused == ZERO, k.c.most.is_(None), k.c.weight == ONE, k.c.rate.is_(None))
        self.find_key = self._compile(lambda: select(*settings).where(this))
        self.find_keys = self._compile(
            lambda: select(k.c.name, *settings).where(self._here(k), not_(and_(*is_plain))).order_by(k.c.name)
        )
        self.add_key = self._insert(k)
        self.change_key = self._compile(
            lambda: (
                update(k).where(this).values({setting.key: bindparam(setting.key) for setting in settings})
            )
        )
        now_ns = self._now * literal_column("1000000")
        self.remove_plain_keys = self._compile(
            lambda: delete(k).where(self._here(k), *is_plain, k.c.drawn <= now_ns)
        )
        """Remove keys without settings of their own, whose tokens are all there again."""
        until = bindparam("until", type_=BigInteger())
        self.draw_key = self._compile(lambda: update(k).where(this).values(drawn=until))

    def _define_chained(self) -> None:
        """Define a claim without a lock, where the vendor chains writes: in one statement, or two by keys.

        Each claim writes the row of its queue. So if row and claims are unchanged since they were read, no
        process has claimed from the queue since.
        """
        f = self._tables.flow
        self._version = cast(literal_column(self._adapter.row_version), Text())
        self._held = case((f.c.most.is_(None), ZERO), else_=self._count())
        self.claim_next = {
            (ordered, single): self._compile(partial(self._claim_next, ordered=ordered, single=single))
            for ordered in (False, True)
            for single in (False, True)
        }
        """The settings of the queue as ``lock`` and ``count`` return them; ``has_later``, the version of the
        row; the first rows of ``names`` from where the turn is, and the messages of these that are claimed:
        all, or none if there is more to consider, or the queue is not in order or not as was thought. One of
        two is for a single message: each node of a plan costs, even unexecuted ones."""
        self.claim_seen = self._compile(self._claim_in_room)
        """The settings of the queue as ``lock`` and ``count`` return them, and messages that are claimed as
        far as they leave room. Of a queue with keys none is."""
        self.claim_chosen = self._compile(lambda: self._claim(self._chosen()))
        """Claim messages that were chosen, if the row of the queue is the version that was seen."""

    def _seen(self, keying: int) -> CTE:
        # The clock is read once: a clock that runs on within the statement would count tokens too early.
        # And a common table expression is planned and executed once.
        lease = (self._now.label("now"), self._held.label("held"), self._version.label("version"))
        columns = (*self._columns, *lease, *([self._is_later_keyed()] if keying else ()))
        stored = select(*columns).where(self._here(self._tables.flow)).cte("stored")
        stored = stored.prefix_with("MATERIALIZED")
        return select(*stored.c, *self._room(stored, keying)).cte("seen")

    def _claim_next(self, *, ordered: bool, single: bool) -> Select[Any]:
        seen, limit = self._seen(KEYED_IN_ORDER if ordered else KEYED), bindparam("limit", type_=Integer())
        keys = self._next_keys(seen, ordered=ordered, single=single)
        is_begun = and_(seen.c.credit > ZERO, keys.c.name == seen.c.last_key)
        quantum = case((is_begun, seen.c.credit), else_=func.coalesce(keys.c.weight, ONE))
        is_served = and_(func.coalesce(keys.c.paused, ZERO) == ZERO, keys.c.first.is_not(None))
        served = (
            select(keys.c.first.label("id"), keys.c.name, keys.c.number, quantum.label("quantum"))
            .select_from(keys.join(seen, true()))
            .where(is_served, not_(self._is_full(seen, keys, ordered=ordered)))
        )
        chosen = (served if single else served.order_by(keys.c.number).limit(limit)).cte("chosen")
        of_queue = (seen.c.room >= limit, seen.c.later.is_(None), seen.c.key_rate.is_(None))
        of_keys = not_(exists(select(ONE).select_from(keys).where(keys.c.rate.is_not(None))))
        is_simple = and_(*of_queue, of_keys)
        if not single:
            is_simple = and_(
                is_simple,
                # A key that may have several of these has to be looked at again.
                not_(exists(select(ONE).select_from(chosen).where(chosen.c.quantum != ONE))),
                select(func.count()).select_from(chosen).scalar_subquery() == limit,
            )
        numbered = self._numbered(chosen).where(exists(select(ONE).select_from(seen).where(is_simple)))
        last: CTE = chosen
        if not single:
            in_turn = select(chosen.c.name, chosen.c.quantum).order_by(chosen.c.number.desc())
            last = in_turn.limit(ONE).cte("last")
        values = {"last_key": last.c.name, "credit": last.c.quantum - ONE}
        claimed = self._claim_in_version(numbered.cte("found"), seen, values).subquery("claimed")
        settings = [seen.c[column.key] for column in self._columns]
        *of_key, number = keys.c
        query = select(
            *settings, seen.c.now, seen.c.held, seen.c.later, seen.c.version, *of_key, *claimed.c
        ).where(self._is_relaxed())
        rows = seen.outerjoin(keys, true()).outerjoin(claimed, claimed.c.id == keys.c.first)
        query = query.select_from(rows)
        return query if single else query.order_by(number)

    def _next_keys(self, seen: CTE, *, ordered: bool, single: bool) -> CTE:
        """Return the keys from where the turn is, of which the first may be the first of all; or one key."""
        k = self._tables.keyed
        last = func.coalesce(seen.c.last_key, literal_column("''"))
        begun = case(
            (seen.c.credit > ZERO, self._next_name(k.c.name >= last)), else_=self._next_name(k.c.name > last)
        )
        name = func.coalesce(begun, self._next_name()).label("name")
        first_name: Any = select(name, ONE.label("number")).select_from(seen)
        # Not found again wherever it is used.
        ring = first_name.cte("ring").prefix_with("MATERIALIZED") if single else self._ring(first_name)
        first = self._first_of_key(ring, ring.c.name, ordered=ordered)
        named = self._keys(ring, ring.c.name, first).where(ring.c.name.is_not(None))
        return named.add_columns(ring.c.number).cte("keys")

    def _is_full(self, seen: CTE, keys: CTE, *, ordered: bool) -> ColumnElement[bool]:
        """Return whether a key has as many claims in force as it may have."""
        k, c = self._tables.keyed, self._tables.claims
        most = ONE if ordered else func.coalesce(keys.c.most, seen.c.key_most)
        name = select(k.c.name).where(k.c.id == c.c.id, self._found_here(k)).scalar_subquery()
        held = select(name.label("name")).select_from(c).where(self._is_held_here()).cte("held")
        # Read once, and not for each key.
        held = held.prefix_with("MATERIALIZED")
        count = select(func.count()).where(held.c.name == keys.c.name).scalar_subquery()
        return case((most.is_(None), ZERO), else_=case((count >= most, ONE), else_=ZERO)) == ONE

    def _claim_in_room(self) -> Select[Any]:
        seen = self._seen(UNKEYED)
        room = select(seen.c.room).scalar_subquery()
        free = self._of_lanes(self._free, within=room).cte("found")
        claimed = self._claim_in_version(free, seen, {}).subquery("claimed")
        settings = [seen.c[column.key] for column in self._columns]
        query = select(*settings, seen.c.now, seen.c.held, *claimed.c)
        return query.select_from(seen.outerjoin(claimed, true())).where(self._is_relaxed())

    def _claim_in_version(
        self, free: CTE, seen: CTE, values: Mapping[str, ColumnElement[Any]]
    ) -> Select[Any]:
        """As :meth:`_claim_found`, for the version of the row that was seen, with the tokens drawn."""

        def moved(count: ColumnElement[int]) -> Mapping[str, ColumnElement[Any]]:
            drawn = func.coalesce(seen.c.begun + count * seen.c.spacing, self._tables.flow.c.drawn)
            return {"drawn": drawn, **values}

        return self._claim_found(free, seen.c.version, moved)

    def _room(self, stored: CTE, keying: int) -> list[ColumnElement[Any]]:
        """Return how many messages may be claimed, with tokens as in ``jdbcstore.stores.claims.buckets``."""
        f, limit = stored.c, bindparam("limit", type_=Integer())
        now_ns = f.now * literal_column(str(NS_PER_MS))
        spacing: ColumnElement[int] = (literal_column(str(RATE_NS)) + f.rate - ONE) // f.rate
        full = now_ns + f.burst * spacing
        begun = func.least(func.greatest(f.drawn, now_ns), full)
        # NULL, where there is no such limit, is not the least.
        left = func.least(limit, f.most - f.held, (full - begun) // spacing)
        closed = or_(f.paused != ZERO, f.keying != literal_column(str(keying)))
        room = case((closed, ZERO), else_=func.greatest(left, ZERO))
        return [room.label("room"), begun.label("begun"), spacing.label("spacing")]

    def _chosen(self) -> Select[Any]:
        ids = func.unnest(bindparam("ids", type_=ARRAY(BigInteger())))
        chosen = ids.table_valued(column("id", BigInteger()), name="chosen").render_derived()
        return self._numbered(chosen).where(self._is_unclaimed(chosen))

    def _numbered(self, chosen: Any) -> Select[Any]:
        """Return messages that were chosen, with the number of their next claim."""
        c = self._tables.claims

        columns = (c.c.taken, (c.c.failed + self._died()).label("failed"))
        # The limit keeps it from becoming a join, for which a planner might read all claims.
        before = select(*columns).where(c.c.id == chosen.c.id).limit(ONE).correlate(chosen).lateral("before")
        taken = func.coalesce(before.c.taken, ZERO) + ONE
        failed = func.coalesce(before.c.failed, ZERO)
        query = select(chosen.c.id, taken.label("taken"), failed.label("failed"))
        return query.select_from(chosen.outerjoin(before, true()))

    def _claim(self, candidates: Select[Any]) -> Select[Any]:
        f, number = self._tables.flow, BigInteger()
        free = candidates.cte("found")
        spacing, drawn = bindparam("spacing", type_=number), bindparam("drawn", type_=number)

        def moved(count: ColumnElement[int]) -> Mapping[str, ColumnElement[Any]]:
            return {
                "last_key": bindparam("last", type_=f.c.last_key.type),
                "credit": bindparam("credit", type_=number),
                "drawn": case((spacing > ZERO, drawn + count * spacing), else_=f.c.drawn),
            }

        claimed = self._claim_found(free, bindparam("version", type_=Text()), moved)
        return claimed.where(self._is_relaxed())

    def _claim_found(
        self,
        free: CTE,
        version: ColumnElement[Any],
        values: Callable[[ColumnElement[int]], Mapping[str, ColumnElement[Any]]],
    ) -> Select[Any]:
        """Claim found messages if the row of the queue has this version, and change the row.

        :param values: returns its new values, of how many were found
        """
        t, f = self._tables.messages, self._tables.flow
        counted = select(func.count().label("count")).select_from(free).cte("counted")
        is_seen = (self._here(f), self._version == version, counted.c.count > ZERO)
        moved = update(f).where(*is_seen).values(values(counted.c.count)).returning(ONE.label("one"))
        # Not locked before, as this may have waited: another process would pass them over meanwhile.
        seen = moved.cte("moved")
        ids = func.array(select(free.c.id).scalar_subquery(), type_=ARRAY(BigInteger()))
        # Not by the index of this column: a planner that knows of no rows would read nearly all with it.
        is_committed = func.coalesce(t.c.xid, literal_column("''")) == literal_column("''")
        locked = (
            select(t.c.id, func.coalesce(t.c.priority, ZERO).label("lane"), t.c.msg)
            .where(self._at(t, ids), is_committed, self._found_here(t), exists(select(seen.c.one)))
            .with_for_update(skip_locked=True)
            .cte("locked")
        )
        mine = select(free.c.id, free.c.taken, free.c.failed).where(free.c.id.in_(select(locked.c.id)))
        taken = self._taken(mine.cte("mine"))
        is_mine = free.c.id.in_(select(taken.c.id)).label("mine")
        columns = (locked.c.lane, free.c.id, locked.c.msg, free.c.failed, is_mine)
        return select(*columns).select_from(free.outerjoin(locked, locked.c.id == free.c.id))
