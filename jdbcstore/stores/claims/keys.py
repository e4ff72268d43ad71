"""Claims by key: a fair share for each key of a queue, limits of a key, and order within a key.

The key of a message is its group, JMSXGroupID. The first process that claims after a message was added files
it under its key, in JDBCSTORE_KEYED, from where messages are chosen. A queue takes turns in the order of the
keys' names, in which each key that has messages gets as many claims as its weight. Where the turn is stays in
the row of the queue, which is locked during a claim: so the turn is one of all processes, and a key waits for
one round at most.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection, Runs
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.flow import NAMES
from jdbcstore.errors import CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.stores.claims.claiming import still_free, write_claims
from jdbcstore.stores.claims.of_ids import execute, fetch

LONGEST = 200
"""The longest key that is stored as it is, in characters; of a longer one the rest is a digest."""
_PAGE = 256
_LOWEST, _HIGHEST = 0, 9
_PAGES = 8
"""Pages that are filed in one transaction."""


class Keying(IntEnum):
    """The use that a queue makes of the keys of its messages."""

    IGNORED = 0
    SHARED = 1
    """Each key gets its share."""
    IN_ORDER = 2
    """Besides, the next message of a key is claimed once the one before is settled."""


class Turn(NamedTuple):
    """The position of a queue in its round of keys."""

    keying: Keying = Keying.IGNORED
    most: int | None = None
    """The most claims of a key at the same time, unless the key has a limit of its own."""
    last: str = ""
    """The key that was served last; that of messages without one is empty."""
    credit: int = 0
    """The claims that are left of its turn."""


class Filed(NamedTuple):
    """The result of filing messages."""

    up_to: int
    """The ID up to which all that were committed are filed."""
    is_all: bool
    """Whether that is the last one."""


class _Key(NamedTuple):
    name: str
    paused: int | None
    most: int | None
    weight: int | None


class _Chosen(NamedTuple):
    id: int
    taken: int
    failed: int


def key_of(group_id: str | None) -> str:
    """Return the name under which a key is stored; the same for each message of the group."""
    key = (group_id or "").replace("\0", " ")
    if len(key) <= LONGEST and not key.endswith(" "):  # which MariaDB and MySQL ignore
        return key
    return f"{key[:LONGEST]} {hashlib.sha256(key.encode(errors='replace')).hexdigest()[:32]}"


class KeyedTaking:
    """Chooses messages of one queue by their keys, and claims them. The queue is locked meanwhile."""

    def __init__(self, session: DatabaseSession, container: str) -> None:
        self._adapter = session.adapter
        self._sql = session.flow_statements
        self._claims = session.claim_statements
        self._container = container
        self._lock = threading.Lock()
        self.file_all()

    def file(self, connection: Connection) -> Filed:
        """File messages that were added since the last time, in the caller's transaction."""
        with self._lock:
            after, rewound, tidies = self._filed_to, self._is_rewound, self._tidies
        if tidies:
            connection.execute(self._sql.remove_unkeyed, container=self._container)
        last = connection.fetch(self._sql.find_last)[0][0] if rewound else None
        for _ in range(_PAGES):
            page = {"container": self._container, "after": after, "limit": _PAGE}
            found = connection.fetch(self._sql.find_unfiled, **page)
            connection.insert_rows(self._sql.add_keyed, [self._filed(*row) for row in found])
            after = found[-1][0] if found else after
            if len(found) < _PAGE:
                return Filed(max(after, last or -1), is_all=True)
        return Filed(after, is_all=False)

    def committed(self, filed: Filed) -> None:
        """Note that the transaction was committed that has filed messages."""
        with self._lock:
            self._filed_to, self._tidies = filed.up_to, False
            self._is_rewound &= not filed.is_all

    def file_late(self) -> None:
        """Look again for messages with earlier IDs that were committed since; every two seconds or so."""
        with self._lock:
            self._earlier, self._filed_to = self._filed_to, min(self._filed_to, self._earlier)
            self._is_rewound = True

    def file_all(self) -> None:
        """Look for messages from the first on, and forget the keys of those that are gone."""
        with self._lock:
            self._filed_to = self._earlier = -1
            self._is_rewound = self._tidies = True

    def _filed(self, id_: int, priority: int | None, blob: bytes) -> Row:
        try:
            key = key_of(openwire.decode(blob, sequence=id_, container=self._container).group_id)
        except CorruptMessage:
            key = ""
        lane = _HIGHEST - min(max(priority or 0, _LOWEST), _HIGHEST)
        return (id_, self._container, key, lane)

    def take(self, connection: Connection, session: int, limit: int, turn: Turn) -> tuple[list[Row], Turn]:
        """Claim up to ``limit`` messages, and return them with where the queue is then."""
        choice = _Choice(self, connection, limit, turn)
        choice.run()
        return self._claim(connection, session, choice.chosen), choice.turn

    def held(self, connection: Connection) -> Counter[str]:
        """Return the numbers of claims that are in force, by key."""
        found = connection.fetch(self._sql.find_held, container=self._container)
        return Counter(name for (name,) in found if name is not None)

    def names(self, connection: Connection, after: str, *, inclusive: bool) -> list[_Key]:
        """Return the next keys that have messages, with their settings."""
        sql = self._sql.names_from if inclusive else self._sql.names_after
        return [_Key(*row) for row in connection.fetch(sql, container=self._container, name_=after)]

    def free(self, connection: Connection, name: str, limit: int) -> list[_Chosen]:
        """Return the first free messages of a key."""
        values = {"container": self._container, "name_": name, "limit": limit}
        return [_Chosen(*row) for row in connection.fetch(self._sql.find_of_key, **values)]

    def head(self, connection: Connection, name: str) -> list[_Chosen]:
        """Return the first message of a key, if that is free."""
        found = connection.fetch(self._sql.find_head, container=self._container, name_=name)
        return [_Chosen(*row[:3]) for row in found if row[3]]

    def _claim(self, connection: Connection, session: int, chosen: list[_Chosen]) -> list[Row]:
        if not chosen:
            return []
        numbers = {one.id: one for one in chosen}
        found = fetch(connection, self._sql.lock_messages, sorted(numbers))
        if found and self._adapter.locks_rows:
            free = still_free(connection, self._claims, {row[0]: numbers[row[0]].taken for row in found})
            found = [row for row in found if row[0] in free]
        write_claims(connection, self._claims, session, [numbers[row[0]] for row in found])
        return [(priority, id_, blob, numbers[id_].failed) for id_, priority, blob in found]

    def remove(self, connection: Runs, ids: list[int]) -> None:
        """Forget the keys of messages that are removed."""
        execute(connection, self._sql.remove_keyed, ids, container=self._container)


@dataclass
class _Choice:
    """The choice of one claim, in rounds over the keys."""

    taking: KeyedTaking
    connection: Connection
    limit: int
    turn: Turn

    def __post_init__(self) -> None:
        self.chosen: list[_Chosen] = []
        self._held = self.taking.held(self.connection)
        self._got: Counter[str] = Counter()

    def run(self) -> None:
        """Serve each key in its turn, until there is enough or no more."""
        more: list[_Key] = []
        for key, quantum in self._ring():
            if self._serve(key, quantum):
                more.append(key)
            if len(self.chosen) >= self.limit:
                return
        while more:
            more = [
                key for key in more if len(self.chosen) < self.limit and self._serve(key, key.weight or 1)
            ]

    def _ring(self) -> Iterator[tuple[_Key, int]]:
        """Yield each key with messages once, from where the turn is."""
        last, credit = self.turn.last, self.turn.credit
        seen: set[str] = set()  # the database has an order of its own for names
        for key in self._pages(last, inclusive=True):
            if key.name != last or credit > 0:
                seen.add(key.name)
                yield key, credit if key.name == last else key.weight or 1
        for key in self._pages("", inclusive=True):
            if key.name in seen:
                return
            yield key, key.weight or 1

    def _pages(self, after: str, *, inclusive: bool) -> Iterator[_Key]:
        while True:
            page = self.taking.names(self.connection, after, inclusive=inclusive)
            yield from page
            if len(page) < NAMES:
                return
            after, inclusive = page[-1].name, False

    def _serve(self, key: _Key, quantum: int) -> bool:
        """Choose of a key; whether it got its whole quantum, and so may have more."""
        if key.paused:
            return False
        got, held = self._got[key.name], self._held[key.name]
        quota = min(quantum, self.limit - len(self.chosen))
        most = self.turn.most if key.most is None else key.most
        if most is not None:
            quota = min(quota, most - held - got)
        if self.turn.keying is Keying.IN_ORDER:
            quota = min(quota, 1 - held - got)
        if quota <= 0:
            return False
        if self.turn.keying is Keying.IN_ORDER:
            found = self.taking.head(self.connection, key.name)
        else:
            found = self.taking.free(self.connection, key.name, got + quota)[got:]
        if not found:
            return False
        self.chosen += found
        self._got[key.name] += len(found)
        self.turn = self.turn._replace(last=key.name, credit=quantum - len(found))
        return len(found) == quantum
