"""Claims by key: a fair share for each key of a queue, limits of a key, and order within a key.

The key of a message is its group, JMSXGroupID. Messages are chosen from JDBCSTORE_KEYED, where each is
filed under its key: by the commit that adds it, or by the first process that claims afterwards, if its
producer does not know of keys. A queue takes turns in the order of the keys' names, in which each key that
has messages gets as many claims as its weight. The queue's row stores the position of the turn, and a claim
locks that row. So all processes share one turn, and a key waits for one round at most.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection, Runs
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.claims import HEAD, ClaimStatements
from jdbcstore.database.statements.flow import KEYED, KEYED_IN_ORDER, UNKEYED, FlowStatements
from jdbcstore.errors import CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.stores.claims.buckets import Rate, look_into, rate_of
from jdbcstore.stores.claims.claiming import write_claims
from jdbcstore.stores.claims.of_ids import execute, fetch
from jdbcstore.stores.shared.rows import EncodedMessage

LONGEST = 200
"""The longest key that is stored as it is, in characters; of a longer one the rest is a digest."""
KEY_SETTINGS = ("paused", "most", "weight", "rate", "burst")
"""The settings of a key, in the order of their columns."""
_PAGE = 256
_NAMES = 32
"""The most keys that one statement returns."""
_LOWEST, _HIGHEST = 0, 9
_PAGES = 8
"""Pages that are filed in one transaction."""


class Keying(IntEnum):
    """The use that a queue makes of the keys of its messages."""

    IGNORED = UNKEYED
    SHARED = KEYED
    """Each key gets its share."""
    IN_ORDER = KEYED_IN_ORDER
    """Besides, the next message of a key is claimed once the one before is settled."""


class Turn(NamedTuple):
    """The position of a queue in its round of keys."""

    keying: Keying = Keying.IGNORED
    most: int | None = None
    """The most claims of a key at the same time, unless the key has a limit of its own."""
    rate: Rate | None = None
    """The rate of a key, unless it has one of its own."""
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
    rate: int | None
    burst: int | None
    drawn: int | None
    first: int | None
    """Its first message that can be claimed."""
    now_ms: int


KEY_FIELDS = len(_Key._fields)
"""The columns of a key in a statement that chooses messages."""


class Choice(NamedTuple):
    """The messages to claim, and the turn to store with them."""

    ids: list[int]
    turn: Turn
    """The position of the queue then."""
    drawn: dict[str, int]
    """The time up to which the tokens of keys are drawn then."""
    opens_in: float
    """Seconds until a key that has no token has one."""


def key_row(**values: str | int | None) -> Row:
    """Return a new row of the settings of keys, of which nothing is drawn."""
    names = ("container", "name_", *KEY_SETTINGS, "drawn")
    return tuple({"paused": 0, "weight": 1, "drawn": 0, **values}.get(name) for name in names)


def key_of(group_id: str | None) -> str:
    """Return the name under which a key is stored; the same for each message of the group."""
    key = (group_id or "").replace("\0", " ")
    stored = key.encode(errors="replace").decode()  # half a surrogate pair is in no database
    if stored == key and len(key) <= LONGEST and not key.endswith(" "):  # which MariaDB and MySQL ignore
        return key
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
    return f"{stored[:LONGEST]} {digest[:32]}"


def filed_rows(encoded: Sequence[EncodedMessage], ids: Sequence[int], keyed: Collection[str]) -> list[Row]:
    """Return the rows by which new messages are filed under their keys, of those in the queues ``keyed``."""
    return [
        _filed(id_, message.container, message.priority, openwire.headers_of(message.blob).group_id)
        for message, id_ in zip(encoded, ids, strict=True)
        if message.container in keyed
    ]


def _filed(id_: int, container: str, priority: int | None, group: str | None) -> Row:
    lane = _HIGHEST - min(max(priority or 0, _LOWEST), _HIGHEST)
    return (id_, container, key_of(group), lane)


def at_first(limit: int) -> int:
    """Return the number of keys that are looked at first: most often there is a message in each."""
    return min(limit, _NAMES)


class KeyedTaking:
    """Chooses messages of one queue by their keys, and claims them where the queue is locked."""

    def __init__(self, session: DatabaseSession, container: str) -> None:
        self.sql = session.of(FlowStatements)
        self._claims = session.of(ClaimStatements)
        self._container = container
        self._lock = threading.Lock()
        self._filed_to = self._earlier = -1
        self._is_rewound = True

    @property
    def filed_to(self) -> int:
        """The ID up to which all that were committed are filed."""
        with self._lock:
            return self._filed_to

    def file(self, connection: Connection, *, has_later: bool | None) -> Filed:
        """File messages that were added since the last time, in the caller's transaction.

        :param has_later: whether there are messages after :attr:`filed_to`; None if that is not known
        """
        with self._lock:
            after, rewound = self._filed_to, self._is_rewound
        here = {"container": self._container}
        last = None
        if rewound:
            last = connection.fetch(self.sql.find_last)[0][0]
        if rewound or has_later is None:
            has_later = connection.fetch(self.sql.has_later, **here, after=after)[0][0] is not None
        if not has_later:
            return Filed(max(after, last or -1), is_all=True)
        for _ in range(_PAGES):
            unfiled = connection.fetch(self.sql.find_unfiled, **here, after=after, limit=_PAGE)
            connection.insert_rows(self.sql.add_keyed, [self._filed(connection, *row) for row in unfiled])
            lanes = Counter(row[1] for row in unfiled)
            full = [
                max(row[0] for row in unfiled if row[1] == lane) for lane in lanes if lanes[lane] == _PAGE
            ]
            after = min(full) if full else max([after, last or -1, *(row[0] for row in unfiled)])
            if not full:
                return Filed(after, is_all=True)
        return Filed(after, is_all=False)

    def committed(self, filed: Filed) -> None:
        """Note that the transaction was committed that has filed messages."""
        with self._lock:
            self._filed_to = filed.up_to
            self._is_rewound &= not filed.is_all

    def file_late(self) -> None:
        """Look again for messages with earlier IDs that were committed since; every two seconds or so."""
        with self._lock:
            self._earlier, self._filed_to = self._filed_to, min(self._filed_to, self._earlier)
            self._is_rewound = True

    def rescan(self, connection: Connection) -> None:
        """Look for messages from the first on, and forget keys that are of no use any more."""
        here = {"container": self._container}
        while gone := [id_ for (id_,) in connection.fetch(self.sql.find_unkeyed, **here, limit=_PAGE)]:
            self.remove(connection, gone)
        connection.execute(self.sql.remove_plain_keys, **here)
        last = connection.fetch(self.sql.find_last)[0][0]
        if connection.fetch(self.sql.find_unfiled, **here, after=-1, limit=1):
            last = None
        with self._lock:
            self._filed_to = self._earlier = -1 if last is None else last
            self._is_rewound = last is None

    def _filed(self, connection: Connection, id_: int, priority: int | None, head: bytes | None) -> Row:
        group = None
        with contextlib.suppress(CorruptMessage):
            try:
                group = openwire.headers_of(bytes(head or b"")).group_id
            except CorruptMessage:
                if head is None or len(head) < HEAD:
                    raise
                for (blob,) in fetch(connection, self.sql.find_whole, [id_]):
                    group = openwire.headers_of(bytes(blob)).group_id
        return _filed(id_, self._container, priority, group)

    def choose(
        self, connection: Connection, limit: int, turn: Turn, first: Sequence[Row] | None = None
    ) -> Choice:
        """Choose up to ``limit`` messages to claim.

        :param first: the first keys from where the turn is, if known, as many as :func:`at_first` returns
        """
        choosing = _Choosing(self, connection, limit, turn, first)
        choosing.run()
        return Choice(choosing.chosen, choosing.turn, choosing.drawn, choosing.opens_in)

    def draw(self, connection: Connection, drawn: dict[str, int]) -> None:
        """Note up to which time the tokens of keys are drawn, in the caller's transaction."""
        for name, until in drawn.items():
            here = {"container": self._container, "name_": name}
            if not connection.change(self.sql.draw_key, **here, until=until):
                connection.insert_rows(self.sql.add_key, [key_row(**here, drawn=until)])

    def held(self, connection: Connection) -> Counter[str]:
        """Return the numbers of claims that are in force, by key."""
        rows = connection.fetch(self.sql.find_held, container=self._container)
        return Counter(name for (name,) in rows if name is not None)

    def names(
        self, connection: Connection, after: str | None, count: int, *, inclusive: bool, ordered: bool
    ) -> list[_Key]:
        """Return the next keys that have messages; from the first one on if ``after`` is None."""
        begin = None if after is None else inclusive
        sql = self.sql.names[begin, ordered, self.sql.walks or count == 1]
        values = {"container": self._container, "name_": after, "number": count}
        return [_Key(*row) for row in connection.fetch(sql, **values)]

    def free(self, connection: Connection, name: str, limit: int) -> list[int]:
        """Return the first free messages of a key."""
        values = {"container": self._container, "name_": name, "limit": limit}
        return [id_ for (id_,) in connection.fetch(self.sql.find_of_key, **values)]

    def claim(self, connection: Connection, session: int, ids: list[int]) -> list[Row]:
        """Claim the messages that were chosen, in the caller's transaction."""
        locked = fetch(connection, self.sql.lock_messages, sorted(ids)) if ids else []
        if not locked:
            return []
        # Looked at after the lock: processes that do not know settings may claim as well.
        claims = {
            row[0]: row[1:] for row in fetch(connection, self.sql.find_claims, [row[0] for row in locked])
        }
        free = [row for row in locked if not (row[0] in claims and claims[row[0]][2])]
        numbers = {row[0]: claims.get(row[0], (0, 0)) for row in free}
        new = [(id_, taken + 1, failed) for id_, (taken, failed, *_) in numbers.items()]
        write_claims(connection, self._claims, session, new)
        return [(priority, id_, blob, numbers[id_][1]) for id_, priority, blob in free]

    def remove(self, connection: Runs, ids: list[int]) -> None:
        """Forget the keys of messages that are removed."""
        execute(connection, self.sql.remove_keyed, ids, container=self._container)


@dataclass
class _Choosing:
    """The choice of one claim, in rounds over the keys."""

    taking: KeyedTaking
    connection: Connection
    limit: int
    turn: Turn
    first: Sequence[Row] | None

    def __post_init__(self) -> None:
        self.chosen: list[int] = []
        self._is_ordered = self.turn.keying is Keying.IN_ORDER
        self._got: Counter[str] = Counter()
        self.drawn: dict[str, int] = {}
        self.opens_in = float("inf")

    @cached_property
    def _held(self) -> Counter[str]:
        return self.taking.held(self.connection)

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
        for key in self._pages(last, inclusive=credit > 0, first=self.first):
            seen.add(key.name)
            yield key, credit if credit and key.name == last else key.weight or 1
        for key in self._pages(None):
            if key.name in seen:
                return
            yield key, key.weight or 1

    def _pages(
        self, after: str | None, *, inclusive: bool = False, first: Sequence[Row] | None = None
    ) -> Iterator[_Key]:
        count = at_first(self.limit)
        page = None if first is None else [_Key(*row) for row in first]
        while True:
            if page is None:
                page = self.taking.names(
                    self.connection, after, count, inclusive=inclusive, ordered=self._is_ordered
                )
            yield from page
            if not page or (len(page) < count and not self.taking.sql.walks):
                return
            after, inclusive, count, page = page[-1].name, False, min(4 * count, _NAMES), None

    def _serve(self, key: _Key, quantum: int) -> bool:
        """Choose of a key; whether it got its whole quantum, and so may have more."""
        if key.paused or key.first is None:
            return False
        got = self._got[key.name]
        quota = min(quantum, self.limit - len(self.chosen))
        most = self.turn.most if key.most is None else key.most
        if self._is_ordered:
            most = 1
        if most is not None:
            quota = min(quota, most - self._held[key.name] - got)
        rate = rate_of(key.rate, key.burst) or self.turn.rate
        if rate is not None and quota > 0:
            quota = min(quota, self._tokens(key, rate))
        if quota <= 0:
            return False
        taken = [key.first]
        if got + quota > 1:
            taken = self.taking.free(self.connection, key.name, got + quota)[got:]
        if not taken:
            return False
        if rate is not None:
            drawn = look_into(rate, self._drawn(key), key.now_ms).drawn
            self.drawn[key.name] = drawn + len(taken) * rate.spacing
        self.chosen += taken
        self._got[key.name] += len(taken)
        self.turn = self.turn._replace(last=key.name, credit=quantum - len(taken))
        return len(taken) == quantum

    def _tokens(self, key: _Key, rate: Rate) -> int:
        """Return the claims that the rate of a key allows."""
        bucket = look_into(rate, self._drawn(key), key.now_ms)
        self.opens_in = min(self.opens_in, bucket.opens_in)
        if bucket.is_ahead:
            self.drawn[key.name] = bucket.drawn
        return bucket.tokens

    def _drawn(self, key: _Key) -> int:
        return self.drawn.get(key.name, key.drawn or 0)
