"""The movement of messages that SQL statements have inserted from the outbox to their destinations.

One transaction of the store removes the rows and adds their messages, so after a crash either all or none of
this has happened. The fence of the store keeps other movers out.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Event, Future, Task
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from jdbcstore.abc import InsertedMessages, Transaction, WakeupSignal
from jdbcstore.broker.api import BrokerTransaction
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.errors import InvalidDestination, InvalidMessage, SchemaError, StoreError
from jdbcstore.message.inserted import InsertedMessage
from jdbcstore.message.jobs import DELAY
from jdbcstore.message.message import Message
from jdbcstore.message.values import Long
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

_SENDER = "outbox"
"""The connection of these messages."""
_MOST = 500
"""Rows of one transaction."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 1.0
"""Seconds between two looks at an outbox that stays empty."""


@dataclass(eq=False, repr=False)
class OutboxSender:
    """Sends the messages of an outbox, one transaction after the other.

    ``begin`` begins one, with a transaction of the store that removes rows. ``delays`` says whether messages
    can be scheduled.
    """

    _loop: BrokerLoop
    _outbox: InsertedMessages
    _begin: Callable[[str, None, Transaction], BrokerTransaction]
    _delays: bool

    def __post_init__(self) -> None:
        self._changed = Event()
        self._signal: WakeupSignal | None = None
        self._task: Task[None] | None = None
        self._problem = ""
        """The last error, which is logged once."""
        self.moved = 0
        """The rows that were moved, since this broker became the master."""
        self.bad = 0
        """Rows that became dead letters, or stay with an error."""
        self._reasons: dict[int, str] = {}
        """The errors of rows that become dead letters, until they are moved."""

    def start(self) -> None:
        """Begin to send messages."""
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Send no more messages. The loop completes a running commit."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._signal is not None:
            self._loop.events.remove_reader(self._signal.fileno())
        await self._loop.run(self._outbox.unwatch)

    def _woken(self) -> None:
        if self._signal is not None:
            self._signal.clear()
        self._changed.set()

    async def _run(self) -> None:
        try:
            self._signal = self._outbox.watch()
            if self._signal is not None:
                self._loop.events.add_reader(self._signal.fileno(), self._woken)
            pause = Backoff(_LONGEST_PAUSE, first=_FIRST_PAUSE)
            while True:
                self._changed.clear()
                if await self._has_moved():
                    pause.reset()
                    continue
                try:
                    async with asyncio.timeout(pause.pause()):
                        await self._changed.wait()
                    pause.reset()
                except TimeoutError:
                    pass
        except Exception as defect:
            self._loop.on_defect(defect)

    async def _has_moved(self) -> bool:
        """Move the first messages; return whether there may be more."""
        try:
            read = partial(self._outbox.read, _MOST, after_failure=bool(self._problem))
            rows = await self._loop.run(read)
            if rows:
                await self._move(rows)
        except StoreError as error:
            if self._problem != str(error):
                self._problem = str(error)
                log.warning("inserted messages stay in the outbox for now: %s", error)
            return False
        self._problem = ""
        return bool(rows)

    async def _move(self, rows: Sequence[InsertedMessage]) -> None:
        """Move rows. A bad one ends the batch, as a dead letter.

        :raises StoreError: they were not moved, or the outcome is unknown
        """
        while rows:
            transaction = self._begin(_SENDER, None, self._outbox.transaction(rows))
            rooms: list[Future[None]] = []
            try:
                bad = self._send(transaction, rows, rooms)
            except BaseException:
                transaction.rollback()
                raise
            if bad is None:
                await transaction.commit()
                self.moved += len(rows)
                self.bad += len(self._reasons)
                self._reasons.clear()
                await asyncio.gather(*rooms, return_exceptions=True)
                return
            transaction.rollback()
            rows = await self._rows_to(rows, *bad)

    def _send(
        self, transaction: BrokerTransaction, rows: Sequence[InsertedMessage], rooms: list[Future[None]]
    ) -> tuple[int, str] | None:
        """Send messages in a transaction; return the place of the first bad row, and the reason.

        :raises StoreError: a message cannot be sent now
        """
        for place, row in enumerate(rows):
            if row.is_duplicate:
                continue
            try:
                room = transaction.send(self._message(row))
                if room.done() and (error := room.exception()) is not None:
                    raise error
            except (InvalidDestination, InvalidMessage, SchemaError) as error:
                return place, str(error)
            rooms.append(room)
        return None

    def _message(self, row: InsertedMessage) -> Message:
        reason = self._reasons.get(row.row_id)
        if reason is not None:
            return row.dead_letter(reason)
        message = self._outbox.message(row)
        if not row.delay_ms:
            return message
        if not self._delays:
            raise InvalidMessage("DELAY needs scheduler_support = true in the broker")
        return message.replace(properties={**message.properties, DELAY: Long(row.delay_ms)})

    async def _rows_to(
        self, rows: Sequence[InsertedMessage], place: int, reason: str
    ) -> Sequence[InsertedMessage]:
        """Return the rows to move next, if the row at a place is bad.

        :raises StoreError: it should keep its error, which was not written
        """
        row = rows[place]
        before = self._reasons.get(row.row_id)
        if before is None:
            log.warning("the outbox row %d becomes a dead letter: %s", row.row_id, reason)
            self._reasons[row.row_id] = reason
            return rows[: place + 1]
        log.error("the outbox row %d stays there, with an error: %s", row.row_id, reason)
        del self._reasons[row.row_id]  # the row may be corrected
        await self._loop.run(partial(self._outbox.refuse, row, f"{reason}; {before}"))
        self.bad += 1
        return rows[:place]
