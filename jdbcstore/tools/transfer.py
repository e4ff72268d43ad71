"""Copying a store to another database and comparing two stores, row by row.

>>> from jdbcstore import Configuration
>>> from jdbcstore.config import DataSourceConfig
>>> from jdbcstore.tools import transfer
>>> old, new = (Configuration(data_source=DataSourceConfig(url=url)) for url in (old_url, new_url))
>>> assert transfer.copy(old, new).comparison.same

A copy writes messages first, one transaction per page, and all subscriptions last in one transaction: a copy
that was killed has only messages, and continues where it stopped. Rows are never overwritten.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

from jdbcstore.abc import Progress
from jdbcstore.config import Configuration
from jdbcstore.database.adapters.sql import EpochGuard, Row
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import SEQUENCE_ROW
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.large import LargeStatements
from jdbcstore.database.statements.rows import RowStatements
from jdbcstore.errors import CorruptMessage, InvalidMessage, LargeBodyMissing, StoresDiffer
from jdbcstore.lockers import Mastership, make_locker
from jdbcstore.message.openwire.pieces import LargeBody, has_body_in_pieces, large_body_of
from jdbcstore.stores.jdbc.bodies import claim_bodies, has_large, prepare_large
from jdbcstore.stores.jdbc.checkpoint import refuse_pending
from jdbcstore.stores.jdbc.sequence import fetch_reserved, guard_unclaimed
from jdbcstore.tools.pages import PAGE, bounded
from jdbcstore.util.clock import SystemClock
from jdbcstore.util.closing import Closing

log = logging.getLogger(__name__)

_LAST_ID = 2**63 - 1

Subscription = tuple[str, str, str]
"""Container, client id and name."""


class MessageRow(NamedTuple):
    """A row of ACTIVEMQ_MSGS."""

    id: int
    container: str
    msgid_prod: str | None
    msgid_seq: int | None
    expiration: int | None
    msg: bytes
    """Empty also for NULL, which only a damaged row has: Oracle makes no difference."""
    priority: int | None
    xid: str | None

    @property
    def name(self) -> Row:
        """The columns that identify the message."""
        return self[:4]


class MarkRow(NamedTuple):
    """A row of ACTIVEMQ_ACKS."""

    container: str
    sub_dest: str | None
    client_id: str
    sub_name: str
    selector: str | None
    last_acked_id: int | None
    priority: int
    xid: str | None

    @property
    def key(self) -> tuple[str, str, int]:
        return self.client_id, self.sub_name, self.priority


class AheadRow(NamedTuple):
    """A row of JDBCSTORE_ACKS."""

    container: str
    client_id: str
    sub_name: str
    id: int
    msgid_prod: str | None
    msgid_seq: int | None
    xid: str | None


class RowSource(Protocol):
    """Rows that can be copied into a store and compared with one.

    They are the same, with the same IDs, each time that they are read.
    """

    @property
    def place(self) -> str:
        """The URL, or the folder, without secrets."""

    def messages(self) -> Iterator[list[MessageRow]]:
        """Yield all messages in pages, ordered by ID."""

    def containers(self) -> set[str]:
        """Return the destinations with rows in ACTIVEMQ_ACKS."""

    def marks(self, container: str) -> list[MarkRow]:
        """Return the rows of ACTIVEMQ_ACKS of a destination, ordered by key."""

    def subscriptions_ahead(self) -> set[Subscription]:
        """Return the subscriptions with acknowledgements ahead of their marks."""

    def ahead(self, subscription: Subscription) -> Iterator[AheadRow]:
        """Yield the acknowledgements ahead of the mark of a subscription, ordered by ID."""

    def reserved(self) -> int:
        """Return the highest sequence that was used."""


class StoreTables(Closing):
    """The tables of a store, read in pages of bounded size. Not thread-safe; close it after use.

    :raises JournalPending: a journal has messages that are not in the tables yet
    """

    def __init__(self, configuration: Configuration, *, read_only: bool = True) -> None:
        session = self.session = DatabaseSession.configured(configuration, read_only=read_only)
        try:
            refuse_pending(session)
        except BaseException:
            session.close()
            raise
        self.rows = session.of(RowStatements)
        self.place = session.place
        """The URL without secrets."""

    def close(self) -> None:
        self.session.close()

    def message_count(self) -> int:
        """Return the number of messages, including those of prepared transactions."""
        return int(self.session.fetch(self.rows.count_messages)[0][0])

    def messages(self) -> Iterator[list[MessageRow]]:
        """Yield all messages in pages, ordered by ID."""
        after = -1
        while True:
            sizes = self.session.fetch(self.rows.find_sizes, after=after, limit=PAGE)
            if not sizes:
                return
            # The last ID of the first page of bounded size.
            up_to = next(bounded(sizes, lambda row: int(row[1])))[-1][0]
            rows = self.session.fetch(self.rows.find_messages, after=after, up_to=up_to)
            if rows:
                yield [MessageRow._make((*row[:5], row[5] or b"", *row[6:])) for row in rows]
            after = up_to

    def containers(self) -> set[str]:
        """Return the destinations with rows in ACTIVEMQ_ACKS."""
        return {name for (name,) in self.session.fetch(self.session.statements.find_subscribed_destinations)}

    def marks(self, container: str) -> list[MarkRow]:
        """Return the rows of ACTIVEMQ_ACKS of a destination, ordered by key."""
        rows = self.session.fetch(self.rows.find_marks, container=container)
        return sorted((MarkRow(*row) for row in rows), key=lambda mark: mark.key)

    def subscriptions_ahead(self) -> set[Subscription]:
        """Return the subscriptions with acknowledgements ahead of their marks."""
        if not self.session.has_own_tables:
            return set()
        rows = self.session.fetch(self.rows.find_subscriptions_ahead)
        return {(container, client_id, sub_name) for container, client_id, sub_name in rows}

    def ahead(self, subscription: Subscription) -> Iterator[AheadRow]:
        """Yield the acknowledgements ahead of the mark of a subscription, ordered by ID."""
        if not self.session.has_own_tables:
            return
        container, client_id, sub_name = subscription
        after: int | None = -1
        while after is not None:
            sub = {"container": container, "client_id": client_id, "sub_name": sub_name}
            page = self.session.fetch(self.rows.find_ahead, after=after, limit=PAGE, **sub)
            rows = [AheadRow(*row) for row in page]
            yield from rows
            after = rows[-1].id if len(rows) == PAGE else None

    def reserved(self) -> int:
        """Return the highest sequence that was reserved; 0 if the store does not record it."""
        session = self.session
        if not session.has_own_tables:
            return 0
        rows = session.fetch(session.statements.find_number, name_=SEQUENCE_ROW)
        return int(rows[0][0]) if rows else 0


class CopyTarget(StoreTables):
    """The store that is written to. Missing tables are created, and a configured lock is acquired.

    :raises NotMaster: another process holds the lock, or claims messages
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration, read_only=False)
        self._mastership: Mastership | None = None
        self._connection: Connection | None = None
        try:
            self._epoch: EpochGuard | None = None
            if configuration.locker is not None:
                locker = make_locker(
                    configuration.locker, configuration.broker_name, None, configuration.journal
                )
                self._mastership = Mastership(self.session, locker, SystemClock())
                self._epoch = self._mastership.acquire(0.0).guard
            self._connection = self.session.connect()
            if self._epoch is not None:
                self._connection.guard_by(self._epoch)
            else:
                with self.session.translated():
                    self._connection.guard_by(unclaimed=guard_unclaimed(self.session, self._connection))
        except BaseException:
            self.close()
            raise

    def beside(self, configuration: Configuration) -> CopyTarget:
        """Open another connection to the same store, for another thread, under the lock of this one."""
        other = CopyTarget(replace(configuration, locker=None))
        if self._epoch is not None and other._connection is not None:
            other._connection.guard_by(self._epoch)
        return other

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._mastership is not None:
            self._mastership.release()
        super().close()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Run the block in a transaction, and commit it at the end.

        :raises LockLost: another process has become the master
        """
        assert self._connection is not None  # noqa: S101
        with self.session.translated(), self._connection.transaction():
            yield self._connection

    def add(self, rows: Sequence[MessageRow], bodies: Iterable[tuple[int, bytes]] = ()) -> None:
        """Insert messages with their IDs, all or none.

        :param bodies: the IDs and MSG of messages whose large bodies are here
        :raises InvalidMessage: a message is too large for this database
        """
        for row in rows:
            size = self.session.adapter.sent_size(row.msg)
            if size > self.session.max_message_size:
                raise InvalidMessage(
                    f"the message with ID {row.id} has {size} bytes, and {self.place} accepts at most"
                    f" {self.session.max_message_size}; raise its limit"
                )
        if rows:
            with self.transaction() as connection:
                claim_bodies(self.session, connection, bodies)
                connection.add_messages(rows)

    def copy_body(self, body: LargeBody, origin: StoreTables) -> None:
        """Copy the pieces of a large body, unless a message here has it already.

        :raises LargeBodyMissing: the source does not have them
        """
        if not has_large(origin.session):
            raise LargeBodyMissing(body.number)
        prepare_large(self.session)
        sql, read = self.session.of(LargeStatements), origin.session.of(LargeStatements).find_piece
        if any(touched for (touched,) in self.session.fetch(sql.find_touched, number=body.number)):
            return
        self._remove_body(body)  # what an interrupted copy has left
        for piece in range(body.pieces):
            pieces = origin.session.fetch(read, number=body.number, piece_=piece)
            if not pieces:
                self._remove_body(body)
                raise LargeBodyMissing(body.number)
            with self.transaction() as connection:
                connection.execute(sql.add_piece, id=body.number, piece=piece, data=pieces[0][0])
        begun = SystemClock().now_ms()
        with self.transaction() as connection:
            connection.execute(sql.add, id=body.number, msg_id=0, touched=0, begun=begun)

    def _remove_body(self, body: LargeBody) -> None:
        sql = self.session.of(LargeStatements)
        with self.transaction() as connection:
            connection.execute(sql.remove_pieces, number=body.number, first=0, last=body.pieces)
            connection.execute(sql.remove, number=body.number)

    def reserve(self, connection: Connection, sequence: int) -> None:
        """Reserve the sequences up to this one, so that none of them is used again."""
        sql = self.session.statements
        if fetch_reserved(connection, sql) < sequence:
            connection.execute(sql.update_number, name_=SEQUENCE_ROW, new=sequence)

    def names(self, after: int, up_to: int, limit: int) -> list[Row]:
        """Return ID, container, producer and producer sequence of up to ``limit`` messages in a range of
        IDs."""
        return self.session.fetch(self.rows.find_names, after=after, up_to=up_to, limit=limit)


T = TypeVar("T", MessageRow, MarkRow, AheadRow)

_WHAT = {MessageRow: "message", MarkRow: "subscription", AheadRow: "acknowledgement"}


def between(fetch: Callable[..., Sequence[Row]], after: int, up_to: int, limit: int = PAGE) -> Iterator[Row]:
    """Yield rows with IDs from ``after``, exclusive, to ``up_to``, inclusive, fetched in pages, by ID."""
    while after < up_to:
        rows = fetch(after=after, up_to=up_to, limit=limit)
        yield from rows
        after = rows[-1][0] if len(rows) == limit else up_to


class Difference(NamedTuple):
    """A row that only one side has, or that differs.

    Of ``destination``: a message by ``id``, or else a row of the durable subscription ``client_id`` and
    ``subscription_name``, with the ``priority`` of a mark or the ``id`` of an acknowledgement.
    """

    difference: str
    """``missing`` on the right side, ``extra`` on the right side, or ``different``."""
    what: str
    """``message``, ``subscription`` (one of its marks) or ``acknowledgement`` (ahead of the mark)."""
    destination: str
    id: int | None = None
    client_id: str | None = None
    subscription_name: str | None = None
    priority: int | None = None
    columns: tuple[str, ...] = ()
    """The columns that differ."""


@dataclass(slots=True)
class Side:
    """Totals of one store, whose URL without secrets is ``place``."""

    place: str
    messages: int = 0
    """Rows of ACTIVEMQ_MSGS."""
    message_bytes: int = 0
    """Bytes of their MSG columns."""
    marks: int = 0
    """Rows of ACTIVEMQ_ACKS: one per subscription, or ten if the topic is prioritised."""
    acknowledged_ahead: int = 0
    """Rows of JDBCSTORE_ACKS: messages acknowledged ahead of the mark of a subscription."""
    _hash: Any = field(default_factory=hashlib.sha256, repr=False)

    def count(self, row: MessageRow | MarkRow | AheadRow) -> None:
        """Add a row."""
        if isinstance(row, MessageRow):
            self.messages += 1
            self.message_bytes += len(row.msg)
        elif isinstance(row, MarkRow):
            self.marks += 1
        else:
            self.acknowledged_ahead += 1
        for value in row:
            self._hash.update(_encoded(value))

    @property
    def checksum(self) -> str:
        """SHA-256 of all rows, in an order that does not depend on the database."""
        return str(self._hash.hexdigest())


@dataclass(slots=True)
class Comparison:
    """Comparison of ``left`` and ``right``; ``missing``, ``extra`` and ``different`` count rows."""

    left: Side
    right: Side
    missing: int = 0
    extra: int = 0
    different: int = 0

    @property
    def same(self) -> bool:
        """Whether no row differs."""
        return not (self.missing or self.extra or self.different)


def compare(
    left: Configuration,
    right: Configuration,
    progress: Progress | None = None,
    on_difference: Callable[[Difference], None] | None = None,
) -> Comparison:
    """Compare the messages, marks and acknowledgements ahead of marks of two stores.

    The lock, the epoch and the next sequence may differ. Both stores are only read, in pages, so that
    concurrent changes may appear as differences.

    :raises SchemaError: one of the stores has no tables
    """
    with StoreTables(left) as origin, StoreTables(right) as other:
        return compare_ends(origin, other, progress, on_difference)


def compare_ends(
    left: RowSource,
    right: RowSource,
    progress: Progress | None = None,
    on_difference: Callable[[Difference], None] | None = None,
) -> Comparison:
    """Compare two sources of rows, as :func:`compare` does."""
    result = Comparison(Side(left.place), Side(right.place))
    for pair in _pairs(left, right):
        for side, row in zip((result.left, result.right), pair, strict=True):
            if row is not None:
                side.count(row)
        if progress is not None and isinstance(pair[0] or pair[1], MessageRow):
            progress(1)
        if pair[0] != pair[1]:
            difference = _difference(*pair)
            setattr(result, difference.difference, getattr(result, difference.difference) + 1)
            if on_difference is not None:
                on_difference(difference)
    return result


def _pairs(left: RowSource, right: RowSource) -> Iterator[tuple[Any, Any]]:
    """Yield every row of either side, paired with the row of the same key on the other."""
    yield from _merged(_flat(left.messages()), _flat(right.messages()), lambda row: row.id)
    for container in sorted(left.containers() | right.containers()):
        yield from _merged(left.marks(container), right.marks(container), lambda mark: mark.key)
    for subscription in sorted(left.subscriptions_ahead() | right.subscriptions_ahead()):
        yield from _merged(left.ahead(subscription), right.ahead(subscription), lambda row: row.id)


_flat = chain.from_iterable


def _merged(
    left: Iterable[T], right: Iterable[T], key: Callable[[T], Any]
) -> Iterator[tuple[T | None, T | None]]:
    """Merge the rows of two sides, both ordered by key."""
    lefts, rights = iter(left), iter(right)
    one, other = next(lefts, None), next(rights, None)
    while one is not None or other is not None:
        if other is None or (one is not None and key(one) < key(other)):
            yield one, None
            one = next(lefts, None)
        elif one is None or key(other) < key(one):
            yield None, other
            other = next(rights, None)
        else:
            yield one, other
            one, other = next(lefts, None), next(rights, None)


def _difference(left: Any, right: Any) -> Difference:
    row = left or right
    kind = "missing" if right is None else "extra" if left is None else "different"
    columns: tuple[str, ...] = ()
    if kind == "different":
        columns = tuple(name for name in row._fields if getattr(left, name) != getattr(right, name))
    return Difference(
        kind,
        _WHAT[type(row)],
        row.container,
        getattr(row, "id", None),
        getattr(row, "client_id", None),
        getattr(row, "sub_name", None),
        row.priority if isinstance(row, MarkRow) else None,
        columns,
    )


def _encoded(value: int | str | bytes | None) -> bytes:
    """Return an encoding that is different for different values, and for different sequences of them."""
    if value is None:
        return b"N"
    if isinstance(value, int):
        return b"I%d;" % value
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return b"%c%d:%b" % (b"S" if isinstance(value, str) else b"B", len(raw), raw)


@dataclass(frozen=True, slots=True)
class Copied:
    """Result of a copy, with the comparison of both stores afterwards."""

    messages: int
    """Written now, without those of an interrupted copy."""
    comparison: Comparison
    """Of both stores after the copy."""


def copy(source: Configuration, target: Configuration, progress: Progress | None = None) -> Copied:
    """Copy every row of a store to an empty database, or continue an interrupted copy.

    Messages keep their IDs, bytes and prepared transactions, subscriptions their marks and their
    acknowledgements ahead of marks; sequences continue after the source's. Then both stores are read again
    and compared. Nothing may write to either store in the meantime.

    :param progress: called with numbers of messages; each message counts twice, copied and compared
    :raises StoresDiffer: the target has a message that the source does not have; no row was overwritten
    :raises NotMaster: another process holds the lock of the target
    """
    with StoreTables(source) as origin, CopyTarget(target) as goal:
        if origin.place == goal.place:
            raise StoresDiffer(f"{origin.place} is both source and target; name two stores")
        return _copy_to(goal, origin, progress)


def copy_rows(origin: RowSource, target: Configuration, progress: Progress | None = None) -> Copied:
    """Copy rows from elsewhere to an empty database, or continue an interrupted copy, as :func:`copy` does.

    :raises StoresDiffer: the target has a message that the source does not have; no row was overwritten
    :raises NotMaster: another process holds the lock of the target
    """
    with CopyTarget(target) as goal:
        return _copy_to(goal, origin, progress)


def _copy_to(goal: CopyTarget, origin: RowSource, progress: Progress | None) -> Copied:
    copied = _copy_messages(origin, goal, progress)
    _copy_subscriptions(origin, goal)
    return Copied(copied, compare_ends(origin, goal, progress))


def _copy_messages(origin: RowSource, goal: CopyTarget, progress: Progress | None) -> int:
    copied, after = 0, -1
    for page in origin.messages():
        missing = _missing(goal, page, after)
        goal.add(missing, _bodies(origin, goal, missing))
        copied += len(missing)
        after = page[-1].id
        if progress is not None:
            progress(len(page))
    _missing(goal, [], after)
    return copied


def _bodies(origin: RowSource, goal: CopyTarget, rows: Iterable[MessageRow]) -> list[tuple[int, bytes]]:
    """Copy the large bodies of messages; return the IDs and MSG of those that have one."""
    found = []
    for row in rows:
        if isinstance(origin, StoreTables) and has_body_in_pieces(row.msg):
            try:
                goal.copy_body(large_body_of(row.msg, row.id), origin)
            except (CorruptMessage, LargeBodyMissing) as error:
                log.warning(
                    "message %d of %s is copied without its large body: %s", row.id, row.container, error
                )
            else:
                found.append((row.id, row.msg))
    return found


def _missing(goal: CopyTarget, page: list[MessageRow], after: int) -> list[MessageRow]:
    """Return the messages of a page that the target lacks; fail if it has others in this range of IDs."""
    up_to = page[-1].id if page else _LAST_ID
    there = goal.names(after, up_to, len(page) + 1)
    names = {row.name for row in page}
    for name in there:
        if tuple(name) not in names:
            raise StoresDiffer(
                f"{goal.place} has a message with ID {name[0]} in {name[1]} that the source does not have;"
                " copy into an empty database, or see jdbcstore audit"
            )
    ids = {name[0] for name in there}
    return [row for row in page if row.id not in ids]


def _copy_subscriptions(origin: RowSource, goal: CopyTarget) -> None:
    marks = []
    for container in sorted(origin.containers()):
        there = {mark.key for mark in goal.marks(container)}
        marks += [mark for mark in origin.marks(container) if mark.key not in there]
    if any(0 < mark.priority < 10 for mark in marks):
        goal.session.widen_acks_key()
    with goal.transaction() as connection:
        for mark in marks:
            connection.execute(goal.rows.add_mark, **mark._asdict())
        for subscription in sorted(origin.subscriptions_ahead()):
            _copy_ahead(connection, origin, goal, subscription)
        goal.reserve(connection, origin.reserved())


def _copy_ahead(
    connection: Connection, origin: RowSource, goal: CopyTarget, subscription: Subscription
) -> None:
    # A subscription's were written with its marks, all or none.
    if next(goal.ahead(subscription), None) is not None:
        return
    add = goal.rows.add_ahead
    for rows in bounded(origin.ahead(subscription), lambda _: 0):
        connection.execute_many(add, [add.row(**row._asdict()) for row in rows])
