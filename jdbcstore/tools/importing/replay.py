"""The replay of a log on disk: which messages are left once everything that was done with them is known.

Positions are kept, not bodies, in a private temporary SQLite file: memory does not grow with the
messages. A source replays its log here in one pass, and reads the bodies that are left in a second one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jdbcstore.abc import SubscriptionInfo
from jdbcstore.database.statements import replay as sql
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import XATransactionId

_PAGE = 1000


class BodyPlace(NamedTuple):
    """The place of a body: the number of a file of the source's, an offset, and the number of bytes."""

    file: int
    at: int
    size: int


@dataclass(slots=True, eq=False)
class ReplayedSubscription:
    """A durable subscription."""

    number: int
    since: int
    """The first message that is for it."""
    info: SubscriptionInfo


@dataclass(slots=True, eq=False)
class _Home:
    """A destination, with its durable subscriptions by key."""

    number: int
    destination: Destination
    subscriptions: dict[str, ReplayedSubscription] = field(default_factory=dict)


class Left(NamedTuple):
    """A message that is left."""

    id: int
    destination: Destination
    name: str
    place: BodyPlace
    priority: int | None
    """None if its destination does not deliver by priority."""
    xid: XATransactionId | None
    is_added: bool
    """Whether the transaction adds it, and not acknowledges it."""
    due: tuple[int, int, bool] | None
    """Of a scheduled message: when (epoch ms), how many times after that, whether by a cron entry."""


class MessageState(NamedTuple):
    """A message of a topic, for one durable subscription."""

    id: int
    name: str
    priority: int | None
    is_acknowledged: bool
    xid: XATransactionId | None
    """The prepared transaction that acknowledges it."""


class Count(NamedTuple):
    """Totals of a destination."""

    destination: Destination
    messages: int
    size: int
    in_doubt: int
    subscriptions: int


class PrivateFile:
    """A temporary database with tables, which is gone with the process, however that ends. Close it after
    use."""

    def __init__(self, tables: Iterable[str]) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._run = self._database.execute
        for statement in (*sql.SETTINGS, *tables, "BEGIN"):
            self._run(statement)

    def close(self) -> None:
        """Remove the file."""
        self._database.close()


class Replay(PrivateFile):
    """The messages and subscriptions of a source, as it changes them."""

    def __init__(self) -> None:
        super().__init__(sql.TABLES)
        self._homes: dict[Destination, _Home] = {}
        self._numbered: list[_Home] = []
        self._next = 1
        self._subscriptions = 0
        self._xids: list[tuple[XATransactionId, bool]] = []
        """Each with whether it adds the message; XID columns refer to these by position."""
        self._is_ended = False
        self.unknown: set[tuple[Destination, str]] = set()
        """Subscriptions that have acknowledged something, and were neither created nor deleted."""

    def _home(self, destination: Destination) -> _Home:
        home = self._homes.get(destination)
        if home is None:
            home = self._homes[destination] = _Home(len(self._numbered), destination)
            self._numbered.append(home)
        return home

    # Messages

    def add(
        self,
        destination: Destination,
        name: str,
        place: BodyPlace,
        priority: int | None = None,
        *,
        due: tuple[int, int, bool] | None = None,
    ) -> bool:
        """Add a message; False if its destination has one of this name, or is a topic without subscribers.

        :param due: of a scheduled message, as in :class:`Left`
        """
        home = self._home(destination)
        waiting = None
        if destination.is_topic:
            waiting = len(home.subscriptions)
            if not waiting:
                return False
        return self._insert(home, name, place, priority, waiting, None, due)

    def _insert(
        self,
        home: _Home,
        name: str,
        place: BodyPlace,
        priority: int | None,
        waiting: int | None,
        xid: int | None,
        due: tuple[int, int, bool] | None,
    ) -> bool:
        row = (self._next, home.number, name, *place, priority, waiting, xid, *(due or (None, None, None)))
        if not self._run(sql.ADD_MESSAGE, row).rowcount:
            return False
        self._next += 1
        return True

    def update(self, destination: Destination, name: str, place: BodyPlace, priority: int | None) -> None:
        """Replace the content of a message, or add it if it is not there."""
        number = self._home(destination).number
        if not self._run(sql.UPDATE_MESSAGE, (*place, priority, number, name)).rowcount:
            self.add(destination, name, place, priority)

    def find(self, destination: Destination, name: str) -> BodyPlace | None:
        """Return where a message is that was added; None if it is not there."""
        row = self._run(sql.FIND_PLACE, (self._home(destination).number, name)).fetchone()
        return None if row is None else BodyPlace(*row)

    def remove(self, destination: Destination, name: str) -> None:
        """Remove an acknowledged message; an unknown one has no effect."""
        key = (self._home(destination).number, name)
        if not self._run(sql.REMOVE_NAMED, key).rowcount:
            self._run(sql.NOTE_GONE, key)

    def out_of_order(self) -> int:
        """Return how many messages are left that were acknowledged before they were added.

        They may have been sent a second time, or files may be in the wrong order, or missing.
        """
        return int(self._run(sql.COUNT_OUT_OF_ORDER).fetchone()[0])

    def remove_all(self, destination: Destination) -> None:
        """Remove a destination, with its messages and subscriptions."""
        home = self._homes.get(destination)
        if home is not None:
            self._run(sql.REMOVE_ACKNOWLEDGED_HERE, (home.number,))
            self._run(sql.REMOVE_HERE, (home.number,))
            self.unknown = {(topic, key) for topic, key in self.unknown if topic != destination}
            home.subscriptions.clear()

    # Subscriptions

    def subscribe(self, key: str, info: SubscriptionInfo, *, retroactive: bool = False) -> None:
        """Create a durable subscription, or describe the one that has this key otherwise.

        :param retroactive: whether the messages that are there are for it, too
        """
        home = self._home(info.destination)
        subscription = home.subscriptions.get(key)
        if subscription is not None:
            subscription.info = info
            return
        self._subscriptions += 1
        since = 1 if retroactive else self._next
        home.subscriptions[key] = ReplayedSubscription(self._subscriptions, since, info)
        if retroactive:
            self._run(sql.WAIT_MORE_HERE, (home.number,))

    def unsubscribe(self, destination: Destination, key: str) -> None:
        """Delete a durable subscription, and the messages that only it was to get.

        The last one's end is that of its destination.
        """
        home = self._homes.get(destination)
        gone = home.subscriptions.pop(key, None) if home is not None else None
        self.unknown.discard((destination, key))
        if home is None or gone is None:
            return
        if not home.subscriptions:
            self.remove_all(destination)
            return
        self._run(sql.WAIT_LESS_HERE, (home.number, gone.since, gone.number))
        self._run(sql.REMOVE_UNWANTED_HERE, (home.number,))
        self._run(sql.REMOVE_SUBSCRIPTION, (gone.number,))

    def acknowledge(self, destination: Destination, name: str, key: str) -> None:
        """Acknowledge a topic's message for one subscription; the last one's removes it."""
        home = self._home(destination)
        subscription = home.subscriptions.get(key)
        if subscription is None:
            self.unknown.add((destination, key))
            return
        row = self._run(sql.FIND_NAMED, (home.number, name)).fetchone()
        if row is None:
            self._run(sql.NOTE_GONE, (home.number, name))
            return
        id_, waiting = row
        if id_ < subscription.since:
            return
        if not self._run(sql.ADD_ACKNOWLEDGED, (id_, subscription.number, None)).rowcount:
            return
        if waiting > 1:
            self._run(sql.WAIT_LESS, (id_,))
        else:
            self._run(sql.REMOVE_MESSAGE, (id_,))
            self._run(sql.REMOVE_ACKNOWLEDGED, (id_,))

    # Prepared transactions, whose messages are still there

    def _xid(self, xid: XATransactionId, *, adds: bool) -> int:
        if (xid, adds) not in self._xids:
            self._xids.append((xid, adds))
        return self._xids.index((xid, adds))

    def add_prepared(
        self,
        xid: XATransactionId,
        destination: Destination,
        name: str,
        place: BodyPlace,
        priority: int | None,
    ) -> None:
        """Add a message of a transaction that is in doubt."""
        self._insert(self._home(destination), name, place, priority, None, self._xid(xid, adds=True), None)

    def remove_prepared(
        self, xid: XATransactionId, destination: Destination, name: str, key: str | None = None
    ) -> None:
        """Acknowledge a message in a transaction in doubt, of a topic for the subscription ``key``."""
        home, number = self._home(destination), self._xid(xid, adds=False)
        if key is None:
            self._run(sql.FLAG_NAMED, (number, home.number, name))
            return
        subscription = home.subscriptions.get(key)
        row = self._run(sql.FIND_NAMED, (home.number, name)).fetchone()
        if subscription is not None and row is not None and row[0] >= subscription.since:
            self._run(sql.ADD_ACKNOWLEDGED, (row[0], subscription.number, number))

    # Scheduled messages

    def reschedule(self, destination: Destination, name: str, due_ms: int, times: int) -> None:
        """Set when a message is due next, after that many of its repetitions more."""
        self._run(sql.RESCHEDULE, (due_ms, times, self._home(destination).number, name))

    def remove_due(self, destination: Destination, from_ms: int, to_ms: int) -> None:
        """Remove the scheduled messages that are due between two times, both inclusive."""
        self._run(sql.REMOVE_DUE, (self._home(destination).number, from_ms, to_ms))

    # The remaining messages

    def end(self) -> None:
        """End the replay; from now on it is only read."""
        if not self._is_ended:
            self._run(sql.INDEX_ORDER)
            self._is_ended = True

    @property
    def last(self) -> int:
        """The highest ID that was used."""
        return self._next - 1

    def message_count(self) -> int:
        return int(self._run(sql.COUNT_MESSAGES).fetchone()[0])

    def counts(self) -> list[Count]:
        """Return what each destination has that has messages or subscriptions, by name."""
        by_number = {number: (count, size, doubt) for number, count, size, doubt in self._run(sql.COUNT_HERE)}
        counts = []
        for home in self._numbered:
            if home.number in by_number or home.subscriptions:
                messages, size, in_doubt = by_number.get(home.number, (0, 0, 0))
                counts.append(Count(home.destination, messages, size, in_doubt, len(home.subscriptions)))
        return sorted(counts, key=lambda count: str(count.destination))

    def messages(self) -> Iterator[Left]:
        """Yield the remaining messages, ordered by ID."""
        for row in self._pages(sql.FIND_MESSAGES, ()):
            id_, number, name, file, at, size, priority, xid, due, repeats, cron = row
            branch, is_added = (None, False) if xid is None else self._xids[xid]
            yield Left(
                id_, self._numbered[number].destination, name, BodyPlace(file, at, size), priority, branch,
                is_added, None if due is None else (due, repeats, bool(cron)),
            )  # fmt: skip

    def _pages(self, statement: str, parameters: Iterable[Any]) -> Iterator[Any]:
        after = 0
        while rows := self._run(statement, (*parameters, after, _PAGE)).fetchall():
            yield from rows
            after = rows[-1][0]

    def topics(self) -> dict[Destination, list[ReplayedSubscription]]:
        """Return the topics with durable subscriptions."""
        return {
            home.destination: [*home.subscriptions.values()] for home in self._numbered if home.subscriptions
        }

    def has_priorities(self, destination: Destination) -> bool:
        """Return whether a message that is left there is delivered by its priority."""
        number = self._home(destination).number
        return bool(self._run(sql.HAS_PRIORITIES, (number,)).fetchone()[0])

    def states(self, destination: Destination, subscription: ReplayedSubscription) -> Iterator[MessageState]:
        """Yield the messages of a topic as they are for a subscription, ordered by ID."""
        here = (subscription.number, self._home(destination).number)
        for id_, name, priority, acknowledged, xid in self._pages(sql.FIND_STATES, here):
            branch = None if xid is None else self._xids[xid][0]
            done = branch is None and bool(acknowledged or id_ < subscription.since)
            yield MessageState(id_, name, priority, done, branch)

    def branches(self) -> set[XATransactionId]:
        """Return the transactions in doubt."""
        return {xid for xid, _ in self._xids}
