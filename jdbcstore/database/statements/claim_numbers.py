"""The statements that count free, claimed and delayed messages without claiming.

None of them reads all messages of a queue: they count up to a limit, and find the next name or message by one
look into an index. Their cost grows with the claims, which are read whole.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Integer,
    Select,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    not_,
    or_,
    select,
    union_all,
)
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.statements.builder import ONE, ZERO
from jdbcstore.database.statements.claims import LANES, FreeMessages


class ClaimNumberStatements(FreeMessages):
    """The statements of numbers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        t, c, s = self._tables.messages, self._tables.claims, self._tables.claim_sessions
        limit = bindparam("limit", type_=Integer())
        claims = select(func.count()).where(c.c.session == s.c.id).scalar_subquery()
        self.find_workers = self._compile(
            lambda: (
                select(s.c.id, s.c.name, s.c.expires - self._now, self._now, claims)
                .where(or_(s.c.expires >= self._now, claims > ZERO))
                .order_by(s.c.name, s.c.id)
            )
        )
        """The sessions with their leases in milliseconds, the time, and their claims; ended ones if they
        have left claims."""
        self.find_numbers = self._compile(self._numbers)
        """Of each queue the claims in force, the delayed messages, the failures, and the first message that
        is claimed. Reads all claims."""
        after = t.c.container > bindparam("after_", type_=t.c.container.type)
        self.next_container = self._compile(lambda: self._next(t.c.container, after))
        """The next destination that has messages; NULL or nothing after the last."""
        here = select(ONE.label("one")).where(self._committed_here()).limit(limit)
        self.count_some = self._compile(
            lambda: select(func.count()).select_from(here.subquery("some_messages"))
        )
        """The number of messages in a queue, up to a limit."""
        self.find_first_free = self._compile(lambda: union_all(*map(self._first_free, LANES)))
        """The first free message of each lane, also an expired one: of these a queue may be full."""
        self.find_heads = self._of_ids(t, lambda these: select(t.c.id, self._head(t.c.msg)).where(these))
        """With the beginning of MSG."""
        name = select(s.c.name).where(s.c.id == c.c.session, s.c.expires >= self._now).scalar_subquery()
        columns = (c.c.id, name, c.c.due - self._now, c.c.failed)
        self.find_held = self._compile(
            lambda: (
                select(*columns)
                .where(self._is_claim_here(), self._is_held() == ONE)
                .order_by(c.c.id)
                .limit(limit)
            )
        )
        """The first messages of a queue that are claimed or delayed. Reads all claims at most."""
        self._define_keys()

    def _define_keys(self) -> None:
        c, k = self._tables.claims, self._tables.keyed
        limit = bindparam("limit", type_=Integer())
        begin = bindparam("name_", type_=k.c.name.type)
        in_queue = k.c.container == bindparam("container", type_=k.c.container.type)
        self.first_key = self._compile(lambda: self._next(k.c.name, in_queue))
        """The first key that has messages, in the database's order, in which the empty one may be later."""
        self.next_key = self._compile(lambda: self._next(k.c.name, in_queue, k.c.name > begin))
        """The next key that has messages, likewise."""
        of_key = select(ONE.label("one")).where(in_queue, k.c.name == begin).limit(limit)
        self.count_of_key = self._compile(
            lambda: select(func.count()).select_from(of_key.subquery("some_messages"))
        )
        """The number of messages of a key, up to a limit."""
        key = select(k.c.name).where(k.c.id == c.c.id, self._found_here(k)).scalar_subquery()
        self.find_numbers_of_keys = self._compile(
            lambda: self._sums(key.label("name"), self._is_claim_here())
        )
        """As ``find_numbers``, of each key of a queue. Reads all claims."""

    def _next(self, name: ColumnElement[str], *conditions: ColumnElement[bool]) -> Select[Any]:
        if self._adapter.chains_writes:
            # For a minimum, a planner that knows of no rows reads them all.
            return select(name).where(*conditions).order_by(name).limit(ONE)
        return select(func.min(name)).where(*conditions)

    def _is_claim_here(self) -> ColumnElement[bool]:
        t, c = self._tables.messages, self._tables.claims
        # Not a join, for which a planner might read all messages.
        here = select(ONE).where(t.c.id == c.c.id, self._found_here(t)).scalar_subquery()
        return here == ONE

    def _first_free(self, lane: int) -> Select[Any]:
        t = self._tables.messages
        query = (
            select(t.c.id)
            .where(self._committed_here(), self._in_lane(literal_column(str(lane))))
            .where(self._is_free())
            .order_by(t.c.priority, t.c.id)
            .limit(ONE)
        )
        free = self._in_order_of_claims(query).subquery()
        return select(free.c.id)

    def _numbers(self) -> Select[Any]:
        t, c = self._tables.messages, self._tables.claims
        # Not a join, as above.
        container = select(t.c.container).where(t.c.id == c.c.id).scalar_subquery()
        return self._sums(container.label("name"))

    def _sums(self, name: ColumnElement[Any], *conditions: ColumnElement[bool]) -> Select[Any]:
        """Return the numbers of claimed, delayed and failed messages, and the first claim, by a name."""
        c = self._tables.claims
        held = self._is_alive(c.c.session)
        each = (
            select(
                name,
                case((held, ONE), else_=ZERO).label("held"),
                case((and_(not_(held), c.c.due > self._now), ONE), else_=ZERO).label("delayed"),
                (c.c.failed + case((held, ZERO), else_=self._died())).label("failed"),
                case((held, c.c.id)).label("id"),
            )
            .select_from(c)
            .where(*conditions)
            .subquery("each_claim")
        )
        sums = (func.sum(each.c.held), func.sum(each.c.delayed), func.sum(each.c.failed))
        query = select(each.c.name, *sums, func.min(each.c.id)).where(each.c.name.is_not(None))
        return query.group_by(each.c.name)
