"""The movement of inserted messages from the outbox to queues, beside other processes that claim."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from jdbcstore.database.connection import Connection
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.errors import StoreClosed, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.inserted import InsertedMessage
from jdbcstore.stores.claims.database import ClaimDatabase
from jdbcstore.stores.claims.queue import ClaimQueue
from jdbcstore.stores.jdbc.outbox import OUTBOX, Change, OutboxTable
from jdbcstore.stores.shared.cleanup_timer import CleanupTimer
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

_MOST = 1000
"""Rows of one transaction."""
_LONGEST_PAUSE = 1.0
"""Seconds between two looks at an outbox that stays empty."""
_FIRST_PAUSE = 0.005


class _Outrun(Exception):
    """Another process has moved some of the rows."""


class _Ready(NamedTuple):
    """A row, and its message in its queue."""

    row: InsertedMessage
    queue: ClaimQueue
    encoded: EncodedMessage
    delay_ms: int


class OutboxMover:
    """Moves messages in the background, until :meth:`stop`.

    Movers lock the rows that they remove, and begin again if another one has removed some of them. So each
    row is moved once, and the rows of a session in their order: a mover that sees a row sees the rows before.
    """

    def __init__(
        self,
        database: ClaimDatabase,
        find: Callable[[Destination], ClaimQueue],
        dead_letters: Destination,
    ) -> None:
        """``find`` returns the queue of a name."""
        database.session.prepare_outbox()
        self._database, self._find, self._dead_letters = database, find, dead_letters
        self._table = OutboxTable(database.session)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jdbcstore-outbox", daemon=True)
        self._cleanup = CleanupTimer(self._forget, database.session.config.cleanup_period)

    def start(self) -> None:
        """Begin to move messages."""
        self._thread.start()
        self._cleanup.start()

    def stop(self) -> None:
        """Begin no further transaction."""
        self._stop.set()
        self._cleanup.stop()
        self._database.wakeups.notify(OUTBOX)

    def join(self) -> None:
        """Wait for the end of the current transaction after :meth:`stop`."""
        self._thread.join()
        self._cleanup.join()

    def _forget(self) -> int:
        """Forget old send ids."""
        self._table.clean(self._database.run)
        return 0

    def _run(self) -> None:
        pause, wakeups = Backoff(_LONGEST_PAUSE, first=_FIRST_PAUSE), self._database.wakeups
        problem = ""
        while not self._stop.is_set():
            count, _ = wakeups.count(OUTBOX)
            try:
                if self.move():
                    pause.reset()
                    continue
                problem = ""
            except StoreClosed:
                return
            except StoreError as error:
                if problem != str(error):
                    problem = str(error)
                    log.warning("inserted messages stay in the outbox for now: %s", error)
            if not self._database.session.adapter.outbox_trigger:
                self._stop.wait(pause.pause())
                continue
            wakeups.wait(OUTBOX, count, pause.pause())
            if wakeups.count(OUTBOX)[0] != count:
                pause.reset()

    def move(self) -> bool:
        """Move the first messages; return whether there may be more.

        :raises NotMaster: the lease has expired, and a broker or store serves the tables now
        :raises StoreUnavailable: the database does not answer
        """
        self._database.lease.check()
        try:
            moved = self._database.run(self._move)
        except _Outrun:
            return True
        for queue, delay_ms in moved:
            if delay_ms:
                queue.returned(delay_ms / 1000)
            else:
                queue.wake()
        return bool(moved)

    def _move(self, connection: Connection) -> set[tuple[ClaimQueue, int]]:
        """Move the first messages; return their queues, each with their delays in milliseconds."""
        ready: list[_Ready] = []
        refused: list[Change] = []
        find = cache(self._find)  # rows repeat few names
        for row in self._table.read(connection.fetch, _MOST):
            prepared = self._prepare(row, find)
            if isinstance(prepared, _Ready):
                ready.append(prepared)
            else:
                refused.append(prepared)
        queues = {each.queue: each.encoded.container for each in ready}
        keyed = {container for queue, container in queues.items() if queue.flow.files()}
        if ready or refused:
            with connection.transaction(epoch=self._database.lease.guard):
                self._write(connection, ready, refused, keyed)
        return {(each.queue, each.delay_ms) for each in ready}

    def _write(
        self, connection: Connection, ready: Sequence[_Ready], refused: Sequence[Change], keyed: set[str]
    ) -> None:
        removals = self._table.removals([each.row for each in ready])
        if sum(connection.change(sql, **values) for sql, values in removals) != len(ready):
            raise _Outrun
        new = [each for each in ready if each.row.send_id is None or self._is_new(connection, each.row)]
        ids = self._database.adder.add_rows(connection, [each.encoded for each in new], keyed=keyed)
        delay = self._database.session.of(ClaimStatements).delay_message
        for each, id_ in zip(new, ids, strict=True):
            if each.delay_ms:
                connection.execute(delay, id_=id_, delay_ms=each.delay_ms)
        for sql, values in refused:
            connection.execute(sql, **values)

    def _is_new(self, connection: Connection, row: InsertedMessage) -> bool:
        """Note the send id of a row; return whether it is there first."""
        sql, values = self._table.note(row)
        return connection.change(sql, **values) == 1

    def _prepare(self, row: InsertedMessage, find: Callable[[Destination], ClaimQueue]) -> _Ready | Change:
        """Return a row with its message or its dead letter, or else the change that sets its error."""
        try:
            message = self._table.message(row)
            queue = find(message.destination or self._dead_letters)
            encoded = self._database.encode(queue.destination, message)
            return _Ready(row, queue, encoded, max(0, row.delay_ms or 0))
        except StoreError as error:
            reason = str(error)
        log.warning("the outbox row %d becomes a dead letter: %s", row.row_id, reason)
        try:
            queue = find(self._dead_letters)
            encoded = self._database.encode(queue.destination, row.dead_letter(reason, queue.destination))
            return _Ready(row, queue, encoded, 0)
        except StoreError as error:
            log.error("the outbox row %d stays there, with an error: %s", row.row_id, error)
            return self._table.refusal(row, f"{error}; {reason}")
