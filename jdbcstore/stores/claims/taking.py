"""Taking free messages of a queue: the statements of one claim, within the limits that the queue has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.claims import LANES, ClaimStatements
from jdbcstore.database.statements.flow import FlowStatements
from jdbcstore.stores.claims.claiming import still_free, write_claims
from jdbcstore.stores.claims.flow import CLAIMED, QueueFlow, Room
from jdbcstore.stores.claims.keys import Choice, KeyedTaking
from jdbcstore.stores.claims.marks import FEW, START, Begin

_TURNS = 128
"""Claims that take turns after a claim that came too late for every row it found."""


class Taking:
    """Finds free messages of one queue, and claims them for a session."""

    def __init__(self, session: DatabaseSession, container: str, flow: QueueFlow) -> None:
        self._adapter = session.adapter
        self._sql = session.of(ClaimStatements)
        self._container = container
        self._flow = flow
        self._flow_sql = session.of(FlowStatements)
        self._was_empty = False
        self._turns = 0
        self._name = f"claims of {session.tables.messages.name} {container}"
        self.keyed = KeyedTaking(session, container)
        """For a queue whose messages are claimed by their keys."""

    def take(
        self, connection: Connection, session: int, begin: Begin, limit: int, *, framed: bool = False
    ) -> list[Row]:
        """Claim messages in a transaction of its own; or in the caller's, if that is ``framed``."""
        if self._adapter.chains_writes:
            while True:
                rows = self._find(connection, session, begin, limit)
                if not rows and any(begin.leaps):
                    begin = begin.near()
                    continue
                # Others may claim a message after this statement's snapshot, and before it is locked; or be
                # about to settle a claim whose lease has expired.
                mine = [row[:4] for row in rows if row[4]]
                if mine or not rows:
                    return mine
                begin = begin.after({row[0]: row[1] for row in rows})
                self._turns = 0 if framed else _TURNS
        # Looked at without a lock first: an idle process writes nothing.
        lanes = self._find_lanes(connection, begin)
        if not lanes:
            return []
        if framed:
            return self._take_from(connection, session, lanes, limit)
        with connection.transaction():
            return self._take_from(connection, session, lanes, limit)

    def begin_among(self, processes: int) -> None:
        """Take turns from now on, if these processes are so many that some begin at the same time."""
        if processes > FEW:
            self._turns = _TURNS

    def _find(self, connection: Connection, session: int, begin: Begin, limit: int) -> list[Row]:
        """Claim messages in one statement.

        Where many processes claim, most find the same ones, and all but one are late: so they take turns.
        """
        values = {"marks": begin.marks, "leaps": begin.leaps, "session": session, "limit": limit}
        return self._fetch(connection, self._sql.claim, container=self._container, **values)

    def _fetch(self, connection: Connection, sql: Sql, **values: Any) -> list[Row]:
        if self._turns <= 0:
            return connection.fetch(sql, **values)
        self._turns -= 1
        rows, came = connection.fetch_in_turn(self._name, sql, **values)
        if not came:
            self._turns = 0
        return rows

    def take_limited(self, connection: Connection, session: int, begin: Begin, limit: int) -> list[Row]:
        """As :meth:`take`, as far as the settings of the queue leave room."""
        flow = self._flow
        # Processes that wait for room or for messages lock and write nothing.
        seen = START if flow.is_keyed else begin
        rows = None
        if self._adapter.chains_writes:
            rows = self._take_seen(connection, session, begin, limit)
            if rows is None and self._turns == _TURNS:
                rows = self._take_seen(connection, session, begin, limit)
        elif self._was_empty and not (flow.has_room(connection) and self._find_lanes(connection, seen)):
            return []
        while rows is None:
            rows = self._take_locked(connection, session, begin, limit)
        self._was_empty = not rows
        return rows

    def file_keys(self, connection: Connection) -> None:
        """Look for messages whose keys are not known, where there are keys."""
        if self._flow.is_keyed:
            self.keyed.rescan(connection)

    def _take_seen(self, connection: Connection, session: int, begin: Begin, limit: int) -> list[Row] | None:
        """Claim messages without a lock; None if others claimed meanwhile, or there is more to do."""
        if self._flow.is_keyed:
            return self._take_chosen(connection, session, limit)
        values = {"marks": begin.marks, "leaps": begin.leaps, "session": session, "limit": limit}
        rows = self._fetch(connection, self._flow_sql.claim_seen, container=self._container, **values)
        if not rows:
            return self.take(connection, session, begin, limit)
        room = self._flow.room_of(rows[0][:-CLAIMED], limit)
        if room.is_ahead or room.turn.keying:
            return None
        claimed = [row[-CLAIMED:] for row in rows if row[-CLAIMED + 1] is not None]
        if room.claims and not claimed and any(begin.leaps):
            return self._take_seen(connection, session, begin.near(), limit)
        return self._mine(claimed)

    def _take_chosen(self, connection: Connection, session: int, limit: int) -> list[Row] | None:
        fetch = partial(self._fetch, connection)
        seen = self._flow.claim_next(fetch, session, limit, self.keyed.filed_to)
        room, version = seen.room, seen.version
        if seen.claimed:
            return self._mine(seen.claimed)
        if version is None or not room.turn.keying or seen.has_more or room.is_ahead:
            return None
        if not room.claims:
            return []
        choice = self._choose(connection, room, seen.keys)
        if choice.drawn:
            return None
        if not choice.ids:
            return []
        turn = {"last": choice.turn.last, "credit": choice.turn.credit}
        values = {"session": session, "ids": choice.ids, "version": version, **turn}
        drawn = {"drawn": room.drawn, "spacing": room.spacing}
        sql = self._flow_sql.claim_chosen
        return self._mine(self._fetch(connection, sql, container=self._container, **values, **drawn))

    def _mine(self, rows: Sequence[Row]) -> list[Row] | None:
        """Return the claimed ones of these rows; None if others were faster, and turns are taken now."""
        mine = [row[:4] for row in rows if row[4]]
        if mine or not rows:
            return mine
        self._turns = _TURNS
        return None

    def _take_locked(
        self, connection: Connection, session: int, begin: Begin, limit: int
    ) -> list[Row] | None:
        """Claim messages while the queue is locked; None if there are more whose keys must be known first."""
        rows: list[Row] = []
        filed = None
        with connection.transaction():
            seen = self._flow.lock(connection, limit, self.keyed.filed_to)
            room, turn = seen.room, seen.room.turn
            if turn.keying:
                filed = self.keyed.file(connection, has_later=seen.has_more)
                if filed.is_all and room.claims:
                    choice = self._choose(connection, room)
                    rows, turn = self.keyed.claim(connection, session, choice.ids), choice.turn
                    self.keyed.draw(connection, choice.drawn)
            elif room.claims:
                rows = self.take(connection, session, begin, room.claims, framed=True)
            self._flow.draw(connection, room, len(rows), turn)
        if filed is not None:
            self.keyed.committed(filed)
        return rows if filed is None or filed.is_all else None

    def _choose(self, connection: Connection, room: Room, first: Sequence[Row] | None = None) -> Choice:
        choice = self.keyed.choose(connection, room.claims, room.turn, first)
        if not choice.ids:
            self._flow.opens_in(choice.opens_in)
        return choice

    def _find_lanes(self, connection: Connection, begin: Begin) -> list[tuple[int, int]]:
        """Return the priorities that have messages, each with its mark."""
        begins = {f"mark_{lane}": mark for lane, mark in zip(LANES, begin.marks, strict=True)}
        [some] = connection.fetch(self._sql.find_lanes, container=self._container, **begins)
        return [(lane, mark) for lane, mark, there in zip(LANES, begin.marks, some, strict=True) if there]

    def _take_from(
        self, connection: Connection, session: int, lanes: list[tuple[int, int]], limit: int
    ) -> list[Row]:
        taken: list[Row] = []
        for lane, mark in lanes:
            values = {"lane": lane, "mark": mark, "limit": limit - len(taken), "container": self._container}
            rows = connection.fetch(self._sql.find_free, **values)
            if rows and self._adapter.locks_rows:
                free = still_free(connection, self._sql, {row[0]: row[2] for row in rows})
                rows = [row for row in rows if row[0] in free]
            claims = [(id_, number, failed) for id_, _, number, failed in rows]
            write_claims(connection, self._sql, session, claims)
            taken += [(lane, id_, blob, failed) for id_, blob, _, failed in rows]
            if len(taken) >= limit:
                break
        return taken
