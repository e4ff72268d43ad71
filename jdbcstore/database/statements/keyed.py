"""The statements that file messages under their keys, and find them there.

Scalar subqueries in place of joins: so a planner that knows of no messages reads one index entry for each.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    FromClause,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.statements.builder import ONE, ZERO
from jdbcstore.database.statements.claims import LANES, FreeMessages

_LATE_MS = 1000
"""For how long after its end a lease counts: a renewal that was in time may be committed late."""


class KeyedMessages(FreeMessages):
    """Filing messages under their keys, and the first message of each key."""

    def _define_keyed(self) -> None:
        t, c, k = self._tables.messages, self._tables.claims, self._tables.keyed
        limit = bindparam("limit", type_=Integer())
        self.has_later = self._compile(lambda: select(self._is_later()))
        """Whether there are messages after an ID, in any lane; NULL if not."""
        self.find_unfiled = self._compile(lambda: union_all(*map(self._unfiled, LANES)))
        """The first messages of each lane after an ID whose keys are not stored yet: each with the beginning
        of MSG, where its group is."""
        self.find_whole = self._of_ids(t, lambda these: select(t.c.msg).where(these))
        self.find_last = self._compile(lambda: select(func.max(t.c.id)))
        self.add_keyed = self._insert(k)
        # By the whole key: of a part InnoDB would lock the gap behind it, where others file theirs. For this
        # PostgreSQL would take an index that finds all keys of the queue.
        here = self._here(k) if self.settles_singly else self._found_here(k)
        self.remove_keyed = self._of_ids(k, lambda these: delete(k).where(these, here), locks=True)
        # Scalar subqueries: for an anti-join a planner reads all messages, or the keys of all.
        of_message = select(ONE).where(t.c.id == k.c.id, self._found_here(t)).scalar_subquery()
        self.find_unkeyed = self._compile(
            lambda: select(k.c.id).where(self._here(k), func.coalesce(of_message, ZERO) == ZERO).limit(limit)
        )
        """Keys of messages that are not in the queue any more."""
        # InnoDB finds a minimum at once if it has not to be of the names after that of another row.
        self.walks = self.settles_singly
        """Whether ``names`` returns one at most."""
        self.names = {
            (inclusive, ordered, single): self._compile(
                partial(self._names, inclusive=inclusive, ordered=ordered, single=single)
            )
            for inclusive in (None, False, True)
            for ordered in (False, True)
            for single in ((True,) if self.walks else (False, True))
        }
        """The next keys that have messages, from the first, from one or after it, with their settings, and
        the first message that can be claimed: any that is free, or only the first of all; or one key only."""
        name = select(k.c.name).where(k.c.id == c.c.id, self._found_here(k)).scalar_subquery()
        self.find_held = self._compile(lambda: select(name).select_from(c).where(self._is_held_here()))
        """The key of each claim in the queue that is in force."""
        self.find_of_key = self._compile(lambda: self._of_key(k).where(self._is_unclaimed(k)).limit(limit))
        """The first free messages of a key."""

        def messages(these: ColumnElement[bool]) -> Select[Any]:
            query = select(t.c.id, func.coalesce(t.c.priority, ZERO), t.c.msg).where(these)
            return query.with_for_update(skip_locked=True) if self._adapter.locks_rows else query

        self.lock_messages = self._of_ids(t, messages)
        columns = (c.c.id, c.c.taken, c.c.failed + self._died(), self._is_held())
        self.find_claims = self._of_ids(c, lambda these: select(*columns).where(these))
        """The claims of messages: their numbers, their failures, and whether they are in force or delayed."""

    def _is_later_keyed(self) -> ColumnElement[Any]:
        return case((self._tables.flow.c.keying > ZERO, self._is_later())).label("later")

    def _is_later(self) -> ColumnElement[Any]:
        t = self._tables.messages
        after = t.c.id > bindparam("after", type_=BigInteger())

        def in_lane(lane: ColumnElement[int]) -> Select[Any]:
            here = (self._committed_here(), t.c.priority == lane, after)
            return select(ONE.label("one")).select_from(t).where(*here).limit(ONE)

        if self.settles_singly:
            # The primary key is part of each index of InnoDB's: one look finds those of all lanes.
            query = select(ONE.label("one")).select_from(t).where(self._committed_here(), after).limit(ONE)
            return self._by_index(query).scalar_subquery()
        # One look into the index of each lane: there, no planner reads the whole queue.
        if self._adapter.chains_writes:
            lanes = self._every_lane()
            row = in_lane(lanes.c.lane).correlate(lanes).lateral("found_in_lane")
            some = select(ONE).select_from(lanes.join(row, true())).limit(ONE)
            of_lanes: ColumnElement[Any] = some.scalar_subquery()
        else:
            each = (in_lane(literal_column(str(lane))).scalar_subquery() for lane in LANES)
            of_lanes = func.coalesce(*each)
        # Most often nothing was added at all.
        any_later = select(ONE).select_from(t).where(after).order_by(t.c.id).limit(ONE).scalar_subquery()
        return case((any_later.is_not(None), of_lanes))

    def _unfiled(self, priority: int) -> Select[Any]:
        t, k = self._tables.messages, self._tables.keyed
        lane = literal_column(str(priority), BigInteger())
        filed = select(ONE).where(k.c.id == t.c.id, self._found_here(k)).scalar_subquery()
        query = (
            select(t.c.id, t.c.priority, self._head(t.c.msg))
            .where(
                self._committed_here(), self._in_lane(lane), t.c.id > bindparam("after", type_=BigInteger())
            )
            .where(func.coalesce(filed, ZERO) == ZERO)
            .order_by(t.c.priority, t.c.id)
            .limit(bindparam("limit", type_=Integer()))
        )
        messages = self._in_order_of_claims(query).subquery()
        return select(*messages.c)

    def _next_name(self, *after: ColumnElement[bool]) -> ColumnElement[Any]:
        """Return the next name by one look into the index, however many messages a key has.

        The first of all has no bound: before the empty name, MariaDB and MySQL sort names that begin with a
        character below the blank.
        """
        k = self._tables.keyed
        here = k.c.container == bindparam("container", type_=k.c.container.type)
        if self._adapter.chains_writes:
            # For a minimum, a planner that knows of no messages reads them all.
            first = select(k.c.name).where(here, *after).order_by(k.c.name).limit(ONE)
        else:
            first = select(func.min(k.c.name)).where(here, *after)
        return first.scalar_subquery()

    def _names(self, *, inclusive: bool | None, ordered: bool, single: bool) -> Select[Any]:
        k = self._tables.keyed
        begin = bindparam("name_", type_=k.c.name.type)
        after = () if inclusive is None else (k.c.name >= begin if inclusive else k.c.name > begin,)
        name = self._next_name(*after).label("name")
        begun: Select[Any] = select(name, ONE.label("number"))
        ring = begun.subquery("ring") if single else self._ring(begun)
        query = self._keys(ring, ring.c.name, self._first_of_key(ring, ring.c.name, ordered=ordered))
        return query.where(ring.c.name.is_not(None)).order_by(ring.c.number)

    def _ring(self, begun: Select[Any]) -> CTE:
        """Return the names that follow a first one, each found by one look, and last a NULL."""
        k = self._tables.keyed
        ring = begun.cte("ring", recursive=True)
        return ring.union_all(
            select(self._next_name(k.c.name > ring.c.name), ring.c.number + ONE).where(
                ring.c.name.is_not(None), ring.c.number < bindparam("number", type_=Integer())
            )
        )

    def _keys(self, ring: FromClause, name: ColumnElement[Any], first: ColumnElement[Any]) -> Select[Any]:
        """Return the settings of keys, and the first message of each that can be claimed."""
        f = self._tables.flow_keys
        of_key = and_(f.c.container == bindparam("container", type_=f.c.container.type), f.c.name == name)
        settings: FromClause = f
        if self._adapter.chains_writes:
            # Otherwise a planner that knows of no rows reads all keys of the queue that have any.
            settings = select(f).where(of_key).limit(ONE).correlate(ring).lateral("settings")
        columns = [settings.c[name] for name in ("paused", "most", "weight", "rate", "burst", "drawn")]
        query = select(name, *columns, first.label("first"), self._now.label("now"))
        return query.select_from(ring.outerjoin(settings, true() if settings is not f else of_key))

    def _first_of_key(
        self, ring: FromClause, name: ColumnElement[Any], *, ordered: bool
    ) -> ColumnElement[Any]:
        keyed = self._tables.keyed.alias("one")
        message = self._of_key(keyed, name).limit(ONE)
        if ordered:
            message = message.with_only_columns(case((self._is_unclaimed(keyed), keyed.c.id)))
        else:
            message = message.where(self._is_unclaimed(keyed))
        first: ColumnElement[Any] = message.correlate(ring).scalar_subquery()
        return first

    def _of_key(self, k: Any, name: ColumnElement[Any] | None = None) -> Select[Any]:
        t = self._tables.messages
        there = select(ONE).where(
            t.c.id == k.c.id, t.c.xid.is_(None), self._found_here(t), self._is_current()
        )
        return (
            select(k.c.id)
            .where(
                k.c.container == bindparam("container", type_=k.c.container.type),
                k.c.name == (bindparam("name_", type_=k.c.name.type) if name is None else name),
                there.scalar_subquery() == ONE,
            )
            .order_by(k.c.lane, k.c.id)
        )

    def _is_unclaimed(self, k: Any) -> ColumnElement[bool]:
        c = self._tables.claims
        of_claim = select(self._is_held()).where(c.c.id == k.c.id).correlate(k).scalar_subquery()
        return func.coalesce(of_claim, ZERO) == ZERO

    def _is_held_here(self) -> ColumnElement[bool]:
        t, c, s = self._tables.messages, self._tables.claims, self._tables.claim_sessions
        # Scalar subqueries are never joins, for which a planner might read all messages of the queue.
        expires = func.coalesce(select(s.c.expires).where(s.c.id == c.c.session).scalar_subquery(), ZERO)
        here = select(ONE).where(t.c.id == c.c.id, self._found_here(t)).scalar_subquery()
        late: ColumnElement[int] = literal_column(str(_LATE_MS))
        return and_(c.c.session >= ZERO, expires + late >= self._now, here == ONE)
