"""Statistics of shared queues and of the processes that claim from them, read without claiming."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from jdbcstore.database.adapters.sql import Sql
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import SEQUENCE_ROW
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.claim_numbers import ClaimNumberStatements
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.errors import CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.stores.claims.flow import read_all, read_keys
from jdbcstore.stores.claims.lease import begun_of
from jdbcstore.stores.claims.of_ids import fetch
from jdbcstore.util.shared_queues import (
    ClaimNumbers,
    FlowSettings,
    HeldMessage,
    KeyNumbers,
    KeySettings,
    SharedNumbers,
    WorkerNumbers,
)

MOST_COUNTED = 100_000
"""Messages of a queue that are counted."""
MOST_OF_KEY = 1000
"""Messages of a key that are counted."""
MOST_KEYS = 100
"""Keys of a queue that are looked at."""
MOST_QUEUES = 200
"""Queues that are looked at: those with claims or settings, then the others by name."""
_MOST_NAMES = 1000


def read_shared(
    session: DatabaseSession, *, keys: bool | str = False, only_set: bool = False
) -> SharedNumbers:
    """Return the numbers of all shared queues and processes, by name; empty before the first claim.

    Queues with messages, claims or settings are listed. No queue is read whole: of each, the first
    :data:`MOST_COUNTED` messages at most, besides all claims.

    :param keys: also look at the first keys of queues that are claimed from by key, or of this queue
    :param only_set: of these, only at the keys that have settings of their own
    :raises StoreUnavailable: the database does not answer
    """
    if not session.has_claims:
        return SharedNumbers()
    settings = {name: setting for name, setting in read_all(session).items() if _is_queue(name)}
    keyed = {
        name for name, setting in settings.items() if setting.keys and (keys is True or _named(name) == keys)
    }
    key_settings = {name: read_keys(session, name) for name in keyed}
    with session.translated(), closing(session.connect()) as connection:
        connection.control.read_in_order()
        return _Reading(session, connection, settings, key_settings, only_set=only_set).read()


def read_last_id(session: DatabaseSession) -> int | None:
    """Return the last ID, which grows by one with each message that is added; None where it leaps ahead.

    :raises StoreUnavailable: the database does not answer, or the user has no right to read the sequence
    """
    if session.adapter.takes_numbers_in_blocks:
        return None
    if session.adapter.series:
        return int(session.fetch(session.of(ClaimStatements).last_id)[0][0])
    rows = session.fetch(session.statements.find_number, name_=SEQUENCE_ROW)
    return int(rows[0][0]) if rows else None


def read_held(session: DatabaseSession, queue: Destination, limit: int) -> list[HeldMessage]:
    """Return the first messages of a queue that are claimed or delayed.

    :raises StoreUnavailable: the database does not answer
    """
    if not session.has_claims:
        return []
    rows = session.fetch(
        session.of(ClaimNumberStatements).find_held, container=queue.qualified_name, limit=limit
    )
    return [
        HeldMessage(sequence=id_, worker=name, due_in=max(0, int(due)) / 1000, redeliveries=int(failed))
        for id_, name, due, failed in rows
    ]


class _Reading:
    """One look at all queues, on a connection of its own."""

    def __init__(
        self,
        session: DatabaseSession,
        connection: Connection,
        settings: Mapping[str, FlowSettings],
        key_settings: Mapping[str, Mapping[str, KeySettings]],
        *,
        only_set: bool,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._key_settings = key_settings
        self._only_set = only_set
        self._sql: ClaimNumberStatements = session.of(ClaimNumberStatements)

    def read(self) -> SharedNumbers:
        fetched = self._connection.fetch(self._sql.find_numbers)
        claimed = {name: numbers for name, *numbers in fetched if _is_queue(name)}
        names = [*sorted({*claimed, *self._settings})]
        known = {*names}
        names += [name for name in self._containers() if name not in known]
        chosen = names[:MOST_QUEUES]
        free = {name: self._first_free(name) for name in chosen}
        firsts = {*free.values(), *(claimed[name][-1] for name in chosen if name in claimed)}
        ages = self._ages([id_ for id_ in firsts if id_ is not None])
        queues = []
        for name in sorted(chosen):
            held, delayed, failed, first = claimed.get(name, (0, 0, 0, None))
            free_count, has_more = self._free(name, int(held) + int(delayed))
            keys, has_more_keys = self._keys(name)
            queues.append(
                ClaimNumbers(
                    queue=_named(name),
                    free=free_count,
                    has_more=has_more,
                    claimed=int(held),
                    delayed=int(delayed),
                    redeliveries=int(failed),
                    oldest_free=ages.get(free[name]),
                    oldest_claimed=ages.get(first),
                    settings=self._settings.get(name, FlowSettings()),
                    keys=keys,
                    has_more_keys=has_more_keys,
                )
            )
        return SharedNumbers(queues, self._workers(), len(names) - len(chosen))

    def _containers(self) -> list[str]:
        """Return the destinations that have messages.

        Of names that differ in the case of letters only, MariaDB and MySQL find one.
        """
        names = [""]
        while len(names) <= _MOST_NAMES and (name := self._next(self._sql.next_container, after_=names[-1])):
            names.append(name)
        return [name for name in names[1:] if _is_queue(name)]

    def _first_free(self, name: str) -> int | None:
        rows = self._connection.fetch(self._sql.find_first_free, container=name)
        return min((int(id_) for (id_,) in rows), default=None)

    def _free(self, name: str, held: int) -> tuple[int, bool]:
        limit = MOST_COUNTED + held
        [(count,)] = self._connection.fetch(self._sql.count_some, container=name, limit=limit + 1)
        return max(0, min(int(count), limit) - held), count > limit

    def _ages(self, ids: list[int]) -> dict[int | None, float]:
        """Return the seconds since these messages were sent, as far as they say when that was."""
        now, ages = time.time(), dict[int | None, float]()
        for id_, head in fetch(self._connection, self._sql.find_heads, sorted(ids)):
            try:
                sent_ms = openwire.headers_of(bytes(head or b"")).timestamp_ms
            except CorruptMessage:
                continue
            if sent_ms:
                ages[id_] = max(0.0, now - sent_ms / 1000)
        return ages

    def _keys(self, name: str) -> tuple[list[KeyNumbers], bool]:
        settings = self._key_settings.get(name)
        if settings is None:
            return [], False
        fetched = self._connection.fetch(self._sql.find_numbers_of_keys, container=name)
        claims = {key: (int(held), int(delayed), int(failed)) for key, held, delayed, failed, _ in fetched}
        if self._only_set:
            every, has_more = sorted(settings), False
        else:
            names, has_more = self._names(name)
            every = sorted({*names, *settings, *claims})
        most = MOST_KEYS + ("" in every)
        keys = []
        for key in every[:most]:
            claimed, delayed, failed = claims.get(key, (0, 0, 0))
            limit = MOST_OF_KEY + claimed + delayed
            values = {"container": name, "name_": key, "limit": limit + 1}
            [(count,)] = self._connection.fetch(self._sql.count_of_key, **values)
            if count or key in settings:
                keys.append(
                    KeyNumbers(
                        key=key,
                        free=max(0, min(int(count), limit) - claimed - delayed),
                        has_more=count > limit,
                        claimed=claimed,
                        delayed=delayed,
                        redeliveries=failed,
                        settings=settings.get(key, KeySettings()),
                    )
                )
        return keys, has_more or len(every) > most

    def _names(self, name: str) -> tuple[list[str], bool]:
        """Return the first keys that have messages, and whether there are more."""
        names: list[str] = []
        following = self._next(self._sql.first_key, container=name)
        while following is not None:
            if len(names) == MOST_KEYS + ("" in names):
                return names, True
            names.append(following)
            following = self._next(self._sql.next_key, container=name, name_=following)
        return names, False

    def _next(self, sql: Sql, **values: Any) -> str | None:
        rows = self._connection.fetch(sql, **values)
        return rows[0][0] if rows else None

    def _workers(self) -> list[WorkerNumbers]:
        workers = []
        for number, name, left, now_ms, claims in self._connection.fetch(self._sql.find_workers):
            begun = begun_of(int(number))
            age = None if begun is None else max(0.0, int(now_ms) / 1000 - begun)
            left_seconds = int(left) / 1000
            workers.append(WorkerNumbers(name=name, lease_left=left_seconds, age=age, claims=int(claims)))
        return workers


def _named(container: str) -> str:
    return Destination.parse(container).name


def _is_queue(container: str) -> bool:
    return not Destination.parse(container).is_topic
