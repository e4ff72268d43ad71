"""Sends and acknowledgements that happen together: one transaction of the store."""

from __future__ import annotations

import logging
from asyncio import CancelledError, Future
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, Protocol, cast

from jdbcstore.abc import MessageReference, Transaction
from jdbcstore.broker.api import Delivery, Promise, Subscription
from jdbcstore.broker.entry import ENTRY_SIZE, Entry, size_of
from jdbcstore.broker.notices import Notices
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.store_io.gates import Step
from jdbcstore.broker.store_io.outbox import Receiver
from jdbcstore.broker.subscription import BaseSubscription, all_done, by_source
from jdbcstore.errors import DestinationFull, OutcomeUnknown, StoreError, TransactionError
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)

_ALL = 4
"""Times the memory limit, for the transactions of all connections."""
_OVER = "this transaction has ended; begin another one"


class Target(Receiver, Protocol):
    """A queue or a topic, to a transaction that sends to it."""

    def stage(self, transaction: Transaction, message: Message) -> bool:
        """Add the message to a transaction of the store; False if it is not stored."""

    def before(self, connection_id: str) -> list[Future[None]]:
        """What has to be done before what the connection has staged here is committed: mostly nothing."""

    def room(self, message: Message) -> Future[None]:
        """Done when a producer may send more, who has just staged this."""


Route = Callable[[Message], "Sequence[tuple[Target, Message]]"]
"""Where a message goes: each destination, and what it gets."""


class OpenTransactions:
    """What transactions that are not over hold in memory: those of a connection, and all together.

    They are beside the memory of messages, and may not wait for it: one that waits cannot end.
    """

    def __init__(self, limit: int, notices: Notices) -> None:
        self._limit = limit
        self._notices = notices
        self._by_connection: dict[str, int] = {}
        self.used = 0

    def grow(self, connection_id: str, size: int) -> None:
        """:raises DestinationFull: that is more than may be"""
        own = self._by_connection.get(connection_id, 0) + size
        if own > self._limit:
            self._refuse(connection_id, "of this connection", self._limit, "commit more often")
        if self.used + size > _ALL * self._limit:
            self._refuse(connection_id, "of all connections", _ALL * self._limit, "try again later")
        self._by_connection[connection_id] = own
        self.used += size

    def _refuse(self, connection_id: str, whose: str, limit: int, advice: str) -> NoReturn:
        text = f"the open transactions {whose} may hold {limit} bytes together"
        if self._notices.is_news("transactions", whose, connection_id):
            log.warning("connection %s: %s; raise memory_limit", connection_id, text)
        raise DestinationFull(f"{text}: {advice}, or have memory_limit raised")

    def shrink(self, connection_id: str, size: int) -> None:
        """They are over."""
        self.used -= size
        rest = self._by_connection.get(connection_id, 0) - size
        if rest > 0:
            self._by_connection[connection_id] = rest
        else:
            self._by_connection.pop(connection_id, None)


class EngineTransaction:
    """See :class:`jdbcstore.broker.api.BrokerTransaction`."""

    def __init__(self, parts: Parts, route: Route, connection_id: str) -> None:
        self._parts = parts
        self._route = route
        self._connection_id = connection_id
        self._written: Transaction | None = parts.store.transaction()
        self._sends: list[tuple[Target, Message, bool]] = []
        self._holders: dict[BaseSubscription, list[Entry]] = {}
        self._size = 0

    @property
    def _open(self) -> Transaction:
        if self._written is None:
            raise TransactionError(_OVER)
        return self._written

    def send(self, message: Message) -> Future[None]:
        try:
            written = self._open
            size = size_of(message)
            self._parts.transactions.grow(self._connection_id, size)
            self._size += size
            targets = self._route(message)
            for target, routed in targets:
                self._sends.append((target, routed, target.stage(written, routed)))
        except StoreError as error:
            return self._parts.failed(error)
        return all_done(self._parts.loop, [target.room(routed) for target, routed in targets])

    def acknowledge(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> None:
        _ = self._open
        holder = cast(BaseSubscription, subscription)
        self._parts.transactions.grow(self._connection_id, len(deliveries) * ENTRY_SIZE)
        self._size += len(deliveries) * ENTRY_SIZE
        entries = holder.lend(deliveries, self)
        self._holders.setdefault(holder, []).extend(entries)
        holder.extension += len(entries)
        holder.tell_room()

    def commit(self) -> Future[None]:
        if self._written is None:
            return self._parts.failed(TransactionError(_OVER))
        written, self._written = self._written, None
        parts = self._parts
        promise = Promise(loop=parts.loop)
        begin = partial(self._begin, written, promise)
        if self._sends:
            parts.gates.commit(self._connection_id, Step(self._ready, begin))
        else:
            begin(None)
        return promise

    def _ready(self) -> Future[None] | None:
        targets = dict.fromkeys([target for target, _, _ in self._sends])
        waits = [each for target in targets for each in target.before(self._connection_id)]
        return all_done(self._parts.loop, waits) if waits else None

    def _begin(
        self, written: Transaction, promise: Future[None], error: BaseException | None
    ) -> Future[None] | None:
        parts = self._parts
        parts.commits += 1
        if isinstance(error, CancelledError):
            promise.cancel()  # its connection is gone
        if error is not None:
            self._end(promise, [], error)
            return None
        entries = [entry for mine in self._holders.values() for entry in mine]
        # The sequences of what is being written are not known yet.
        writing = [entry.writing.done for entry in entries if entry.writing is not None]
        parts.outbox.commit(all_done(parts.loop, writing), partial(self._submit, written, entries, promise))
        return None if parts.store.commits_in_order else promise

    def _submit(self, written: Transaction, entries: Sequence[Entry], promise: Future[None]) -> None:
        end = partial(self._end, promise)
        is_written = any(stored for _, _, stored in self._sends)
        try:
            for source, mine in by_source(entries):
                is_written |= source.stage_acknowledgement(written, mine)
        except StoreError as error:
            end([], error)
            return
        if is_written:
            self._parts.line.submit(written.commit_async, self._size, end)
        else:
            end([], None)

    def _end(
        self, promise: Future[None], references: list[MessageReference], error: BaseException | None
    ) -> None:
        self._parts.commits -= 1
        self._shrink()
        if error is None:
            self._parts.settle(promise, None)  # whoever has sent something may be the one who gets it
            self._committed(references)
        else:
            self._failed(error)
            self._parts.settle(promise, error)

    def _committed(self, references: list[MessageReference]) -> None:
        stored = iter(references)
        for target, message, is_stored in self._sends:
            target.arrive(message, next(stored) if is_stored else None, self._connection_id)
        entries = self._release()
        for source, mine in by_source(entries):
            source.acknowledged(mine)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, OutcomeUnknown):
            for target, _, is_stored in self._sends:
                if is_stored:
                    target.lose_sight()
        self._give_up()

    def rollback(self) -> None:
        if self._written is not None:
            self._written.rollback()
            self._written = None
            self._shrink()
            self._give_up()

    def _shrink(self) -> None:
        self._parts.transactions.shrink(self._connection_id, self._size)
        self._size = 0

    def _release(self) -> list[Entry]:
        """Take what was acknowledged from its consumers."""
        entries = []
        for holder, mine in self._holders.items():
            holder.extension -= len(mine)
            for entry in mine:
                entry.transaction = entry.holder = None
                del holder.held[entry]
            entries.extend(mine)
        self._holders.clear()
        return entries

    def _give_up(self) -> None:
        """The deliveries stay with their consumers; those of consumers that are gone go back."""
        holders, self._holders = self._holders, {}
        for holder, mine in holders.items():
            holder.extension -= len(mine)
            for entry in mine:
                entry.transaction = None
            if holder.closed:
                holder.give_back(mine)
