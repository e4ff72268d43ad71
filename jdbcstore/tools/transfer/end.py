"""One of the stores that something is moved between, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

from jdbcstore.config import Configuration
from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import SEQUENCE_ROW
from jdbcstore.database.session import Session
from jdbcstore.database.statements.rows import RowStatements
from jdbcstore.errors import InvalidMessage
from jdbcstore.lockers import Mastership, make_locker
from jdbcstore.stores.jdbc.checkpoint import refuse_pending
from jdbcstore.util.clock import SystemClock

PAGE = 1000
_PAGE_BYTES = 8 * 1024 * 1024

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
    priority: int | None
    xid: str | None

    @property
    def name(self) -> Row:
        """What says which message it is."""
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


class End:
    """A store's tables, read in pages of bounded size; for one thread. Close it.

    :raises JournalPending: a journal has what is not in the tables yet
    """

    def __init__(self, configuration: Configuration, *, read_only: bool = True) -> None:
        with configuration.locating_errors():
            url, user, password = configuration.login()
            self.session = Session(
                url, configuration.store, user=user, password=password, read_only=read_only
            )
        session = self.session
        try:
            refuse_pending(session)
        except BaseException:
            session.close()
            raise
        self.rows = RowStatements(
            session.tables, session.adapter, session.engine.dialect, ours=session.has_own_tables
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.session.close()

    @property
    def place(self) -> str:
        """The URL, without what is secret in it."""
        return self.session.place

    def message_count(self) -> int:
        """Also of those that are in doubt."""
        return int(self.session.fetch(self.rows.count_messages)[0][0])

    def messages(self) -> Iterator[list[MessageRow]]:
        """Every message by ID, in pages."""
        after = -1
        while True:
            sizes = self.session.fetch(self.rows.find_sizes, after=after, limit=PAGE)
            if not sizes:
                return
            up_to = _fitting(sizes)
            found = self.session.fetch(self.rows.find_messages, after=after, up_to=up_to)
            if found:
                yield [MessageRow(*row) for row in found]
            after = up_to

    def containers(self) -> set[str]:
        """Destinations with rows in ACTIVEMQ_ACKS."""
        return {name for (name,) in self.session.fetch(self.session.statements.find_subscribed_destinations)}

    def marks(self, container: str) -> list[MarkRow]:
        """One destination's, in the order of their keys."""
        found = self.session.fetch(self.rows.find_marks, container=container)
        return sorted((MarkRow(*row) for row in found), key=lambda mark: mark.key)

    def subscriptions_ahead(self) -> set[Subscription]:
        """Those with acknowledgements ahead of their marks."""
        if not self.session.has_own_tables:
            return set()
        found = self.session.fetch(self.rows.find_subscriptions_ahead)
        return {(container, client_id, sub_name) for container, client_id, sub_name in found}

    def ahead(self, subscription: Subscription) -> Iterator[AheadRow]:
        """One subscription's, by ID."""
        if not self.session.has_own_tables:
            return
        container, client_id, sub_name = subscription
        after: int | None = -1
        while after is not None:
            sub = {"container": container, "client_id": client_id, "sub_name": sub_name}
            found = self.session.fetch(self.rows.find_ahead, after=after, limit=PAGE, **sub)
            rows = [AheadRow(*row) for row in found]
            yield from rows
            after = rows[-1].id if len(rows) == PAGE else None

    def reserved(self) -> int:
        """The highest sequence that was ever reserved, as far as the store knows."""
        session = self.session
        if not session.has_own_tables:
            return 0
        found = session.fetch(session.statements.find_number, name_=SEQUENCE_ROW)
        return int(found[0][0]) if found else 0


class Target(End):
    """An end that is written to: its tables are made, and it is the master where there is a locker.

    :raises NotMaster: another is
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration, read_only=False)
        self._mastership: Mastership | None = None
        self._connection: Connection | None = None
        try:
            tenure = None
            if configuration.locker is not None:
                locker = make_locker(configuration.locker, configuration.broker_name, None)
                self._mastership = Mastership(self.session, locker, SystemClock())
                tenure = self._mastership.acquire(0.0).guard
            self._connection = self.session.connect()
            self._connection.tenure = tenure
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._mastership is not None:
            self._mastership.release()
        super().close()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Commits at the end of the block.

        :raises LockLost: another is the master now
        """
        assert self._connection is not None  # noqa: S101
        with self.session.translated(), self._connection.transaction():
            yield self._connection

    def add(self, rows: Sequence[MessageRow]) -> None:
        """Insert messages under the IDs they have, all or none.

        :raises InvalidMessage: this database cannot hold one of them
        """
        for row in rows:
            size = self.session.adapter.sent_size(row.msg)
            if size > self.session.max_message_size:
                raise InvalidMessage(
                    f"the message with ID {row.id} takes {size} bytes, and {self.place} takes at most"
                    f" {self.session.max_message_size}; raise its limit"
                )
        if rows:
            with self.transaction() as connection:
                connection.add_messages(rows)

    def reserve(self, connection: Connection, sequence: int) -> None:
        """Let no sequence up to this one be given again."""
        sql = self.session.statements
        if sql.lock_number is not None:
            connection.execute(sql.lock_number, name_=SEQUENCE_ROW)
        [(reserved,)] = connection.fetch(sql.find_number_for_update, name_=SEQUENCE_ROW)
        if reserved < sequence:
            connection.execute(sql.update_number, name_=SEQUENCE_ROW, new=sequence)

    def names(self, after: int, up_to: int, limit: int) -> list[Row]:
        """ID, container, producer and its sequence of the messages between, so many at most."""
        return self.session.fetch(self.rows.find_names, after=after, up_to=up_to, limit=limit)

    def all_names(self, after: int, up_to: int) -> Iterator[Row]:
        """The same of all messages between, in pages."""
        while after < up_to:
            found = self.names(after, up_to, PAGE)
            yield from found
            after = found[-1][0] if len(found) == PAGE else up_to


def _fitting(sizes: Sequence[Row]) -> int:
    """The ID up to which the messages are a page: one at least, and no more bytes than fit."""
    total = 0
    last: int = sizes[0][0]
    for id_, size in sizes:
        total += int(size)
        if total > _PAGE_BYTES:
            break
        last = id_
    return last


def values_of(row: MarkRow | AheadRow) -> dict[str, Any]:
    """The columns by their names."""
    return row._asdict()
