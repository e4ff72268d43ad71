"""The messages that are left in an Artemis once its journal was replayed, and the queues that refer to each.

Positions are kept, not bodies, in a private temporary SQLite file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from jdbcstore.database.statements import artemis as sql
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.ids import XATransactionId
from jdbcstore.tools.importing.artemis import journal, records
from jdbcstore.tools.importing.artemis.journal import Content, JournalRecord
from jdbcstore.tools.importing.replay import BodyPlace, PrivateFile

_WHOLE_PAGE = -1
_UPDATES = (journal.UPDATE, journal.UPDATE_TX)
_HEAD = 70_000
"""More than the longest name of an address needs."""


class Change(NamedTuple):
    """The content of one record."""

    content: int
    """Its type of content, or 0 if it removes a record."""
    id: int
    place: BodyPlace
    values: tuple[int, ...] = ()


class _Transaction:
    """The records of a transaction that has no outcome yet."""

    __slots__ = ("changes", "counts", "removals", "where", "xid")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.removals: list[Change] = []
        self.counts: dict[int, int] = {}
        """Records in each file."""
        self.xid: XATransactionId | None = None
        """The branch, if it is prepared."""
        self.where = (0, 0, 0)


class Reference(NamedTuple):
    """A queue's reference to a message."""

    seq: int
    queue: int
    due_ms: int | None
    xid: XATransactionId | None
    is_added: bool
    """Whether the transaction adds it, and not acknowledges it."""


class LeftMessage(NamedTuple):
    """A message that is left."""

    id: int
    size: int
    address: str | None
    references: list[Reference]


class Found(NamedTuple):
    """The place of a message, and facts of a queue about it."""

    id: int
    place: BodyPlace
    content: int
    address: str | None
    queue: int
    deliveries: int


Damaged = Callable[[int, int, int, str], None]
"""(file, offset, bytes, reason)"""


class LiveState(PrivateFile):
    """Messages and references, as the records of the message journal change them."""

    def __init__(self, damaged: Damaged) -> None:
        super().__init__(sql.STATE_TABLES)
        self._damaged = damaged
        self._addresses: list[str | None] = []
        self._numbers: dict[str | None, int] = {}
        self._open: dict[int, _Transaction] = {}
        self._page_transactions: dict[int, tuple[int, int | None]] = {}
        """By their number: the record, and the branch that is in doubt."""
        self._xids: list[XATransactionId] = []
        self.records = 0
        self.loose = 0
        """Records that refer to others which are not there: in files, there are some after a compaction."""

    # Reading the journal

    def read(self, record: JournalRecord, file: int, content: Content) -> None:
        """Apply a record, or keep it for the outcome of its transaction; damage is reported.

        :param content: returns bytes of the file, from an offset, of a size
        """
        self.records += 1
        match record.kind:
            case journal.COMMIT:
                self._commit(record, file)
            case journal.ROLLBACK:
                self._open.pop(record.transaction, None)
            case journal.PREPARE:
                self._prepare(record, file, content)
            case journal.DELETE:
                self.loose += not self._delete(record.id)
            case journal.DELETE_TX:
                change = Change(0, record.id, BodyPlace(file, record.offset, record.size))
                self._of(record, file).removals.append(change)
            case _:
                self._read_change(record, file, content)

    def _read_change(self, record: JournalRecord, file: int, content: Content) -> None:
        try:
            change = self._change(record, file, content)
        except CorruptMessage as error:
            self._damaged(file, record.offset, record.size, f"record {record.id}: {error.reason}")
            change = None
        if record.kind not in (journal.ADD_TX, journal.UPDATE_TX):
            if change is not None:
                self._apply(change)
            return
        transaction = self._of(record, file)
        if change is not None:
            transaction.changes.append(change)

    def _of(self, record: JournalRecord, file: int) -> _Transaction:
        transaction = self._open.get(record.transaction)
        if transaction is None:
            transaction = self._open[record.transaction] = _Transaction()
        transaction.counts[file] = transaction.counts.get(file, 0) + 1
        return transaction

    def _change(self, record: JournalRecord, file: int, content: Content) -> Change | None:
        at, size = record.body
        place = BodyPlace(file, at, size)
        kind = record.content
        if kind in (records.MESSAGE, records.LARGE):
            head = records.read_head(kind, content(at, min(size, _HEAD)))
            if head.id != record.id:
                raise CorruptMessage(f"it has the message {head.id}")
            return Change(kind, record.id, place, (self._number(head.address),))
        if kind in records.WITHOUT_MESSAGES or (kind == records.PAGE_TRANSACTION and record.kind in _UPDATES):
            return None
        return Change(kind, record.id, place, records.read_numbers(kind, content(at, size)))

    def _number(self, address: str | None) -> int:
        number = self._numbers.get(address)
        if number is None:
            number = self._numbers[address] = len(self._addresses)
            self._addresses.append(address)
        return number

    def _apply(self, change: Change, xid: int | None = None) -> None:
        id_, values = change.id, change.values
        match change.content:
            case records.MESSAGE | records.LARGE:
                self._run(sql.ADD_MESSAGE, (id_, *change.place, change.content, values[0]))
            case records.REFERENCE:
                added = self._run(sql.ADD_REFERENCE, (id_, values[0], xid, xid is not None))
                self.loose += not added.rowcount
            case records.ACKNOWLEDGED if xid is not None:
                self.loose += not self._run(sql.FLAG_REFERENCE, (xid, id_, values[0])).rowcount
            case records.ACKNOWLEDGED:
                self.loose += not self._run(sql.REMOVE_REFERENCE, (id_, values[0])).rowcount
            case records.DELIVERIES:
                self._run(sql.SET_DELIVERIES, (max(values[1], 0), id_, values[0]))
            case records.SCHEDULED:
                self._run(sql.SET_DUE, (values[1] or None, id_, values[0]))
            case records.PAGE_ACKNOWLEDGED:
                self._run(sql.ADD_PAGED, (*values, id_, xid))
            case records.PAGE_DONE:
                self._run(sql.ADD_PAGED, (*values[:2], _WHOLE_PAGE, id_, None))
            case records.PAGE_TRANSACTION:
                self._page_transactions[values[0]] = id_, xid

    def _delete(self, id_: int) -> bool:
        """Remove a record; False if there is none."""
        if self._run(sql.REMOVE_MESSAGE, (id_,)).rowcount:
            self._run(sql.REMOVE_REFERENCES, (id_,))
            return True
        if self._run(sql.REMOVE_PAGED, (id_,)).rowcount:
            return True
        transactions = [number for number, (record, _) in self._page_transactions.items() if record == id_]
        for number in transactions:
            del self._page_transactions[number]
        return bool(transactions)

    # Outcomes

    def _commit(self, record: JournalRecord, file: int) -> None:
        transaction = self._open.pop(record.transaction, None)
        if transaction is None:
            self.loose += 1
            return
        if not self._is_complete(record, file, transaction):
            return
        for change in transaction.changes:
            self._apply(change)
        for change in transaction.removals:
            self.loose += not self._delete(change.id)

    def _prepare(self, record: JournalRecord, file: int, content: Content) -> None:
        transaction = self._open.setdefault(record.transaction, _Transaction())
        if not self._is_complete(record, file, transaction):
            del self._open[record.transaction]
            return
        try:
            transaction.xid = records.read_xid(content(*record.body))
        except CorruptMessage as error:
            self._damaged(file, record.offset, record.size, f"a prepared transaction: {error.reason}")
        transaction.where = file, record.offset, record.size

    def _is_complete(self, record: JournalRecord, file: int, transaction: _Transaction) -> bool:
        """Return whether all records are there; the broker leaves them out, too, if they are not."""
        here = transaction.counts.get(file, 0)
        if record.members < 0 or here == record.members:
            return True
        added = sum(change.content in (records.MESSAGE, records.LARGE) for change in transaction.changes)
        self._damaged(
            file, record.offset, record.size,
            f"a transaction says that {record.members} of its records are in this file, and there are {here}:"
            f" left out, with {added} messages that it had added",
        )  # fmt: skip
        return False

    def leave_in_doubt(self) -> None:
        """Apply prepared transactions; others without an outcome have not happened."""
        for transaction in self._open.values():
            if transaction.xid is None:
                self.loose += 1
                continue
            number = len(self._xids)
            self._xids.append(transaction.xid)
            for change in transaction.changes:
                self._apply(change, number)
        self._open.clear()

    # Pages

    def add_paged(
        self,
        place: BodyPlace,
        content: int,
        head: records.MessageHead,
        position: tuple[int, int],
        transaction: int,
        queues: tuple[int, ...],
    ) -> None:
        """Add a message of a page, for the queues that have not acknowledged it.

        :param position: the number of the page, and that of the message in it
        :param transaction: that it was sent in; -1 if in none
        """
        sent_xid = None
        if transaction >= 0:
            if transaction not in self._page_transactions:
                return  # rolled back
            sent_xid = self._page_transactions[transaction][1]
        is_added = False
        for queue in queues:
            done = self._run(sql.FIND_PAGED, (queue, *position)).fetchall()
            if any(xid is None for _, xid in done):
                continue
            if not is_added:
                row = (head.id, *place, content, self._number(head.address))
                is_added = bool(self._run(sql.ADD_MESSAGE, row).rowcount)
            xid = done[0][1] if done else sent_xid
            self._run(sql.ADD_REFERENCE, (head.id, queue, xid, sent_xid is not None))

    # The remaining messages

    def left(self) -> Iterator[LeftMessage]:
        """Yield the remaining messages in the order of their addition."""
        for _, id_, size, address in self._run(sql.FIND_LEFT):
            references = [
                Reference(seq, queue, due, None if xid is None else self._xids[xid], bool(adds))
                for seq, queue, due, xid, adds in self._database.execute(sql.FIND_REFERENCES, (id_,))
            ]
            name = None if address is None else self._addresses[address]
            yield LeftMessage(id_, -1 if size is None else size, name, references)

    def find(self, seq: int) -> Found:
        """Return where the message of a reference is."""
        id_, file, at, size, content, address, queue, deliveries = self._run(
            sql.FIND_PLACE, (seq,)
        ).fetchone()
        return Found(id_, BodyPlace(file, at, size), content, self._addresses[address], queue, deliveries)
