"""Transactions of connections: sends and acknowledgements committed together, in each connection's order."""

from __future__ import annotations

import logging
from asyncio import CancelledError, Future
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, NoReturn, Protocol, cast

from jdbcstore.abc import MessageReference, Store, Transaction, XATransaction
from jdbcstore.broker.api import Delivery, Subscription
from jdbcstore.broker.entry import ENTRY_SIZE, Entry, EntrySource, report_consumed, size_of
from jdbcstore.broker.loop import BrokerLoop, Promise, complete, pass_on
from jdbcstore.broker.memory import Resources
from jdbcstore.broker.store_io.outbox import Outbox, Receiver
from jdbcstore.broker.subscription import BaseSubscription, by_source
from jdbcstore.errors import DestinationFull, OutcomeUnknown, StorageFull, StoreError, TransactionError
from jdbcstore.message.ids import XATransactionId
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)

_ALL = 4
"""The limit for the open transactions of all connections, as a multiple of the limit of one."""
_OVER = "this transaction has ended; begin another one"


class SendTarget(Receiver, Protocol):
    """A queue or topic that receives a transaction's messages."""

    def stage(self, transaction: Transaction, message: Message) -> bool:
        """Add the message to a store transaction; False if it is not stored."""

    def before(self, connection_id: str) -> list[Future[None]]:
        """Return a future to wait for before the connection may commit messages staged here; mostly None."""

    def room(self, message: Message) -> Future[None]:
        """Return a future that completes when the producer of the last staged message may send more."""

    def read_from(self, sequence: int | None) -> None:
        """Read stored messages again from a sequence on, or all, except messages in flight."""


Route = Callable[[Message], "Sequence[tuple[SendTarget, Message]]"]
"""Each destination of a message, and the message for it."""


class _Step(NamedTuple):
    ready: Callable[[], Future[None] | None]
    """Called when it is the step's turn; returns a future to wait for, or None."""
    begin: Callable[[BaseException | None], Future[None] | None]
    """Carries out the step, or gets the error that prevents it: CancelledError if an earlier step is dropped.
    The next step waits for the returned future."""


class Gates:
    """The order of each connection's sends and commits: while a commit waits, later ones wait for it.

    Its gate is closed meanwhile, so its messages keep their order everywhere, and other connections do not
    wait.
    """

    def __init__(self, loop: BrokerLoop) -> None:
        self._loop = loop
        self.closed: dict[str, deque[_Step]] = {}
        """By connection: the steps that wait at a closed gate."""
        self._running: str | None = None
        """The connection of the running step."""

    def send(self, connection_id: str, send: Callable[[], Future[None]]) -> Future[None]:
        """Call ``send`` once the gate, which is closed, opens for it."""
        promise = Promise(loop=self._loop.events)

        def begin(error: BaseException | None) -> None:
            if error is not None:
                promise.cancel()
            elif not promise.done():
                sent = send()
                when_done = sent.call_at_once if isinstance(sent, Promise) else sent.add_done_callback
                when_done(partial(pass_on, promise))

        self.closed[connection_id].append(_Step(_ready, begin))
        return promise

    def commit(
        self,
        connection_id: str,
        ready: Callable[[], Future[None] | None],
        begin: Callable[[BaseException | None], Future[None] | None],
    ) -> None:
        """Start a commit in its turn; the gate is closed while it must wait."""
        step = _Step(ready, begin)
        steps = self.closed.get(connection_id)
        if steps is None:
            self._run(connection_id, deque([step]))
        elif self._running == connection_id:
            steps.appendleft(step)  # the commit of a composite send, whose turn it is
        else:
            steps.append(step)

    def call(self, connection_id: str, callback: Callable[[], None]) -> None:
        """Call back when the gate, which is closed, opens."""
        self.closed[connection_id].append(_Step(_ready, lambda _: callback()))

    def _run(self, connection_id: str, steps: deque[_Step]) -> None:
        while steps:
            step = steps.popleft()
            ready = step.ready()
            if ready is not None:
                self.closed[connection_id] = steps
                ready.add_done_callback(self._loop.guarded(partial(self._go_on, connection_id, step)))
                return
            if self._is_held(connection_id, steps, step.begin(None)):
                return
        self.closed.pop(connection_id, None)

    def _is_held(self, connection_id: str, steps: deque[_Step], begun: Future[None] | None) -> bool:
        """Return whether the next step must wait for the running one; the gate opens when that is done."""
        if begun is None or begun.done():
            return False
        self.closed[connection_id] = steps
        begun.add_done_callback(self._loop.guarded(lambda _: self._as_one(connection_id, self._run)))
        return True

    def _go_on(self, connection_id: str, step: _Step, ready: Future[None]) -> None:
        def go_on(connection_id: str, steps: deque[_Step]) -> None:
            error = ready.exception()
            begun = step.begin(error)
            while steps and isinstance(error, CancelledError):
                steps.popleft().begin(error)
            if not self._is_held(connection_id, steps, begun):
                self._run(connection_id, steps)

        self._as_one(connection_id, go_on)

    def _as_one(self, connection_id: str, work: Callable[[str, deque[_Step]], None]) -> None:
        """Run steps of this connection, whose own commits come first."""
        self._running = connection_id
        try:
            work(connection_id, self.closed[connection_id])
        finally:
            self._running = None


def _ready() -> None:
    return None


class OpenTransactions:
    """The open transactions of one broker, and their memory.

    Their memory is separate from the memory of messages and never waits for it, because a waiting transaction
    could not end.

    :param limit: bytes for the transactions of one connection; all together may use four times that
    :param most_sends: the most messages of a transaction; 0 means unlimited
    """

    def __init__(self, resources: Resources, outbox: Outbox, limit: int, most_sends: int = 0) -> None:
        self.loop = resources.loop
        self.outbox = outbox
        self.gates = Gates(resources.loop)
        self._notices, self._events = resources.notices, resources.events
        self._limit, self._most_sends = limit, most_sends
        self._by_connection: dict[str, int] = {}
        self.used = 0

    def increase(self, connection_id: str, size: int) -> None:
        """Count more bytes.

        :raises DestinationFull: a limit is reached
        """
        own = self._by_connection.get(connection_id, 0) + size
        if own > self._limit:
            self._refuse(connection_id, "of this connection", self._limit, "commit more often")
        if self.used + size > _ALL * self._limit:
            self._refuse(connection_id, "of all connections", _ALL * self._limit, "try again later")
        self._by_connection[connection_id] = own
        self.used += size

    def check_may_send(self, connection_id: str, sent: int) -> None:
        """Raise if a transaction has sent its maximum of messages.

        :raises DestinationFull: the maximum is reached
        """
        most = self._most_sends
        if most and sent >= most:
            text = f"a transaction may send at most {most} messages before its commit"
            if self._notices.is_news("max_uncommitted_count", connection_id):
                log.warning("connection %s: %s (max_uncommitted_count)", connection_id, text)
            raise DestinationFull(
                f"{text}: commit more often, or ask the administrator to raise max_uncommitted_count"
            )

    def _refuse(self, connection_id: str, whose: str, limit: int, advice: str) -> NoReturn:
        text = f"the open transactions {whose} may hold at most {limit} bytes together"
        if self._notices.is_news("transactions", whose, connection_id):
            log.warning("connection %s: %s; raise memory_limit", connection_id, text)
        raise DestinationFull(f"{text}: {advice}, or ask the administrator to raise memory_limit")

    def consumed(self, source: EntrySource, entries: list[Entry]) -> None:
        """Remove entries from their source after the commit of their acknowledgement."""
        report_consumed(self._events, source, entries)
        source.acknowledged(entries)

    def decrease(self, connection_id: str, size: int) -> None:
        """Subtract the bytes of an ended transaction."""
        self.used -= size
        rest = self._by_connection.get(connection_id, 0) - size
        if rest > 0:
            self._by_connection[connection_id] = rest
        else:
            self._by_connection.pop(connection_id, None)


class EngineTransaction:
    """A :class:`jdbcstore.broker.api.BrokerTransaction`: one transaction of the store."""

    def __init__(
        self,
        transactions: OpenTransactions,
        route: Route,
        connection_id: str,
        branch: XATransaction | None = None,
        moving: Transaction | None = None,
    ) -> None:
        """Begin; ``moving`` is a transaction of the store that removes rows of its outbox, without limits."""
        self._transactions = transactions
        self._loop = transactions.loop
        self._route = route
        self._connection_id = connection_id
        self._branch = branch
        """The store's branch, if this is a distributed transaction."""
        self._moves = moving is not None
        self._written: Transaction | None = branch or moving or transactions.outbox.store.transaction()
        self._sends: list[tuple[SendTarget, Message, bool]] = []
        self._holders: dict[BaseSubscription, list[Entry]] = {}
        self._size = self._sent = 0
        self.is_stored = False
        """Whether it is prepared in the store, not only in memory."""

    @property
    def _open(self) -> Transaction:
        if self._written is None:
            raise TransactionError(_OVER)
        return self._written

    def send(self, message: Message) -> Future[None]:
        try:
            written = self._open
            if not self._moves:
                self._transactions.check_may_send(self._connection_id, self._sent)
                self._sent += 1
                self._increase(size_of(message))
            targets = self._route(message)
            counted = 0 if self._moves else 1  # a message of the store's outbox stays there
            refusal = self._transactions.outbox.room.refuse(counted) if message.persistent else None
            if refusal is not None:
                raise refusal
            for target, routed in targets:
                self._sends.append((target, routed, target.stage(written, routed)))
        except StoreError as error:
            return self._loop.failed(error)
        if len(targets) == 1:
            [(target, routed)] = targets
            return target.room(routed)
        return self._loop.all_done([target.room(routed) for target, routed in targets])

    def acknowledge(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> None:
        _ = self._open
        holder = cast(BaseSubscription, subscription)
        self._increase(len(deliveries) * ENTRY_SIZE)
        self._holders.setdefault(holder, []).extend(holder.lend(deliveries))

    def _increase(self, size: int) -> None:
        self._transactions.increase(self._connection_id, size)
        self._size += size

    def commit(self) -> Future[None]:
        if self._written is None:
            return self._loop.failed(TransactionError(_OVER))
        written, self._written = self._written, None
        promise = Promise(loop=self._loop.events)
        begin = partial(self._begin, written, promise)
        self._begin_in_turn(begin)
        return promise

    def _begin_in_turn(self, begin: Callable[[BaseException | None], Future[None] | None]) -> None:
        if self._sends:
            self._transactions.gates.commit(self._connection_id, self._ready, begin)
        else:
            begin(None)

    def _ready(self) -> Future[None] | None:
        targets = dict.fromkeys([target for target, _, _ in self._sends])
        waits = [wait for target in targets for wait in target.before(self._connection_id)]
        return self._loop.all_done(waits) if waits else None

    def _begin(
        self, written: Transaction, promise: Future[None], error: BaseException | None
    ) -> Future[None] | None:
        outbox = self._transactions.outbox
        if isinstance(error, CancelledError):
            promise.cancel()  # its connection is closed
        if error is not None:
            self._fail(promise, error)
            return None
        entries = [entry for mine in self._holders.values() for entry in mine]
        # The sequences of entries that are being written are not known yet.
        writing = [entry.writing.done for entry in entries if entry.writing is not None]
        outbox.commit(self._loop.all_done(writing), partial(self._submit, written, entries, promise))
        return None if outbox.store.commits_in_order else promise

    def _submit(self, written: Transaction, entries: Sequence[Entry], promise: Future[None]) -> None:
        end = partial(self._end, promise)
        is_written = self._moves or any(stored for _, _, stored in self._sends)
        try:
            for source, mine in by_source(entries):
                is_written |= source.stage_acknowledgement(written, mine)
        except StoreError as error:
            end([], error)
            return
        if is_written:
            self._transactions.outbox.line.submit(written.commit_async, self._size, end)
        else:
            end([], None)

    def _end(
        self, promise: Future[None], references: list[MessageReference], error: BaseException | None
    ) -> None:
        self._transactions.outbox.commit_ended()
        if error is None:
            self._decrease()
            complete(promise, None)  # the producer first: it may also be the consumer
            self._committed(references)
        else:
            self._fail(promise, error)

    def _committed(self, references: list[MessageReference]) -> None:
        stored = iter(references)
        for target, message, is_stored in self._sends:
            target.arrive(message, next(stored) if is_stored else None, self._connection_id)
        for source, mine in by_source(self._take_acknowledged()):
            self._transactions.consumed(source, mine)

    def _fail(self, promise: Future[None], error: BaseException) -> None:
        self._decrease()
        if isinstance(error, StorageFull):
            self._transactions.outbox.room.filled(error, self._sent)
        if isinstance(error, OutcomeUnknown):
            for target, _, is_stored in self._sends:
                if is_stored:
                    target.resync()
        self._return_deliveries()
        complete(promise, error)

    # Two phases: the following methods are only for branches.

    def prepare(self) -> Future[bool]:
        branch, self._written = self._branch, None
        if branch is None:
            return self._loop.failed(TransactionError("only an XA transaction can be prepared; commit it"))
        promise: Future[bool] = self._loop.create_future()
        self._begin_in_turn(partial(self._begin_preparing, branch, promise))
        return promise

    def _begin_preparing(
        self, branch: XATransaction, promise: Future[bool], error: BaseException | None
    ) -> Future[None] | None:
        prepared: Future[None] = self._loop.create_future()
        task = self._loop.create_task(self._prepare(branch, error))

        def end(done: Future[bool]) -> None:
            failure = CancelledError() if done.cancelled() else done.exception()
            # First: a notified client may commit immediately.
            self._preparation_ended(is_prepared=failure is None and done.result())
            prepared.set_result(None)
            if failure is None:
                if not promise.cancelled():
                    promise.set_result(done.result())
                return
            self._decrease()
            self._return_deliveries()
            if isinstance(failure, CancelledError):
                promise.cancel()
            elif not promise.cancelled():
                promise.set_exception(failure)

        task.add_done_callback(self._loop.guarded(end))
        return prepared

    def _preparation_ended(self, *, is_prepared: bool) -> None:
        """Note the end of :meth:`prepare`, before its future completes."""

    async def _prepare(self, branch: XATransaction, error: BaseException | None) -> bool:
        if error is not None:
            raise error
        entries = [entry for mine in self._holders.values() for entry in mine]
        for entry in entries:
            if entry.writing is not None:  # its sequence is not known yet
                await entry.writing.done
        for source, mine in by_source(entries):
            source.stage_acknowledgement(branch, mine)
        self.is_stored = await self._loop.run(branch.prepare)
        if not (self.is_stored or self._sends or entries):
            self._decrease()
            return False
        return True

    async def commit_prepared(self) -> None:
        """Commit a prepared transaction.

        :raises StoreError: it is still prepared, or its outcome is unknown
        """
        branch, after = self._branch, None
        assert branch is not None  # noqa: S101 - others cannot be prepared
        if self.is_stored:
            store = self._transactions.outbox.store
            after = await self._loop.run(partial(commit_in_store, store, branch.xid))
        self._decrease()
        for target in dict.fromkeys(target for target, _, stored in self._sends if stored):
            target.read_from(after)
        for target, message, stored in self._sends:
            if not stored:
                target.arrive(message, None, self._connection_id)
        for source, mine in by_source(self._take_acknowledged()):
            self._transactions.consumed(source, mine)

    async def rollback_prepared(self) -> None:
        """Roll back a prepared transaction; its deliveries go back to their consumers.

        :raises StoreError: it is still prepared, or its outcome is unknown
        """
        branch = self._branch
        assert branch is not None  # noqa: S101 - others cannot be prepared
        if self.is_stored:
            await self._loop.run(partial(self._transactions.outbox.store.xa.rollback, branch.xid))
        self._decrease()
        self._return_deliveries()

    def rollback(self) -> None:
        if self._written is not None:
            self._written.rollback()
            self._written = None
            self._decrease()
            self._return_deliveries()

    def _decrease(self) -> None:
        self._transactions.decrease(self._connection_id, self._size)
        self._size = 0

    def _take_acknowledged(self) -> list[Entry]:
        """Remove the acknowledged entries from their subscriptions."""
        entries = []
        for holder, mine in self._holders.items():
            holder.settle_lent(mine)
            entries.extend(mine)
        self._holders.clear()
        return entries

    def _return_deliveries(self) -> None:
        """Leave the deliveries with their consumers; deliveries of closed consumers go back to their
        sources."""
        holders, self._holders = self._holders, {}
        for holder, mine in holders.items():
            holder.take_back_lent(mine)


def commit_in_store(store: Store, xid: XATransactionId) -> int:
    """Commit a prepared transaction; return the last sequence before its messages; called in a thread."""
    after = store.last_sequence()
    store.xa.commit(xid)
    return after
