"""Local and XA transactions behind a journal: kept in memory, and committed or prepared as one record."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter

from jdbcstore.abc import MessageReference, PreparedTransaction, PreparedWrites
from jdbcstore.errors import StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.destinations import pending
from jdbcstore.stores.journaled.entries import JournalUnit
from jdbcstore.stores.journaled.front import JournalFront
from jdbcstore.stores.journaled.overlay import PreparedBranch, SourceName
from jdbcstore.stores.journaled.reading import PageSource
from jdbcstore.stores.journaled.records import COMMIT, ROLLBACK, RecordedWrites
from jdbcstore.stores.shared.encoding import nothing
from jdbcstore.stores.shared.paging import PRIORITIES
from jdbcstore.stores.shared.transaction import (
    BufferedStore,
    BufferedTransaction,
    BufferedXATransaction,
    check_xid,
    not_prepared,
    prepared_before,
    prepared_transactions,
)
from jdbcstore.util.futures import StoreFuture


class JournaledTransactions:
    """Begins transactions, and decides prepared ones; see :class:`jdbcstore.abc.XAResource`.

    Transactions that were prepared in the backing store before it had a journal are decided there. Once the
    journal has failed, whether a transaction that was in doubt then is prepared is not known until the store
    is opened again: until then it is not reported, and :class:`JournalFailed` is raised.
    """

    def __init__(self, front: JournalFront, store: BufferedStore[RecordedWrites]) -> None:
        self._front = front
        self._store = store
        self._claims = _Claims(front)

    def begin(self) -> BufferedTransaction[RecordedWrites]:
        return BufferedTransaction(self._store, RecordedWrites(), self)

    def execute(self, writes: RecordedWrites) -> list[MessageReference]:
        references: list[MessageReference] = self._front.writer.execute(JournalUnit(self._checked(writes)))
        return references

    def submit(self, writes: RecordedWrites) -> StoreFuture[list[MessageReference]]:
        return self._front.writer.submit(JournalUnit(self._checked(writes)))

    def _checked(self, writes: RecordedWrites) -> RecordedWrites:
        """Raise :class:`SubscriptionNotFound` if a subscription was deleted meanwhile."""
        for key, _ in writes.acknowledgements:
            self._front.subscriptions.find(key)
        return writes

    def start(self, xid: XATransactionId) -> BufferedXATransaction[RecordedWrites]:
        check_xid(xid, self._front.store.config.name_lengths)
        return BufferedXATransaction(self._store, RecordedWrites(), self, xid=xid, prepare=self._prepare)

    def _prepare(self, xid: XATransactionId, writes: RecordedWrites) -> bool:
        with self._claims.claimed(xid, self._checked(writes)) as claimed:
            return self._front.writer.prepare(claimed, xid)

    def recover(self) -> list[PreparedTransaction]:
        overlay = self._front.overlay
        self._front.writer.journal.check()
        with overlay.lock:
            transactions = [_described(xid, held) for xid, held in overlay.prepared.items()]
        if self._front.prepared_before:
            transactions += self._front.store.xa.recover()
        return sorted(transactions, key=attrgetter("xid"))

    def commit(self, xid: XATransactionId) -> None:
        if xid in self._front.prepared_before:
            self._commit_in_backing(xid)
        else:
            self._decide(xid, COMMIT)

    def rollback(self, xid: XATransactionId) -> None:
        if xid in self._front.prepared_before:
            with self._front.checkpointer.up_to_date():
                self._front.store.xa.rollback(xid)
                self._decided_in_backing(xid)
        else:
            self._decide(xid, ROLLBACK)

    def _decide(self, xid: XATransactionId, kind: int) -> None:
        overlay, writer = self._front.overlay, self._front.writer
        with writer.entered():
            with overlay.lock:
                held = overlay.prepared.get(xid)
            if held is None:
                writer.journal.check()
                raise not_prepared(xid)
            with held.deciding:
                if overlay.prepared.get(xid) is not held or held.is_decided:
                    raise not_prepared(xid)
                # With all of its writes: the record that prepared it may be released before this one.
                unit = JournalUnit(held.writes, nothing, kind=kind, xid=xid)
                held.is_decided = True
                try:
                    writer.decide(unit)
                except StoreError:
                    held.is_decided = False  # nothing was written, or nothing will be any more
                    raise
                except BaseException:
                    # If a signal handler has ended the call, no second record may follow the begun one.
                    held.is_decided = unit.taken
                    raise

    def _commit_in_backing(self, xid: XATransactionId) -> None:
        """Let the journal's own sequences continue after those of the backing store."""
        front = self._front
        with front.checkpointer.up_to_date(), front.writer.paused():
            front.checkpointer.checkpoint()
            front.store.xa.commit(xid)
            front.writer.skip_sequences(front.store.last_sequence())
            self._decided_in_backing(xid)

    def _decided_in_backing(self, xid: XATransactionId) -> None:
        overlay = self._front.overlay
        with overlay.lock:
            self._front.prepared_before.discard(xid)
            overlay.floors.clear()


class _Claims:
    """Messages claimed by transactions that are being prepared: two must not take the same."""

    def __init__(self, front: JournalFront) -> None:
        self._front = front
        self._xids: set[XATransactionId] = set()
        self._claimed: defaultdict[SourceName, set[int]] = defaultdict(set)

    @contextmanager
    def claimed(self, xid: XATransactionId, writes: RecordedWrites) -> Iterator[RecordedWrites]:
        """Yield the writes without acknowledgements of messages that are gone, or of others' transactions.

        :raises TransactionError: a transaction of this id is prepared already
        """
        overlay, taken = self._front.overlay, list[tuple[SourceName, set[int]]]()
        with overlay.lock:
            if xid in overlay.prepared or xid in self._xids or xid in self._front.prepared_before:
                raise prepared_before(xid)
            self._xids.add(xid)
        try:
            claimed = RecordedWrites(adds=writes.adds)
            for container, sequences in writes.removes:
                mine = self._claim(PageSource(overlay, container, 1), sequences)
                taken.append((container, mine))
                if mine:
                    claimed.removes.append((container, sorted(mine)))
            for key, messages in writes.acknowledgements:
                container = key.topic.qualified_name
                mine = self._claim(
                    PageSource(overlay, container, PRIORITIES, key), [pair[0] for pair in messages]
                )
                taken.append((key, mine))
                if mine:
                    claimed.acknowledgements.append((key, [pair for pair in messages if pair[0] in mine]))
            yield claimed
        finally:
            with overlay.lock:
                self._xids.discard(xid)
                for name, mine in taken:
                    self._claimed[name] -= mine

    def _claim(self, source: PageSource, sequences: Iterable[int]) -> set[int]:
        """Claim the sequences that are still there, and claimed by no other transaction."""
        overlay, container = self._front.overlay, source.container
        with overlay.lock:
            oldest = overlay.oldest
            there = {number for number in sequences if overlay.message(container, number, oldest)}
        there |= self._in_backing(source, [number for number in sequences if number not in there])
        with overlay.lock:
            there.difference_update(*source.hidden(oldest), self._claimed[source.name])
            self._claimed[source.name] |= there
        return there

    def _in_backing(self, source: PageSource, sequences: Sequence[int]) -> set[int]:
        if not sequences:
            return set()
        key, store = source.key, self._front.store
        if key is not None:
            topic = store.topic(key.topic)
            return pending(topic.subscription(key.client_id, key.subscription_name), sequences)
        return set(store.queue(Destination.parse(source.container)).present(sequences))


def _described(xid: XATransactionId, held: PreparedBranch) -> PreparedTransaction:
    """Return the transaction for its manager, even if nothing is left to decide."""
    added = Counter(message.container for message in held.writes.adds)
    writes = [PreparedWrites(Destination.parse(name), added=count) for name, count in added.items()]
    for name, sequences in held.writes.removes:
        writes.append(PreparedWrites(Destination.parse(name), acknowledged=len(sequences)))
    for key, messages in held.writes.acknowledgements:
        writes.append(PreparedWrites(key.topic, 0, len(messages), key.client_id, key.subscription_name))
    transactions = prepared_transactions((xid, write) for write in writes)
    return transactions[0] if transactions else PreparedTransaction(xid, ())
