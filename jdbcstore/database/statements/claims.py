"""The statements by which several processes claim messages of one queue.

A claim is a row of JDBCSTORE_CLAIMS with a session, and it is in force while that session's lease is running
by the database's clock. Without such a row, or with one whose session is missing or has expired, a message is
free. Messages are never rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import cycle, islice
from typing import Any

from sqlalchemy import (
    ARRAY,
    CTE,
    BigInteger,
    FromClause,
    Integer,
    Select,
    and_,
    any_,
    bindparam,
    case,
    column,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    not_,
    null,
    or_,
    select,
    text,
    true,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import insert as insert_or_update
from sqlalchemy.sql import ClauseElement, ColumnElement

from jdbcstore.database.adapters.sql import Sql, SqlText
from jdbcstore.database.schema import CLOCK_ROW, EPOCH_ROW, ROUTING_ROW, SEQUENCE_ROW
from jdbcstore.database.statements.builder import ONE, ZERO, StatementBuilder

LANES = (9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
"""The priorities, in the order in which messages are claimed."""
LISTED = (1, 16, 256)
"""The numbers of IDs that one statement takes, where it does not take an array."""
NUMBERS = 256
"""The most numbers of the sequence that one statement returns."""
HEAD = 4096
"""The bytes of MSG that are read for a header."""
_LATER = 1024
"""The claims, of any queues, among which the last one of a lane is looked for."""
_DAY_MS = 86_400_000


class OfIds:
    """A statement about some messages, given by their IDs."""

    def __init__(self, compiled: Callable[[int], Sql], *, takes_arrays: bool, singly: bool = False) -> None:
        self._array = compiled(0) if takes_arrays else None
        self._lengths = LISTED[:1] if singly else LISTED
        self._listed = {} if takes_arrays else {count: compiled(count) for count in self._lengths}

    def parts(self, ids: Sequence[int]) -> list[tuple[Sql, dict[str, Any]]]:
        """Return the statements to run, each with its parameters for the IDs."""
        if self._array is not None:
            return [(self._array, {"ids": [*ids]})]
        parts = []
        for start in range(0, len(ids), self._lengths[-1]):
            some = ids[start : start + self._lengths[-1]]
            length = next(length for length in self._lengths if length >= len(some))
            filled = {f"id_{number}": id_ for number, id_ in enumerate(islice(cycle(some), length))}
            parts.append((self._listed[length], filled))
        return parts


class LeaseConditions(StatementBuilder):
    """Conditions of statements about claims; ``now`` in all of them is the database's clock."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._now: ColumnElement[int] = literal_column(self._adapter.now_ms, BigInteger())

    def _is_alive(self, session: ColumnElement[Any]) -> ColumnElement[bool]:
        s = self._tables.claim_sessions
        return exists(select(ONE).select_from(s).where(s.c.id == session, s.c.expires >= self._now))

    def _is_relaxed(self) -> ColumnElement[bool]:
        """Return true; the commit of this transaction does not wait, where the vendor chains writes."""
        return select(func.set_config("synchronous_commit", "off", true())).scalar_subquery().is_not(None)

    def _head(self, blob: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the first bytes of MSG, with the headers of most messages; bodies may be large."""
        return func.substr(blob, ONE, literal_column(str(HEAD))).label("head")

    def _is_current(self) -> ColumnElement[bool]:
        t = self._tables.messages
        return or_(t.c.expiration.is_(None), t.c.expiration <= ZERO, t.c.expiration >= self._now)

    def _in_lane(self, lane: ColumnElement[int]) -> ColumnElement[bool]:
        priority = self._tables.messages.c.priority
        # A planner that sees an equality takes an order by ID for this one, and reads the primary key: all
        # messages of other priorities and queues.
        return priority.between(lane, lane) if self._adapter.chains_writes else priority == lane

    def _in_order_of_claims(self, query: Select[Any]) -> Select[Any]:
        if not self._adapter.index_hint:
            return query
        # Otherwise the planner sorts, and InnoDB locks all that it sorts.
        hint = self._adapter.index_hint.format(index=self._tables.claim_index.name)
        return query.with_hint(self._tables.messages, hint)

    @property
    def settles_singly(self) -> bool:
        """Whether messages are locked one by one: for a list InnoDB may scan, and wait for any row."""
        return self._adapter.locks_rows and not self._adapter.takes_arrays

    def _at(self, table: Any, ids: ColumnElement[Any]) -> ColumnElement[bool]:
        """Find rows by an array of IDs, each through an index that begins with it; where writes are chained.

        For the array itself a planner that knows of no rows reads all of any index that has the ID somewhere.
        """
        row = table.alias("one")
        place: ColumnElement[Any] = column(self._adapter.row_place)
        these = func.unnest(ids).table_valued(column("id", BigInteger()), name="these").render_derived()
        places = select(place).select_from(row).where(row.c.id.between(these.c.id, these.c.id))
        in_order = places.order_by(row.c.id).limit(ONE).correlate(these).scalar_subquery()
        return place == any_(func.array(select(in_order).select_from(these).scalar_subquery()))

    def _of_ids(
        self, table: Any, made: Callable[[ColumnElement[bool]], ClauseElement], *, locks: bool = False
    ) -> OfIds:
        def compiled(count: int) -> Sql:
            return self._compile(partial(_about, table, made, count))

        singly = locks and self.settles_singly
        return OfIds(compiled, takes_arrays=self._adapter.takes_arrays, singly=singly)


class FreeMessages(LeaseConditions):
    """Conditions and parts of statements that claim messages."""

    def _of_claim(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a value of the message's row of claims, or 0. A scalar subquery is never a join."""
        c, t = self._tables.claims, self._tables.messages
        return func.coalesce(select(value).where(c.c.id == t.c.id).correlate(t).scalar_subquery(), ZERO)

    def _is_held(self) -> ColumnElement[int]:
        """Return whether a claim is in force or delayed."""
        c = self._tables.claims
        return case((or_(c.c.due > self._now, self._is_alive(c.c.session)), ONE), else_=ZERO)

    def _is_free(self) -> ColumnElement[bool]:
        return self._of_claim(self._is_held()) == ZERO

    def _died(self) -> ColumnElement[int]:
        """Return the failure that a claim of a session counts, once it is not in force."""
        return case((self._tables.claims.c.session.is_not(None), ONE), else_=ZERO)

    def _free(self, lane: ColumnElement[int], mark: ColumnElement[int]) -> Select[Any]:
        """Return free messages of one priority in order, with the number of their next claim."""
        t, c = self._tables.messages, self._tables.claims
        columns = (
            t.c.id,
            t.c.msg,
            (self._of_claim(c.c.taken) + ONE).label("taken"),
            self._of_claim(c.c.failed + self._died()).label("failed"),
        )
        return (
            select(*columns)
            .where(self._committed_here(), self._in_lane(lane), t.c.id >= mark)
            .where(self._is_current(), self._is_free())
            .order_by(t.c.priority, t.c.id)
            .limit(bindparam("limit", type_=Integer()))
        )

    def _of_lanes(
        self,
        free: Callable[[ColumnElement[int], ColumnElement[int]], Select[Any]],
        within: ColumnElement[int] | None = None,
    ) -> Select[Any]:
        """Return messages of some lanes, in one statement; where the vendor takes arrays.

        :param within: the most of all lanes, if it is not the limit of each
        """
        lanes = self._every_lane("mark", "leap")
        end = self._end(lanes)
        candidates = free(lanes.c.lane, func.coalesce(end.c.place, lanes.c.mark)).lateral("free")
        begins = lanes.outerjoin(end, true()).join(candidates, true())
        limit = bindparam("limit", type_=Integer()) if within is None else within
        return select(lanes.c.lane, *candidates.c).select_from(begins).limit(limit)

    def _every_lane(self, *names: str) -> Any:
        """Return all lanes, each with the elements that belong to it of arrays: ``marks`` for ``mark``."""
        # Written into the text: the driver takes longer for each array than the server does.
        every: ColumnElement[Any] = literal_column(f"CAST('{{{','.join(map(str, LANES))}}}' AS BIGINT[])")
        arrays = (bindparam(f"{name}s", type_=ARRAY(BigInteger())) for name in names)
        columns = (column(name, BigInteger()) for name in ("lane", *names))
        return func.unnest(every, *arrays).table_valued(*columns, name="lanes").render_derived()

    def _end(self, lanes: Any) -> Any:
        """Return the place behind the last message that is claimed in a lane, within its leap."""
        c, t = self._tables.claims, self._tables.messages
        within = (lanes.c.leap > ZERO, c.c.id >= lanes.c.mark, c.c.id < lanes.c.mark + lanes.c.leap)
        later = select(c.c.id, c.c.session).where(*within).order_by(c.c.id.desc())
        last = later.limit(literal_column(str(_LATER))).correlate(lanes).subquery("last")
        lane = select(t.c.priority).where(t.c.id == last.c.id, self._found_here(t)).scalar_subquery()
        # Not of messages that are delayed: those before them are free.
        query = select((last.c.id + ONE).label("place"))
        query = query.where(self._is_alive(last.c.session), lane == lanes.c.lane)
        return query.order_by(last.c.id.desc()).limit(ONE).correlate(lanes).lateral("end")

    def _taken(self, free: FromClause) -> CTE:
        """Claim messages for a session, unless another one was faster; return their IDs.

        Nothing here waits for a claim: a settlement may have locked it, and wait for its message.
        """
        c, me = self._tables.claims, bindparam("session", type_=BigInteger())
        claimed = select(free.c.id).where(free.c.taken > ONE).scalar_subquery()
        before = c.c.id == any_(func.array(claimed, type_=ARRAY(BigInteger())))
        old = select(c.c.id).where(before).with_for_update(skip_locked=True).cte("old")
        number = select(free.c.taken).where(free.c.id == c.c.id).correlate(c).scalar_subquery()
        retaken = (
            update(c)
            .where(before, c.c.id.in_(select(old.c.id)), c.c.taken == number - ONE)
            .values(session=me, due=ZERO, taken=c.c.taken + ONE, failed=c.c.failed + self._died())
            .returning(c.c.id)
            .cte("retaken")
        )
        taken = (
            insert_or_update(c)
            .from_select(
                ["id", "session", "due", "taken", "failed"],
                select(free.c.id, me, ZERO, free.c.taken, free.c.failed).where(free.c.taken == ONE),
            )
            .on_conflict_do_nothing()
            .returning(c.c.id)
            .cte("taken")
        )
        return union_all(select(taken.c.id), select(retaken.c.id)).cte("both")


class ClaimStatements(FreeMessages):
    """The statements of claims, their sessions and IDs."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._define_sessions()
        self._define_claims()
        self._define_settlements()
        self._define_upkeep()

    def _define_sessions(self) -> None:
        s = self._tables.claim_sessions
        lease = self._now + bindparam("lease_ms", type_=BigInteger())
        mine = s.c.id == bindparam("session", type_=BigInteger())
        self.add_session = self._compile(
            lambda: insert(s).values(id=bindparam("session"), name=bindparam("name_"), expires=lease)
        )
        self.renew_session = self._compile(
            lambda: update(s).where(mine, s.c.expires >= self._now).values(expires=lease)
        )
        self.remove_session = self._compile(lambda: delete(s).where(mine))
        self.remove_worker = self._compile(
            lambda: delete(s).where(self._equal(s.c.name, bindparam("name_", type_=s.c.name.type)))
        )
        self.find_sessions = self._compile(
            lambda: select(s.c.id, s.c.name, s.c.expires - self._now).where(s.c.expires >= self._now)
        )
        state, now = self._tables.state, bindparam("now", type_=BigInteger())
        of_clock, back = state.c.name == literal(CLOCK_ROW), bindparam("back", type_=BigInteger())
        self.find_clock = self._compile(lambda: select(state.c.number, self._now).where(of_clock))
        """The latest time that was noted, and the time."""
        self.note_clock = self._compile(
            lambda: update(state).where(of_clock, state.c.number == bindparam("noted")).values(number=now)
        )
        self.set_leases_back = self._compile(
            lambda: update(s).where(s.c.expires > now).values(expires=s.c.expires - back)
        )
        c = self._tables.claims
        self.set_delays_back = self._compile(
            lambda: update(c).where(c.c.due > now).values(due=c.c.due - back)
        )
        self.remove_old_sessions = self._compile(
            lambda: delete(s).where(s.c.expires < self._now - literal_column(str(_DAY_MS)))
        )

    def _define_claims(self) -> None:
        t, c, s = self._tables.messages, self._tables.claims, self._tables.claim_sessions
        lane, mark = bindparam("lane", type_=BigInteger()), bindparam("mark", type_=BigInteger())
        me = bindparam("session", type_=BigInteger())

        def has_lane(priority: int) -> ColumnElement[Any]:
            begins = t.c.id >= bindparam(f"mark_{priority}", type_=BigInteger())
            here = and_(self._committed_here(), t.c.priority == literal_column(str(priority)), begins)
            return select(ONE).select_from(t).where(here).limit(ONE).scalar_subquery()

        self.find_lanes = self._compile(lambda: select(*map(has_lane, LANES)))
        self.find_free = self._compile(lambda: self._in_order_of_claims(self._free_locked(lane, mark)))
        self.claim = self._compile(self._claim)
        """All in one statement, where the vendor chains writes."""
        self.find_claims = self._of_ids(c, lambda these: select(c.c.id, c.c.taken).where(these))
        self.add_claim = self._insert(c)
        self.take_claim = self._compile(
            lambda: (
                update(c)
                .where(c.c.id == bindparam("id_"), c.c.taken == bindparam("taken") - ONE)
                .values(session=me, due=ZERO, taken=bindparam("taken"), failed=bindparam("failed"))
            )
        )

        def mine(these: ColumnElement[bool]) -> Select[Any]:
            query = select(c.c.id).where(these, c.c.session == me, self._is_alive(me)).order_by(c.c.id)
            return query.with_for_update() if self._adapter.locks_rows else query

        self.find_mine = self._of_ids(c, mine, locks=True)

        def locked(these: ColumnElement[bool]) -> ClauseElement:
            mine = and_(these, c.c.session == me)
            if not self._adapter.locks_rows:
                return update(c).where(mine).values(taken=c.c.taken)
            return select(c.c.id).where(mine).order_by(c.c.id).with_for_update()

        self.lock_claims = self._of_ids(c, locked, locks=True)
        """Lock claims of a session, expired or not; without locks of rows, the whole database."""
        self.find_those = self._of_ids(c, lambda these: select(c.c.id).where(these, c.c.session == me))
        """The claims of a session, of those given."""
        where = self._adapter.whereabouts
        self.find_place = (
            Sql(lambda: SqlText(where, (), {}))
            if where
            else self._compile(lambda: select(s.c.id).where(s.c.id == me))
        )
        """Rows that only a connection to the same database finds; without ``whereabouts``, the session's."""

    def _define_settlements(self) -> None:
        t, c = self._tables.messages, self._tables.claims
        me = bindparam("session", type_=BigInteger())
        self.remove_claims = self._of_ids(c, lambda these: delete(c).where(these), locks=True)
        delay = bindparam("delay_ms", type_=BigInteger())
        self.return_claims = self._of_ids(
            c,
            lambda these: (
                update(c)
                .where(these, c.c.session == me)
                .values(
                    session=null(),
                    due=case((delay > ZERO, self._now + delay), else_=ZERO),
                    failed=c.c.failed + bindparam("failures", type_=BigInteger()),
                )
            ),
            locks=True,
        )
        self.find_all = self._compile(lambda: select(c.c.id).where(c.c.session == me))
        self.return_all = self._compile(
            lambda: update(c).where(c.c.session == me).values(session=null(), due=ZERO)
        )
        here = select(ONE).where(t.c.id == c.c.id, self._found_here(t)).scalar_subquery()
        self.release_claim = self._compile(
            lambda: (
                update(c)
                .where(c.c.id == bindparam("id_"), or_(c.c.session.is_not(None), c.c.due > self._now))
                .where(here == ONE)
                .values(session=null(), due=ZERO)
            )
        )
        """Free a claimed or delayed message of a queue."""
        self.delay_message = self._compile(
            lambda: insert(c).values(
                id=bindparam("id_"), session=null(), due=self._now + delay, taken=ONE, failed=ZERO
            )
        )
        self.acknowledge = self._compile(self._acknowledge)
        """All in one statement, where the vendor chains writes."""

    def _free_locked(self, lane: ColumnElement[int], mark: ColumnElement[int]) -> Select[Any]:
        query = self._free(lane, mark)
        if not self._adapter.locks_rows:
            return query
        return query.with_for_update(skip_locked=True, of=self._tables.messages)

    def _claim(self) -> Select[Any]:
        free = self._of_lanes(self._free_locked).cte("found")
        taken = self._taken(free)
        # Not a join: the planner expects one row, and would compare each with each.
        mine = free.c.id.in_(select(taken.c.id))
        query = select(free.c.lane, free.c.id, free.c.msg, free.c.failed, mine.label("mine"))
        # The commit does not wait for the disk or a standby: a claim that a crash undoes is a free message.
        return query.where(self._is_relaxed())

    @cached_property
    def acknowledge_keyed(self) -> Sql:
        """As :attr:`acknowledge`, of a queue whose messages are claimed by their keys."""
        return self._compile(partial(self._acknowledge, keyed=True))

    def _acknowledge(self, *, keyed: bool = False) -> Select[Any]:
        t, c = self._tables.messages, self._tables.claims
        ids, me = bindparam("ids", type_=ARRAY(BigInteger())), bindparam("session", type_=BigInteger())
        query = select(c.c.id).where(c.c.id == any_(ids), c.c.session == me, self._is_alive(me))
        mine = query.order_by(c.c.id).with_for_update().cte("mine")
        count = select(func.count()).select_from(mine).scalar_subquery()
        every = count == bindparam("count", type_=BigInteger())
        # Messages before their claims, in the order in which claiming locks both.
        gone = delete(t).where(self._at(t, ids), every).returning(ONE.label("one")).cte("gone")
        are_gone = select(func.count()).select_from(gone).scalar_subquery() == count
        settled = delete(c).where(c.c.id == any_(ids), every, are_gone).cte("settled")
        query = select(mine.c.id, are_gone.label("are_gone")).add_cte(settled)
        if not keyed:
            return query
        k = self._tables.keyed
        return query.add_cte(delete(k).where(self._at(k, ids), every).cte("unkeyed"))

    def _define_upkeep(self) -> None:
        t, c = self._tables.messages, self._tables.claims

        def unclaimed(these: ColumnElement[bool]) -> Select[Any]:
            held = self._of_claim(case((self._is_alive(c.c.session), ONE), else_=ZERO))
            query = select(t.c.id).where(these, held == ZERO)
            return query.with_for_update(skip_locked=True) if self._adapter.locks_rows else query

        self.lock_unclaimed = self._of_ids(t, unclaimed)
        self.move_messages = self._of_ids(
            t,
            lambda these: update(t).where(these).values(container=bindparam("target"), expiration=ZERO),
            locks=True,
        )
        highest, lowest = LANES[0], LANES[-1]
        can_be_claimed = (t.c.priority.between(lowest, highest), self._is_current(), self._is_free())
        self.count = self._compile(
            lambda: select(
                func.count(),
                func.coalesce(func.sum(case((and_(*can_be_claimed), ONE), else_=ZERO)), ZERO),
            ).where(self._committed_here())
        )
        overdue = and_(t.c.expiration > ZERO, t.c.expiration < self._now)
        self.find_expired = self._compile(
            lambda: (
                select(t.c.id)
                .where(self._committed_here(), overdue, t.c.id > bindparam("after", type_=BigInteger()))
                .order_by(t.c.id)
                .limit(bindparam("limit", type_=Integer()))
            )
        )
        # A range of the index each, as lanes are: rows of others, or from before the column.
        outside = (t.c.priority.is_(None), t.c.priority < lowest, t.c.priority > highest)

        def strays(these: ColumnElement[bool]) -> Select[Any]:
            query = select(t.c.id).where(self._committed_here(), these).order_by(t.c.priority, t.c.id)
            query = self._in_order_of_claims(query)
            strays = query.limit(bindparam("limit", type_=Integer())).subquery()
            return select(strays.c.id)

        self.find_strays = self._compile(lambda: union_all(*map(strays, outside)))
        """Messages whose priority is in no lane."""
        nearest = case((t.c.priority > highest, literal_column(str(highest))), else_=ZERO)
        self.bring_in = self._of_ids(
            t, lambda these: update(t).where(these, or_(*outside)).values(priority=nearest), locks=True
        )
        self.remove_stale = self._compile(
            lambda: delete(c).where(not_(exists(select(ONE).select_from(t).where(t.c.id == c.c.id))))
        )

    @cached_property
    def add_numbered(self) -> Mapping[bool, Sql]:
        """Add a message with the next number of the sequence, where the vendor chains writes; its ID.

        If true, also file it under its key.
        """
        return self._filing(self._add_numbered)

    @cached_property
    def add_routed(self) -> Mapping[bool, Sql]:
        """As :attr:`add_numbered`, if ``version`` is still the number of changes of what routes messages."""
        return self._filing(lambda *, files: self._add_numbered(self._is_version(), files=files))

    @cached_property
    def add_transient(self) -> Mapping[bool, Sql]:
        """As :attr:`add_routed`; the commit waits neither for the disk nor for a standby."""
        return self._filing(
            lambda *, files: self._add_numbered(self._is_version(), self._is_relaxed(), files=files)
        )

    def _filing(self, add: Callable[..., ClauseElement]) -> Mapping[bool, Sql]:
        return {files: self._compile(partial(add, files=files)) for files in (False, True)}

    @cached_property
    def relax(self) -> Sql:
        """Have the commit of this transaction not wait for the disk or a standby, where the vendor can."""
        return self._compile(lambda: select(ONE).where(self._is_relaxed()))

    def _is_version(self) -> ColumnElement[bool]:
        state = self._tables.state
        version = select(state.c.number).where(state.c.name == literal(ROUTING_ROW)).scalar_subquery()
        return version == bindparam("version", type_=BigInteger())

    def _add_numbered(self, *conditions: ColumnElement[bool], files: bool) -> ClauseElement:
        """Add one message while ``epoch`` is the last epoch, which does not end before the commit."""
        t, state = self._tables.messages, self._tables.state
        epoch = state.c.number == bindparam("epoch", type_=BigInteger())
        in_epoch = select(ONE).select_from(state).where(state.c.name == literal(EPOCH_ROW), epoch)
        guard = self._adapter.shared(in_epoch).cte("guard")
        conditions = (exists(select(ONE).select_from(guard)), *conditions)
        given = select(self._tables.claim_ids.next_value().label("id")).where(*conditions).cte("given")
        # The blob has the ID as well.
        blob = bindparam("head", type_=t.c.msg.type).op("||")(func.int8send(given.c.id))
        values: dict[str, Any] = {
            column.key: bindparam(column.key, type_=column.type) for column in t.columns
        }
        values |= {
            "id": given.c.id,
            "msg": blob.op("||")(bindparam("tail", type_=t.c.msg.type)),
            "xid": null(),
        }
        query = insert(t).from_select([*values], select(*values.values())).returning(t.c.id)
        if not files:
            return query
        k = self._tables.keyed
        names = ("container", "key_name", "lane")
        row = zip(names, (k.c.container, k.c.name, k.c.lane), strict=True)
        filed = select(given.c.id, *(bindparam(name, type_=column.type) for name, column in row))
        return query.add_cte(insert(k).from_select(["id", "container", "name", "lane"], filed).cte("filed"))

    @cached_property
    def ids_name(self) -> str:
        """The quoted name of the sequence."""
        return self._dialect.identifier_preparer.format_sequence(self._tables.claim_ids)

    @cached_property
    def take_ids(self) -> Sql:
        """Take ``count`` numbers after the highest sequence, where there is no sequence of the vendor's."""
        state = self._tables.state
        number = state.c.number + bindparam("count", type_=BigInteger())
        of_all = state.c.name == literal(SEQUENCE_ROW)
        return self._compile(lambda: update(state).where(of_all).values(number=number))

    @cached_property
    def next_ids(self) -> Sql:
        """The next ``limit`` numbers of the sequence, :data:`NUMBERS` at most."""
        query = select(self._tables.claim_ids.next_value()).limit(bindparam("limit", type_=Integer()))
        return self._compile(lambda: query.select_from(text(self._adapter.series)))

    @cached_property
    def last_id(self) -> Sql:
        """A number that is not below any that the sequence has given."""
        return self._compile(
            lambda: select(literal_column(self._adapter.last_number)).select_from(text(self.ids_name))
        )


def _about(table: Any, made: Callable[[ColumnElement[bool]], ClauseElement], count: int) -> ClauseElement:
    if not count:
        return made(table.c.id == any_(bindparam("ids", type_=ARRAY(BigInteger()))))
    return made(table.c.id.in_([bindparam(f"id_{number}") for number in range(count)]))
