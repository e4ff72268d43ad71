"""Acknowledgements of a durable subscription, in any order, on top of ActiveMQ's single mark.

ActiveMQ keeps LAST_ACKED_ID per subscription (one for each priority where the topic is prioritised):
everything up to it is acknowledged. Messages acknowledged ahead of a gap are kept in JDBCSTORE_ACKS, and
folded into the mark when the gap closes. An ActiveMQ that takes over the tables reads only the mark: it
redelivers the messages ahead of it, and loses none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.connection import Connection
from jdbcstore.database.statements.store import Statements
from jdbcstore.stores.shared.subscriptions import subscription_not_found

_CHUNK = 1_000
_WINDOW = 10_000
"""Messages cached after the mark; acknowledgements beyond them are written without a look at the cache."""


@dataclass(slots=True)
class AcknowledgementPlan:
    """The writes for a batch's acknowledgements, and the changes of the cache once they commit."""

    writes: dict[Sql, list[Row]] = field(default_factory=dict)
    moves: list[_Move] = field(default_factory=list)

    def add(self, sql: Sql, row: Row) -> None:
        self.writes.setdefault(sql, []).append(row)

    def run(self, connection: Connection) -> None:
        """Execute the writes, in a transaction."""
        for sql, rows in self.writes.items():
            connection.execute_many(sql, rows)

    def apply(self) -> None:
        """Note that the batch has committed."""
        for move in self.moves:
            move.apply()


class Reach(NamedTuple):
    """One row of a subscription, and the effect of some acknowledgements on its mark."""

    row_priority: int
    up_to: int | None
    """The new mark, if it moves."""
    is_only_row: bool
    ids: list[int]
    """The messages that were not acknowledged before."""


@dataclass(slots=True)
class _Lane:
    """One mark, and the cached messages after it up to the horizon."""

    row_priority: int
    mark: int
    only_priority: int | None
    horizon: int
    window: OrderedDict[int, bool | None] = field(default_factory=OrderedDict)
    """Message ID -> acknowledged ahead of the mark, in the order of IDs; None while that is in doubt."""

    def pending(self, ids: set[int]) -> list[int]:
        """Return the IDs that are not known to be acknowledged."""
        return [
            id_ for id_ in sorted(ids)
            if id_ > self.mark and (id_ > self.horizon or self.window.get(id_) is False)
        ]  # fmt: skip


@dataclass(slots=True)
class _Move:
    lane: _Lane
    mark: int
    passed: list[int]
    ahead: list[int]

    def apply(self) -> None:
        for id_ in self.passed:
            del self.lane.window[id_]
        for id_ in self.ahead:
            if id_ in self.lane.window:
                self.lane.window[id_] = True
        self.lane.mark = self.mark


class AcknowledgementTracker:
    """One subscription's acknowledgements, for the thread that holds the writer lock."""

    def __init__(self, statements: Statements, container: str, client_id: str, sub_name: str) -> None:
        self._sql = statements
        self.subscription = {"container": container, "client_id": client_id, "sub_name": sub_name}
        self._lanes: dict[int, _Lane] | None = None
        """By row priority; a single lane takes messages of every priority."""
        self._swept = False

    def reset(self) -> None:
        """Discard the cache: messages were removed, or a commit may or may not have taken effect."""
        self._lanes = None

    def plan(
        self, connection: Connection, messages: Iterable[tuple[int, int]], plan: AcknowledgementPlan
    ) -> None:
        """Plan the acknowledgement of ``(ID, priority)``; unknown and repeated ones have no effect.

        :raises SubscriptionNotFound: it was unsubscribed
        """
        for lane, ids in self._by_lane(connection, messages):
            self._plan_lane(connection, lane, ids, plan)

    def reach(self, connection: Connection, messages: Iterable[tuple[int, int]]) -> list[Reach]:
        """Return the effect of acknowledging ``(ID, priority)``; nothing is planned.

        :raises SubscriptionNotFound: it was unsubscribed
        """
        reaches = []
        for lane, ids in self._by_lane(connection, messages):
            passed = self._fold_far(connection, lane, ids)
            up_to, alone = passed[-1] if passed else None, lane.only_priority is None
            reaches.append(Reach(lane.row_priority, up_to, alone, lane.pending(ids)))
        return reaches

    def _by_lane(
        self, connection: Connection, messages: Iterable[tuple[int, int]]
    ) -> list[tuple[_Lane, set[int]]]:
        lanes = self._load(connection)
        wanted: dict[int, set[int]] = {}
        for id_, priority in messages:
            key = next(iter(lanes)) if len(lanes) == 1 else self._key_of(connection, lanes, id_, priority)
            wanted.setdefault(key, set()).add(id_)
        return [(lanes[key], ids) for key, ids in wanted.items() if key in lanes]

    def _key_of(self, connection: Connection, lanes: dict[int, _Lane], id_: int, priority: int) -> int:
        """Return the priority that a message is stored with; the message object may have been changed."""
        lane = lanes.get(priority)
        if lane is not None:
            while id_ > lane.horizon and len(lane.window) < _WINDOW and not self._extend(connection, lane):
                pass
            if id_ in lane.window or (id_ > lane.horizon and len(lane.window) >= _WINDOW):
                return priority
        container = self.subscription["container"]
        for _, stored in connection.fetch(self._sql.find_priority_by_id, id_=id_, container=container):
            return stored or 0
        return priority

    def _load(self, connection: Connection) -> dict[int, _Lane]:
        if self._lanes is not None:
            return self._lanes
        rows = connection.fetch(self._sql.find_durable_sub, **self.subscription)
        if not rows:
            raise subscription_not_found(
                self.subscription["client_id"], self.subscription["sub_name"], self.subscription["container"]
            )
        if not self._swept:
            self._sweep(connection)
            self._swept = True
        self._lanes = {}
        for _, _, priority, mark, _, _ in rows:
            mark = mark or 0
            only = priority if len(rows) > 1 else None
            self._lanes[priority] = _Lane(priority, mark, only, horizon=mark)
        return self._lanes

    def _sweep(self, connection: Connection) -> None:
        """Drop rows of messages that an ActiveMQ has removed: it may have reused their IDs."""
        after = -1
        while rows := connection.fetch(
            self._sql.find_acknowledged, **self.subscription, after=after, limit=_CHUNK
        ):
            last = rows[-1][0]
            connection.execute(
                self._sql.remove_stale_acknowledged, **self.subscription, after=after, up_to=last
            )
            after = last

    def _fold_far(self, connection: Connection, lane: _Lane, ids: set[int]) -> list[int]:
        """As :meth:`_fold`, after reading all messages that matter."""
        complete = False
        while not complete and max(ids) > lane.horizon and len(lane.window) < _WINDOW:
            complete = self._extend(connection, lane)
        passed, stopped = self._fold(lane, ids)
        while not stopped and not complete:
            complete = self._extend(connection, lane)
            passed, stopped = self._fold(lane, ids)
        return passed

    def _plan_lane(
        self, connection: Connection, lane: _Lane, ids: set[int], plan: AcknowledgementPlan
    ) -> None:
        passed = self._fold_far(connection, lane, ids)
        mark = passed[-1] if passed else lane.mark
        ahead = [id_ for id_ in lane.pending(ids) if id_ > mark]
        for id_ in ahead:
            plan.add(self._sql.add_acknowledged, self._sql.add_acknowledged.row(id_=id_, **self.subscription))
        for id_ in passed:
            if lane.window[id_]:
                remove = self._sql.remove_acknowledged
                plan.add(remove, remove.row(id_=id_, **self.subscription))
        if mark > lane.mark:
            update = self._sql.update_durable_last_ack
            if lane.only_priority is not None:
                update = self._sql.update_durable_last_ack_with_priority
            plan.add(update, update.row(last=mark, priority_=lane.row_priority, **self.subscription))
        plan.moves.append(_Move(lane, mark, passed, ahead))

    @staticmethod
    def _fold(lane: _Lane, ids: set[int]) -> tuple[list[int], bool]:
        """Return the acknowledged messages from the mark to the first gap, and whether there is a gap."""
        passed: list[int] = []
        for id_, ahead in lane.window.items():
            if ahead is None or not (ahead or id_ in ids):
                return passed, True
            passed.append(id_)
        return passed, False

    def _extend(self, connection: Connection, lane: _Lane) -> bool:
        """Read the next messages after the horizon; True if there are no more."""
        values = {**self.subscription, "after": lane.horizon, "limit": _CHUNK}
        if lane.only_priority is None:
            rows = connection.fetch(self._sql.find_window, **values)
        else:
            query = self._sql.find_window_by_priority.of(lane.only_priority)
            rows = connection.fetch(query, priority=lane.only_priority, **values)
        for id_, ahead in rows:
            lane.window[id_] = None if ahead is not None and ahead < 0 else ahead is not None
        if rows:
            lane.horizon = rows[-1][0]
        return len(rows) < _CHUNK


Acknowledgement = tuple[AcknowledgementTracker, Sequence[tuple[int, int]]]
"""(ID, priority) of messages that one durable subscription has consumed."""


def plan_all(connection: Connection, acknowledgements: list[Acknowledgement]) -> AcknowledgementPlan:
    plan = AcknowledgementPlan()
    for tracker, messages in by_subscription(acknowledgements).items():
        tracker.plan(connection, messages, plan)
    return plan


def by_subscription(
    acknowledgements: list[Acknowledgement],
) -> dict[AcknowledgementTracker, list[tuple[int, int]]]:
    together: dict[AcknowledgementTracker, list[tuple[int, int]]] = {}
    for tracker, messages in acknowledgements:
        together.setdefault(tracker, []).extend(messages)
    return together
