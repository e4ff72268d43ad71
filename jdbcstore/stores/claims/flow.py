"""Flow control of a queue for all processes: a pause, a limit of concurrent claims, a rate, and its keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.database.statements.flow import FlowStatements
from jdbcstore.errors import ConfigurationError
from jdbcstore.stores.claims.buckets import Rate, check_whole, checked, look_into, rate_of
from jdbcstore.stores.claims.database import ClaimDatabase
from jdbcstore.stores.claims.keys import (
    KEY_FIELDS,
    KEY_SETTINGS,
    Keying,
    Turn,
    at_first,
    key_of,
    key_row,
)
from jdbcstore.stores.claims.lease import knows_flow
from jdbcstore.stores.claims.marks import LOOK_AGAIN
from jdbcstore.util.shared_queues import FlowSettings, KeySettings

CLAIMED = 5
"""Columns of a message that was found, in a statement that claims."""
_PLAIN = FlowSettings()
_PAUSE_KEY = "to claim nothing, pause the key"
_KEYS = {Keying.IGNORED: None, Keying.SHARED: "shared", Keying.IN_ORDER: "in order"}


class Room(NamedTuple):
    """The room that a queue has for claims at the moment."""

    claims: int
    """The number of messages that can be claimed."""
    drawn: int = 0
    """The nanoseconds of the database's clock up to which tokens are drawn."""
    spacing: int = 0
    """The nanoseconds that a token takes; 0 without a rate."""
    opens_in: float = float("inf")
    """Seconds until there is a token, if there is none."""
    turn: Turn = Turn()
    """The key whose turn it is."""
    is_ahead: bool = False
    """Whether the bucket is overdrawn."""


class Seen(NamedTuple):
    """The room of a queue, and the facts read with it."""

    room: Room
    has_more: bool | None = False
    """Whether messages were added whose keys are not known yet; None if unknown."""
    version: str | None = None
    """The version of the row, if it is not locked; None if the queue has no settings any more."""
    keys: Sequence[Row] | None = None
    """The first keys from where the turn is, if they were looked at as the queue is keyed."""
    claimed: Sequence[Row] = ()
    """Messages that were claimed with it."""


class _Stored(NamedTuple):
    paused: int
    most: int | None
    rate: int | None
    burst: int | None
    keying: int = 0
    key_most: int | None = None
    key_rate: int | None = None
    key_burst: int | None = None
    drawn: int = 0
    last_key: str | None = None
    credit: int = 0

    def settings(self) -> FlowSettings:
        rate, burst = _per_second(self.rate, self.burst)
        key_rate, key_burst = _per_second(self.key_rate, self.key_burst)
        keys = _KEYS[Keying(self.keying)]
        return FlowSettings(
            bool(self.paused), self.most, rate, burst, keys, self.key_most, key_rate, key_burst
        )

    @property
    def turn(self) -> Turn:
        rate = rate_of(self.key_rate, self.key_burst)
        return Turn(Keying(self.keying), self.key_most, rate, self.last_key or "", self.credit)

    def room(self, limit: int, now_ms: int, held: int) -> Room:
        if self.paused:
            return Room(0, turn=self.turn)
        if self.most is not None:
            limit = max(0, min(limit, self.most - held))
        rate = rate_of(self.rate, self.burst)
        if rate is None:
            return Room(limit, turn=self.turn)
        tokens, drawn, opens_in, is_ahead = look_into(rate, self.drawn, now_ms)
        return Room(min(limit, tokens), drawn, rate.spacing, opens_in, self.turn, is_ahead)


class QueueFlow:
    """The flow control of one queue, for all processes that share it. Thread-safe.

    A process notices within two seconds that a queue has settings for the first time, or none any more. What
    is set for a queue that has some is in force for every claim that begins after the call has returned.
    """

    def __init__(self, database: ClaimDatabase, container: str) -> None:
        self._database = database
        self._sql = database.session.of(FlowStatements)
        self._container = container
        self._version: int | None = None
        self.applies = False
        """Whether the queue has settings, as far as this process knows."""
        self._keying = Keying.IGNORED
        """The use that it makes of keys, as far as this process knows."""
        self.is_known = False
        """Whether the last look at that has succeeded."""
        self.is_blocked = False
        """Whether there was no room at the last look."""
        self._opens_at = float("inf")
        self._look_at = float("-inf")

    @property
    def is_keyed(self) -> bool:
        """Whether its messages are claimed by key, as far as this process knows."""
        return self._keying is not Keying.IGNORED

    # Settings

    def settings(self) -> FlowSettings:
        """Return the settings.

        :raises StoreUnavailable: the database does not answer
        """
        if self._find_version() is None:
            return _PLAIN
        return _settings(self._database.fetch(self._sql.find, container=self._container))

    def pause(self) -> None:
        """Pause the queue. Existing claims stay valid.

        :raises ConfigurationError: a process of an older version claims here
        :raises SchemaError: the table of settings is missing and must not be created
        :raises StoreUnavailable: the database does not answer; pause again
        """
        self._change(lambda before: replace(before, paused=True))

    def resume(self) -> None:
        """Undo :meth:`pause`; the limits stay.

        :raises StoreUnavailable: the database does not answer; resume again
        """
        self._change(lambda before: replace(before, paused=False))

    def limit(
        self, *, claims: int | None = None, rate: float | None = None, burst: int | None = None
    ) -> None:
        """Set the limits of the queue, all of them: None, the default, means unlimited.

        Existing claims stay valid; above a lower limit nothing is claimed until there is room again.

        :param claims: the most claims of all processes at the same time
        :param rate: the most claims of all processes per second
        :param burst: the claims that can be made at once after a pause; by default those of one second
        :raises ConfigurationError: one is not valid, or a process of an older version claims here
        :raises SchemaError: the table of settings is missing and must not be created
        :raises StoreUnavailable: the database does not answer; set them again
        """
        advice = "to claim nothing, pause the queue"
        check_whole("claims", claims, advice)
        rate, burst = _rounded(checked(rate, burst, advice))
        self._change(lambda before: replace(before, claims=claims, rate=rate, burst=burst))

    def share(
        self,
        *,
        in_order: bool = False,
        claims: int | None = None,
        rate: float | None = None,
        burst: int | None = None,
    ) -> None:
        """Have messages claimed by their keys, with a fair share for each key that has messages.

        The key of a message is its ``group_id``; those without one share an empty key. Within a key, higher
        priorities are first, then messages in the order in which they were added.

        :param in_order: the next message of a key is claimed once the one before is settled
        :param claims: the most claims of a key at the same time; None is without limit
        :param rate: the most claims of a key per second; None is without limit
        :param burst: the claims of a key that can be made at once after a pause, as for :meth:`limit`
        :raises ConfigurationError: a limit is not valid, or a process of an older version claims here
        :raises SchemaError: the tables are missing and must not be created
        :raises StoreUnavailable: the database does not answer; set it again
        """
        check_whole("claims", claims, _PAUSE_KEY)
        rate, burst = _rounded(checked(rate, burst, _PAUSE_KEY))
        self._share("in order" if in_order else "shared", claims, rate, burst)
        self._keying = Keying.IN_ORDER if in_order else Keying.SHARED

    def unshare(self) -> None:
        """Undo :meth:`share`: keys are ignored.

        :raises StoreUnavailable: the database does not answer; try again
        """
        self._share(None)

    def _share(
        self, keys: str | None, claims: int | None = None, rate: float | None = None, burst: int | None = None
    ) -> None:
        self._change(
            lambda before: replace(
                before, keys=keys, claims_per_key=claims, rate_per_key=rate, burst_per_key=burst
            )
        )

    def set_key(
        self,
        key: str,
        *,
        paused: bool | None = False,
        claims: int | None = None,
        weight: int = 1,
        rate: float | None = None,
        burst: int | None = None,
    ) -> None:
        """Configure a key for :meth:`share`. Omitted options return to their defaults.

        :param paused: pauses the key; None changes nothing
        :param claims: the most claims at the same time; None for the value of :meth:`share`
        :param weight: the number of claims in each round of keys
        :param rate: the most claims per second; None is what :meth:`share` says
        :param burst: the claims that can be made at once after a pause, as for :meth:`limit`
        :raises ConfigurationError: one is not valid
        :raises SchemaError: the tables are missing and must not be created
        :raises StoreUnavailable: the database does not answer; set it again
        """
        check_whole("claims", claims, _PAUSE_KEY)
        check_whole("weight", 0 if weight is None else weight, _PAUSE_KEY)
        stored = checked(rate, burst, _PAUSE_KEY) or (None, None)
        values = dict(zip(("rate", "burst"), stored, strict=True))
        values |= {"most": claims, "weight": weight}
        if paused is not None:
            values["paused"] = int(bool(paused))
        self._change_key(key, values)

    def pause_key(self, key: str) -> None:
        """Pause a key of a queue that is shared by keys. Its other settings stay.

        :raises SchemaError: the tables are missing and must not be created
        :raises StoreUnavailable: the database does not answer; pause it again
        """
        self._change_key(key, {"paused": 1})

    def resume_key(self, key: str) -> None:
        """Undo :meth:`pause_key`.

        :raises StoreUnavailable: the database does not answer; resume it again
        """
        self._change_key(key, {"paused": 0})

    def _change_key(self, key: str, values: dict[str, int | None]) -> None:
        sql, here = self._sql, {"container": self._container, "name_": key_of(key)}

        def change(connection: Connection) -> None:
            with connection.transaction():
                connection.execute(sql.count_change)
                rows = connection.fetch(sql.find_key, **here)
                if rows:
                    before: dict[str, int | None] = dict(zip(KEY_SETTINGS, rows[0], strict=True))
                    connection.execute(sql.change_key, **here, **before | values)
                else:
                    connection.insert_rows(sql.add_key, [key_row(**here, **values)])
                connection.execute(sql.remove_plain_keys, container=self._container)

        self._database.session.prepare_flow()
        self._database.run(change)
        self._database.wakeups.wake(self._container, returned=True)

    def key_settings(self) -> dict[str, KeySettings]:
        """Return the settings of keys, by key.

        :raises StoreUnavailable: the database does not answer
        """
        if self._find_version() is None:
            return {}
        return _of_keys(self._database.fetch(self._sql.find_keys, container=self._container))

    def _change(self, changed: Callable[[FlowSettings], FlowSettings]) -> None:
        sql, here = self._sql, {"container": self._container}

        def change(connection: Connection) -> None:
            with connection.transaction():
                connection.execute(sql.count_change)
                rows = connection.fetch(sql.find, **here)
                after = changed(_settings(rows))
                if after == _PLAIN:
                    connection.execute(sql.remove, **here)
                    return
                refuse_older(connection.fetch(self._database.session.of(ClaimStatements).find_sessions))
                values = _values(after)
                if rows:
                    connection.execute(sql.change, **here, **values)
                else:
                    connection.insert_rows(sql.add, [_row(self._container, values)])

        if changed(_PLAIN) == _PLAIN and self._find_version() is None:
            return  # nothing was ever set
        self._database.session.prepare_flow()
        self._database.run(change)
        self.applies, self._version = True, None
        self._database.wakeups.wake(self._container, returned=True)

    def files(self) -> bool:
        """Return whether who adds messages files them under their keys, as of the last two seconds.

        :raises StoreUnavailable: the database does not answer
        """
        if not self.is_known or self._database.clock.monotonic() >= self._look_at:
            self.refresh()
        return self.is_keyed

    # Claiming

    def _find_version(self) -> int | None:
        rows = self._database.fetch(self._sql.find_version)
        return int(rows[0][0]) if rows else None

    def refresh(self) -> None:
        """Look whether the queue has settings, if any have changed since the last look."""
        self.is_known = False
        version = self._find_version()
        if version != self._version:
            find = self._sql.find
            rows = [] if version is None else self._database.fetch(find, container=self._container)
            self.applies = bool(rows)
            self._keying = Keying(_Stored(*rows[0]).keying) if rows else Keying.IGNORED
            self._version = version
        self._look_at = self._database.clock.monotonic() + LOOK_AGAIN
        self.is_known = True

    def has_room(self, connection: Connection) -> bool:
        """Return whether there is room for a claim at the moment; nothing is locked."""
        rows = connection.fetch(self._sql.find, container=self._container)
        if not rows:
            return True
        room = self._room(connection, _Stored(*rows[0]), 1)
        return room.claims > 0 or room.is_ahead

    def claim_next(self, fetch: Callable[..., list[Row]], session: int, limit: int, after: int) -> Seen:
        """Claim messages of a queue with keys, where the vendor chains writes, and nothing has to be chosen.

        Else return the room of the queue, up to ``limit``.

        :param after: the ID up to which the keys of messages are known
        """
        values = {"container": self._container, "session": session, "limit": limit, "after": after}
        thought = self._keying
        claim = self._sql.claim_next[thought is Keying.IN_ORDER, limit == 1]
        rows = fetch(claim, **values, number=at_first(limit))
        if not rows:
            return Seen(Room(limit))
        *stored, more, version = rows[0][: -KEY_FIELDS - CLAIMED]
        keys = [row[-KEY_FIELDS - CLAIMED : -CLAIMED] for row in rows]
        claimed = [row[-CLAIMED:] for row in rows if row[-CLAIMED + 1] is not None]
        room = self.room_of(stored, limit)
        there = None
        if room.turn.keying is thought:
            there = [key for key in keys if key[0] is not None]
        elif room.turn.keying is not Keying.IGNORED:
            self._keying = room.turn.keying
        return Seen(room, bool(more), version, there, claimed)

    def room_of(self, row: Sequence[Any], limit: int) -> Room:
        """Return the room of the queue by its settings, the time, and the number of its claims."""
        *stored, now_ms, held = row
        return self._noted(_Stored(*stored).room(limit, now_ms, held))

    def lock(self, connection: Connection, limit: int, after: int) -> Seen:
        """Return the room of the queue, up to ``limit``, until the transaction ends.

        :param after: the ID up to which the keys of messages are known
        """
        looks = self.is_keyed
        rows = connection.fetch(self._sql.lock[looks], container=self._container, after=after)
        if not rows:
            return Seen(Room(limit))
        stored = _Stored(*rows[0][: len(_Stored._fields)])
        has_more = bool(rows[0][-1]) if looks else None
        return Seen(self._room(connection, stored, limit), has_more)

    def _room(self, connection: Connection, stored: _Stored, limit: int) -> Room:
        # After the lock: what others claimed while this one waited counts, and so does their time.
        now_ms = held = 0
        if stored.most is not None:
            [(now_ms, held)] = connection.fetch(self._sql.count, container=self._container)
        elif stored.rate is not None:
            [(now_ms,)] = connection.fetch(self._sql.read_clock)
        return self._noted(stored.room(limit, now_ms, held))

    def _noted(self, room: Room) -> Room:
        self.is_blocked = room.claims == 0
        self.opens_in(room.opens_in)
        return room

    def opens_in(self, seconds: float) -> None:
        """Note after which time there is room, if there is none."""
        self._opens_at = time.monotonic() + seconds

    def draw(self, connection: Connection, room: Room, taken: int, turn: Turn) -> None:
        """Draw the tokens of the claims and store the next turn, in the same transaction."""
        # Where the vendor chains writes, others are to see in this row that something was claimed.
        if turn != room.turn or (taken and self._database.session.adapter.chains_writes):
            values = {"last": turn.last, "credit": turn.credit}
            connection.execute(self._sql.turn, container=self._container, **values)
        if room.is_ahead or (room.spacing and taken):
            until = room.drawn + taken * room.spacing
            connection.execute(self._sql.draw, container=self._container, until=until)

    def seconds(self, pause: float) -> float:
        """Return the seconds after which another look is worth while, by default ``pause``."""
        left = max(0.001, self._opens_at - time.monotonic())
        # Without room no claim succeeds before; without a token of one key, others may get messages.
        return left if self.is_blocked and left < float("inf") else min(left, pause)


def refuse_older(sessions: list[Row]) -> None:
    """Make sure that all of these sessions obey settings.

    :raises ConfigurationError: one is of an older version
    """
    for number, name, _ in sessions:
        if not knows_flow(number):
            raise ConfigurationError(
                f"{name} claims messages with an older version of jdbcstore, which does not know limits:"
                " nothing was set; update it first"
            )


def read_all(session: DatabaseSession) -> dict[str, FlowSettings]:
    """Return all settings, by the qualified name of the queue.

    :raises StoreUnavailable: the database does not answer
    """
    sql = session.of(FlowStatements)
    if not session.fetch(sql.find_version):
        return {}
    return {row[0]: _Stored(*row[1:]).settings() for row in session.fetch(sql.find_all)}


def read_keys(session: DatabaseSession, container: str) -> dict[str, KeySettings]:
    """Return the settings of a queue's keys, by key; none without the tables of settings.

    :raises StoreUnavailable: the database does not answer
    """
    return _of_keys(session.fetch(session.of(FlowStatements).find_keys, container=container))


def _of_keys(rows: list[Row]) -> dict[str, KeySettings]:
    return {
        name: KeySettings(bool(paused), most, weight, *_per_second(rate, burst))
        for name, paused, most, weight, rate, burst in rows
    }


def _settings(rows: list[Row]) -> FlowSettings:
    return _Stored(*rows[0]).settings() if rows else _PLAIN


def _values(settings: FlowSettings) -> dict[str, int | None]:
    rate, burst = checked(settings.rate, settings.burst, "") or (None, None)
    key_rate, key_burst = checked(settings.rate_per_key, settings.burst_per_key, "") or (None, None)
    return {
        "paused": int(settings.paused),
        "most": settings.claims,
        "rate": rate,
        "burst": burst,
        "keying": next(number for number, keys in _KEYS.items() if keys == settings.keys),
        "key_most": settings.claims_per_key,
        "key_rate": key_rate,
        "key_burst": key_burst,
    }


def _row(container: str, values: dict[str, int | None]) -> Row:
    """Return a new row of the table."""
    paused, most, rate, burst, *of_keys = values.values()
    return (container, paused, most, rate, burst, 0, *of_keys, None, 0)


def _per_second(rate: int | None, burst: int | None) -> tuple[float | None, int | None]:
    return _rounded(rate_of(rate, burst))


def _rounded(rate: Rate | None) -> tuple[float | None, int | None]:
    return (None, None) if rate is None else (rate.per_second, rate.burst)
