"""Pending messages of a queue, or of a topic for one durable subscription, until they are removed.

Stored messages wait in a cursor over the store, transient ones in memory or in files. They are in flight with
a consumer, or are returned. A queue's dispatcher selects the consumer; a durable subscription has only one.
"""

from __future__ import annotations

from asyncio import Future
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from jdbcstore.abc import Transaction
from jdbcstore.broker.cursors.backlog import Backlog, MemoryCursor
from jdbcstore.broker.cursors.choice import cursor_of_stored
from jdbcstore.broker.cursors.store import InFlight, StoreCursor, StoredRows
from jdbcstore.broker.entry import Entry, PriorityLanes, Wanted
from jdbcstore.broker.loop import unheard
from jdbcstore.broker.memory import Account
from jdbcstore.broker.queues.dead_letters import DeadLetters
from jdbcstore.broker.queues.redelivery import Rejections, redelivered_again
from jdbcstore.broker.store_io.outbox import Acknowledgements, StoreLine
from jdbcstore.errors import SpillFailed
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture


class SetAside(PriorityLanes):
    """Messages that no consumer with room wants, in delivery order.

    ``groups`` counts the messages of each group, because no message overtakes another of its group here.
    """

    __slots__ = ("groups",)

    def __init__(self, lanes: int = 1) -> None:
        super().__init__(lanes)
        self.groups: Counter[str] = Counter()

    def append(self, entry: Entry) -> None:
        super().append(entry)
        self._count([entry], 1)

    def insert(self, entries: Sequence[Entry]) -> None:
        super().insert(entries)
        self._count(entries, 1)

    def pop(self) -> Entry:
        entry = super().pop()
        self._count([entry], -1)
        return entry

    def take(self, wanted: Wanted) -> list[Entry]:
        taken = super().take(wanted)
        self._count(taken, -1)
        return taken

    def clear(self) -> None:
        super().clear()
        self.groups.clear()

    def _count(self, entries: Iterable[Entry], change: int) -> None:
        for entry in entries:
            group_id = entry.message.group_id
            if group_id is not None:
                self.groups[group_id] += change
                if not self.groups[group_id]:
                    del self.groups[group_id]


class PendingMessages:
    """The pending messages of one queue, or of one topic for a durable subscription: an
    :class:`~jdbcstore.broker.entry.EntrySource`.

    Every method is called on the loop. Messages removed with :meth:`pop` or :meth:`take` are in flight until
    they are acknowledged, moved or given back.

    :param rows: the stored messages; None if no messages are stored
    :param transient: the other messages
    :param in_flight: the stored messages that pages must not return
    :param on_ready: called when there may be messages again
    :param on_lost: called when a temporary file cannot be read back
    """

    def __init__(
        self,
        *,
        account: Account,
        line: StoreLine,
        dead_letters: DeadLetters,
        rows: StoredRows | None,
        transient: Backlog,
        in_flight: InFlight,
        on_ready: Callable[[], None],
        on_lost: Callable[[SpillFailed], None],
    ) -> None:
        self._loop, self.destination, self.policy = account.loop, account.destination, account.policy
        self.memory, self.counters = account.memory, account.counters
        self.rows, self.transient, self.in_flight = rows, transient, in_flight
        self._on_ready = on_ready
        self._share = None if rows is None else rows.share
        self._heir: Callable[[Sequence[Entry]], None] | None = None
        """Gets the stored entries that are returned after :meth:`close`."""
        self.cursor: StoreCursor | None = None
        """The cursor over the store, if any are stored."""
        if rows is not None:
            self.cursor = cursor_of_stored(
                *(account, rows),
                source=self,
                in_flight=in_flight,
                make_entry=self._entry_of,
                on_ready=on_ready,
                on_lost=on_lost,
            )
        self.stored = Backlog(self.cursor or MemoryCursor(self.memory, account.lanes), account.lanes)
        self.aside = SetAside(account.lanes)
        """Messages that wait until other consumers have room, in front of all messages that were not offered
        yet."""
        self.unwanted: deque[Entry] = deque()
        """Messages that wait for other consumers, and cannot be left to the store."""
        self.is_window = self.cursor is not None and self.cursor.is_window
        """Whether an entry can be read again without reading all others."""
        self.window = self.cursor if self.is_window else None
        """The cursor, if it may leave messages to the store."""
        self._unloads = self.is_window and not self.policy.advisory_for_consumed
        self._transient_turn = False
        self.rejections = Rejections(account, dead_letters, self, rows)
        self.acknowledgements = Acknowledgements(
            loop=account.loop,
            line=line,
            memory=account.memory,
            in_flight=in_flight,
            counters=account.counters,
            write=_none_stored if rows is None else rows.acknowledge,
            give_back=self.give_back,
        )

    # Waiting

    def _entry_of(self, message: Message) -> Entry:
        """Return the entry of a message read from the store."""
        sequence = message.sequence or 0
        shared = None if self._share is None else self._share(message, sequence)
        redeliveries = self.in_flight.redeliveries.get(sequence)
        is_back = redeliveries is not None
        if redeliveries is not None:
            message = redelivered_again(message, redeliveries, self.policy.redelivery_policy)
        elif shared is not None:
            message = shared.message
        # A message that was returned without a redelivery was only prefetched.
        redelivered = bool(redeliveries) or sequence <= self.in_flight.last_sequence
        return Entry(
            message, self, sequence, stored=True, redelivered=redelivered, returned=is_back, shared=shared
        )

    def take_stored(self, messages: Iterable[Message], wanted: Wanted | None = None) -> list[Entry]:
        """Return the wanted messages among these that are not in flight; from now on they are."""
        taken = []
        for message in messages:
            sequence = message.sequence or 0
            if sequence in self.in_flight:
                continue
            if wanted is None or wanted(Entry(message, self, sequence, stored=True)):
                self.in_flight.sequences.add(sequence)
                entry = self._entry_of(message)
                self.memory.hold(entry)
                taken.append(entry)
        return taken

    def next(self, *, with_stored: bool = True, with_transient: bool = True) -> tuple[Entry | None, Backlog]:
        """Return the next entry, which stays, and its backlog; stored and transient entries alternate."""
        stored = self.stored.head() if with_stored else None
        transient = self.transient.head() if with_transient else None
        if transient is None:
            return stored, self.stored
        if stored is not None:
            self._transient_turn = not self._transient_turn
            if not self._transient_turn:
                return stored, self.stored
        return transient, self.transient

    def pop(self, backlog: Backlog, entry: Entry) -> None:
        """Remove the entry just returned by :meth:`next`."""
        backlog.pop(entry)
        if entry.stored:
            self.in_flight.sequences.add(entry.sequence)

    def take(self, wanted: Wanted) -> list[Entry]:
        """Remove the wanted entries in memory."""
        taken = [*self.stored.take(wanted), *self.transient.take(wanted), *self.aside.take(wanted)]
        taken += self._take_unwanted(wanted)
        for entry in taken:
            if entry.stored:
                self.in_flight.sequences.add(entry.sequence)
        return taken

    def take_expired(self) -> list[Entry]:
        """Remove the expired entries in memory, like :meth:`take`.

        A part of the entries in files is read when no entry before them waits in memory.
        """
        cursor = self.cursor
        if cursor is None or (cursor.is_up_to_date and not cursor.is_window):
            self.stored.head()
        self.transient.head()
        now_ms = self._loop.clock.now_ms()
        return self.take(lambda entry: 0 < entry.message.expiration_ms < now_ms)

    def is_expired(self, entry: Entry) -> bool:
        expiration_ms = entry.message.expiration_ms
        return 0 < expiration_ms < self._loop.clock.now_ms()

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Put entries back in their places, and set-aside ones too, which would otherwise overtake them."""
        entries = [*entries, *self.aside]
        self.aside.clear()
        self.stored.returned.insert([entry for entry in entries if entry.stored])
        self.transient.returned.insert([entry for entry in entries if not entry.stored])

    def _take_unwanted(self, wanted: Wanted) -> list[Entry]:
        taken = [entry for entry in self.unwanted if wanted(entry)]
        gone = set(taken)
        self.unwanted = deque(entry for entry in self.unwanted if entry not in gone)
        return taken

    def reconsider(self, wanted: Wanted = lambda _: True) -> None:
        """Offer unwanted messages again: the wanted ones in memory, and all stored ones."""
        self.put_back(self._take_unwanted(wanted))
        if self.cursor is not None:
            self.cursor.rewind()

    def waiting_transient(self) -> list[Entry]:
        """Return the transient entries in memory, roughly in order."""
        aside = [entry for entry in (*self.unwanted, *self.aside) if not entry.stored]
        return [*aside, *self.transient.waiting()]

    @property
    def is_reading(self) -> bool:
        """Whether a page is being read, which may return messages."""
        return self.cursor is not None and self.cursor.is_reading

    @property
    def is_empty(self) -> bool:
        """Whether no message waits, is with a consumer or is stored."""
        passed_over = self.aside.count or self.unwanted
        return not (passed_over or self.in_flight.count) and self.stored.is_empty and self.transient.is_empty

    def resync(self) -> None:
        """Read messages from the store that a write of unknown outcome may have committed."""
        if self.cursor is not None:
            self.cursor.resync()
            self._on_ready()

    def read_from(self, sequence: int | None) -> None:
        """Read stored messages again from a sequence on, or all, except messages in flight."""
        if self.cursor is not None:
            self.cursor.read_from(sequence)
            self._on_ready()

    # In flight: the fate of entries with a consumer

    def delivered(self, entry: Entry) -> None:
        if self._unloads and self.memory.is_high and entry.stored and entry.writing is None:
            entry.unload(self.memory)

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        late = []
        for entry in entries:
            if entry.writing is not None and not entry.writing.withdraw():
                late.append(entry.writing.done)
        if late:
            return self._loop.after(self._loop.all_done(late), partial(self.acknowledgements.add, entries))
        return self.acknowledgements.add(entries)

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        stored = [entry for entry in entries if entry.stored]
        if stored and self.rows is not None:
            self.rows.stage_acknowledgement(transaction, stored)
        return bool(stored)

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        self.acknowledgements.committed(entries)

    @property
    def counts_returned(self) -> bool:
        redelivery = self.policy.redelivery_policy
        return redelivery is not None and redelivery.counts_returned

    def reject(self, entries: Sequence[Entry], cause: str | None) -> Future[None]:
        entries = _when_written(entries, partial(self._reject_late, cause))
        return self.rejections.reload(entries, partial(self.rejections.reject, cause=cause))

    def _reject_late(self, cause: str | None, entry: Entry) -> None:
        if entry.stored:
            self.reject([entry], cause).add_done_callback(unheard)
        else:
            self.memory.release([entry])

    def expire(self, entries: Sequence[Entry]) -> Future[None]:
        entries = _when_written(entries, partial(self._reject_late, None))
        return self.rejections.reload(entries, self.rejections.move_expired)

    def retain(self, entries: Sequence[Entry]) -> None:
        if self._heir is None:
            self.rejections.retain(entries)
        else:
            self.give_back(entries)

    def give_back(self, entries: Sequence[Entry]) -> None:
        entries = _when_written(entries, self._give_back_late)
        if self._heir is not None:
            self.transient.returned.insert([entry for entry in entries if not entry.stored])
            self._heir([entry for entry in entries if entry.stored])
            return
        self.put_back([entry for entry in entries if not entry.is_unloaded])
        unloaded = [entry for entry in entries if entry.is_unloaded]
        if unloaded and self.cursor is not None:
            # With all waiting entries, which would otherwise be dispatched before them.
            self.cursor.read_again([*unloaded, *self.stored.take_returned()])
        self._on_ready()

    def _give_back_late(self, entry: Entry) -> None:
        if entry.stored:
            self.give_back([entry])
        else:
            # Its producer knows that it is not stored.
            self.memory.release([entry])

    def adopt(self, entries: Sequence[Entry]) -> None:
        """Take entries of an earlier consumer, which pages of this one did not return."""
        for entry in entries:
            entry.move_to(self)
            self.memory.hold(entry)
        self.give_back(entries)

    def close(self, heir: Callable[[Sequence[Entry]], None] | None = None) -> None:
        """Forget waiting messages; stored messages stay stored. The owner closes the transient ones.

        :param heir: gets the stored entries of consumers, now and later
        """
        self._heir = heir
        delayed = self.rejections.clear()
        if heir is not None:
            self.give_back([*delayed, *self.stored.take_returned()])
        self.stored.close()
        self.aside.clear()
        self.unwanted.clear()


def _none_stored(entries: list[Entry]) -> StoreFuture[None]:
    raise AssertionError(f"{len(entries)} entries without a store are said to be stored")


def _when_written(entries: Sequence[Entry], callback: Callable[[Entry], None]) -> Sequence[Entry]:
    """Return the entries that are not being written; the callback gets each of the others after its write."""
    writing = [entry for entry in entries if entry.writing is not None]
    for entry in writing:
        if entry.writing is not None:
            entry.writing.done.add_done_callback(lambda _, entry=entry: callback(entry))  # type: ignore[misc]
    return [entry for entry in entries if entry.writing is None] if writing else entries
