"""Large bodies: kept in pieces in JDBCSTORE_PIECES, apart from the messages that have them.

A body is written piece by piece before its message. The transaction that adds a message counts it in the row
of its body, which must be there and not abandoned; so a message is never stored whose pieces are gone.
Afterwards nothing is written when a message is acknowledged, moved or purged: a body is removed once no row
of ACTIVEMQ_MSGS has it, and this process does not either.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator

from jdbcstore.database.adapters.sql import Sql
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.large import LargeStatements
from jdbcstore.errors import LargeBodyMissing, LockLost, SchemaError, StoreClosed, StoreError
from jdbcstore.message.message import Message
from jdbcstore.message.openwire.pieces import PIECE_SIZE, LargeBody, body_in_pieces, is_alive
from jdbcstore.stores.jdbc.bodies import has_large, prepare_large
from jdbcstore.stores.jdbc.writer.writer import UnitWriter
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)

_PAGE = 100
_AT_ONCE = 16
"""Pieces that one transaction removes."""
_PERIOD = 2.0
"""Seconds between two searches for bodies that no message has, while there are bodies at all."""
_SHARE = 20
"""The pause after such a search is at least so many times as long as the search."""
_ABANDONED_MS = 24 * 3600 * 1000
"""Age of a body that no message ever had at which it is removed, although another process may write it."""


class JdbcLargeBodies:
    """The large bodies of one store; see :class:`jdbcstore.abc.LargeBodies`. Thread-safe.

    :param is_master: whether no other process may be writing a body
    :param period: seconds between the cleanups of the store; with 0 only they remove bodies
    """

    def __init__(
        self, session: DatabaseSession, writer: UnitWriter, clock: Clock, *, is_master: bool, period: float
    ) -> None:
        self._session = session
        self._sql = session.of(LargeStatements)
        self._writer = writer
        self._clock = clock
        self._is_master = is_master
        self._own: set[int] = set()
        """The bodies that this store has begun."""
        self._period = period
        self._cleaning = threading.Lock()
        """Held while bodies are removed, so a later caller returns when they are gone."""
        self._wanted = threading.Event()
        """There may be bodies, at which the thread is to look."""
        self._stopped = threading.Event()
        self._unstarted = [threading.Thread(target=self._run, name="jdbcstore-large", daemon=True)]
        """The thread, until a caller takes it to start it."""
        self._is_prepared = False

    def start(self) -> None:
        """Remove bodies in the background, on a thread of its own once there are any."""
        if self._period and has_large(self._session):
            self._want()

    def stop(self) -> None:
        """Remove no more, after the current transaction."""
        self._stopped.set()
        self._wanted.set()

    def _want(self) -> None:
        self._wanted.set()
        if self._period and self._unstarted:
            with contextlib.suppress(IndexError):  # another thread was faster
                self._unstarted.pop().start()

    def begin(self) -> LargeBody:
        if not self._is_prepared:
            prepare_large(self._session)
            self._is_prepared = True
        body = LargeBody.of(secrets.randbits(63), 0)
        row = {"id": body.number, "msg_id": 0, "touched": 0, "begun": self._clock.now_ms()}
        sql, tried = self._sql, False

        def begin(connection: Connection) -> None:
            nonlocal tried
            if tried:
                connection.execute(sql.remove, number=body.number)
            tried = True
            connection.execute(sql.add, **row)

        self._own.add(body.number)
        self._writer.call(begin)
        self._want()
        return body

    def add(self, body: LargeBody, piece: int, data: bytes) -> None:
        sql, tried = self._sql, False

        def add(connection: Connection) -> None:
            nonlocal tried
            if tried:  # whether it took effect is not known
                connection.execute(sql.remove_piece, number=body.number, piece_=piece)
            tried = True
            connection.execute(sql.add_piece, id=body.number, piece=piece, data=data)

        self._writer.call(add)

    def read(self, body: LargeBody, piece: int) -> bytes:
        size = min(PIECE_SIZE, body.size - piece * PIECE_SIZE)
        find = self._sql.find_piece
        try:
            rows = self._session.fetch(find, number=body.number, piece_=piece)
        except SchemaError as error:  # the message was copied here without its table
            raise LargeBodyMissing(body.number) from error
        if not rows or len(rows[0][0]) != size:
            raise LargeBodyMissing(body.number)
        return bytes(rows[0][0])

    def pieces_of(self, message: Message) -> Iterator[bytes]:
        body = body_in_pieces(message)
        if body is not None:
            for piece in range(body.pieces):
                yield self.read(body, piece)

    def exist(self) -> bool:
        """Return whether there are any, also without a message."""
        return has_large(self._session) and bool(self._session.fetch(self._sql.find_any, limit=1))

    def clean(self) -> int:
        """Remove the bodies that no message has, and this process does not either; returns how many."""
        if not has_large(self._session):
            return 0
        with self._cleaning:
            return self._clean()

    def _clean(self) -> int:
        find, after, removed = self._sql.find_unused, -1, 0
        too_young = self._clock.now_ms() - _ABANDONED_MS
        while rows := self._session.fetch(find, after=after, limit=_PAGE):
            for number, touched, begun in rows:
                another = not (self._is_master or touched or number in self._own or begun < too_young)
                if self._stopped.is_set() or another or is_alive(number):
                    continue
                removed += self._remove(number, touched)
            after = rows[-1][0]
        return removed

    def _remove(self, number: int, touched: int) -> bool:
        """Remove a body, unless a message has got it meanwhile."""
        sql, call = self._sql, self._writer.call
        if touched >= 0 and not call(lambda c: c.change(sql.abandon, number=number, touched_=touched)):
            return False
        [(last,)] = self._session.fetch(sql.find_last_piece, number=number)
        for first in range(0, -1 if last is None else int(last) + 1, _AT_ONCE):
            last_of_these = first + _AT_ONCE - 1
            call(_executing(sql.remove_pieces, number=number, first=first, last=last_of_these))
        call(_executing(sql.remove, number=number))
        self._own.discard(number)
        return True

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._wanted.wait()
                self._wanted.clear()
                self._watch()
        except (StoreClosed, LockLost):
            return

    def _watch(self) -> None:
        """Remove bodies as long as there are any."""
        find = self._sql.find_any
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                if not self._session.fetch(find, limit=1):
                    return
                with self._cleaning:
                    self._clean()
            except (StoreClosed, LockLost):
                raise
            except StoreError as error:
                log.warning("large bodies cannot be removed now, and will be later: %s", error)
            self._stopped.wait(max(_PERIOD, _SHARE * (time.monotonic() - began)))


def _executing(sql: Sql, **values: int) -> Callable[[Connection], None]:
    return lambda connection: connection.execute(sql, **values)
