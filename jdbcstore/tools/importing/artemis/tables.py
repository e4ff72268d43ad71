"""Artemis's data in the tables of a database: those of its two journals, of large messages and of pages.

Tables are found by their columns, because all names can be configured.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial

from jdbcstore.database.other_tables import OtherTables
from jdbcstore.database.statements import artemis as sql
from jdbcstore.errors import CorruptMessage
from jdbcstore.tools.importing.artemis import journal, records
from jdbcstore.tools.importing.artemis.files import PAGE_NAME, Damaged, PagedRecord, read_page
from jdbcstore.tools.importing.artemis.journal import JournalRecord, Records
from jdbcstore.tools.importing.replay import BodyPlace
from jdbcstore.tools.importing.source import NothingToImport, SharedLocks, SourceInUse

_OF_BINDINGS = (records.QUEUE, records.ADDRESS, 24)
_LARGE_NAME = re.compile(r"([0-9]{1,19})\.msg")
_LOCKS = (1, 2)
_NODE = 3
_UNKNOWN = -1


class ArtemisTables:
    """The tables of a stopped broker. Close it after use.

    :param url: SQLAlchemy's, or a JDBC URL
    :raises NothingToImport: there are no tables of one Artemis
    :raises SourceInUse: a running broker holds the lease
    """

    def __init__(
        self,
        url: str,
        damaged: Damaged,
        progress: Callable[[int], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._damaged = damaged
        self._progress = progress
        self._tables = OtherTables(url)
        self.place = self._tables.database.place
        self.node = ""
        self.has_all = True
        self.shares = SharedLocks()  # tables have a lease, which is only looked at
        self._names: list[str] = []
        """Of tables and pages, by number."""
        self._pages: dict[int, tuple[str, int]] = {}
        self._page: tuple[int, bytes] = (-1, b"")
        self._objects: dict[str, bool] = {}
        """The tables of files, and whether their contents are large objects."""
        try:
            self._find_tables(clock)
        except BaseException:
            self._tables.close()
            raise

    def close(self) -> None:
        self._tables.close()

    @property
    def count(self) -> int:
        """The number of tables."""
        return 2 + len(self._objects)

    def _find_tables(self, clock: Callable[[], float]) -> None:
        journals = []
        for name, columns in self._tables.columns().items():
            if columns.keys() >= sql.JOURNAL:
                journals.append(name)
            elif columns.keys() == sql.FILES:
                self._objects[name] = columns["data"] == "OID"
            elif columns.keys() == sql.LEASES:
                self._check_leases(name, clock)
        bindings = [name for name in journals if self._has_queues(name)]
        messages = [name for name in journals if name not in bindings]
        if len(bindings) != 1 or len(messages) != 1:
            raise NothingToImport(
                f"{self.place} has to have the tables of one Artemis, one with its bindings and one with its"
                f" messages, and has {', '.join(journals) or 'none'}; name the database, and the schema, of"
                " database-store in broker.xml"
            )
        self._names = [bindings[0], messages[0]]
        self._large = dict(self._named("msg", _LARGE_NAME))

    def _check_leases(self, name: str, clock: Callable[[], float]) -> None:
        now_ms = clock() * 1000
        for id_, holder, until_ms, node in self._tables.fetch(sql.find_leases(name)):
            if id_ in _LOCKS and holder is not None and until_ms is not None and until_ms > now_ms:
                raise SourceInUse(
                    f"a broker, {holder}, has the lease in the table {name} of {self.place} for"
                    f" {(until_ms - now_ms) / 1000:.0f} s: stop it, and import again; nothing was changed"
                )
            if id_ == _NODE and node:
                self.node = str(node).strip()

    def _has_queues(self, name: str) -> bool:
        return bool(self._tables.fetch(sql.count_contents(name), contents=_OF_BINDINGS)[0][0])

    def _named(self, extension: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, tuple[str, int]]]:
        """Yield numbers in the names of files, and where each file is."""
        for name in self._objects:
            for id_, file in self._tables.fetch(sql.find_files(name), extension=extension):
                if match := pattern.fullmatch(file):
                    yield int(match[1]), (name, id_)

    def bindings(self) -> Records:
        """Yield the records of the journal of the queues."""
        yield from self._records(0)

    def messages(self) -> Records:
        """Yield the records of the journal of the messages."""
        yield from self._records(1)

    def _records(self, number: int) -> Records:
        rows = self._tables.stream(sql.find_records(self._names[number]))
        for id_, kind, transaction, content, record, data, seq in rows:
            body = bytes((data if kind == journal.PREPARE else record) or b"")
            self._progress(len(body))
            if seq is None:
                self._damaged(number, 0, len(body), "a record has no seq")
            elif journal.EVENT <= (kind or 0) <= journal.ROLLBACK:
                place, numbers = (seq, len(body)), (id_ or 0, transaction or 0, max(content or 0, 0))
                read = JournalRecord(kind, seq, 0, *numbers, place, _UNKNOWN)
                yield read, number, lambda _, size, body=body: body[:size]  # type: ignore[misc]
            else:
                self._damaged(number, seq, 0, f"a record has the type {kind}, which is not known")

    def pages(self) -> Iterator[PagedRecord]:
        """Yield the messages in pages, in their order."""
        pages = [(where[0], page, where) for page, where in self._named("page", PAGE_NAME)]
        for table, page, where in sorted(pages):
            number = len(self._names)
            self._names.append(f"{table} {page:09}.page")
            self._pages[number] = where
            data = self._file(*where)
            self._progress(len(data))
            yield from read_page(data, page, number, self._damaged)

    def _file(self, table: str, id_: int) -> bytes:
        rows = self._tables.fetch(sql.find_file(table, is_object=self._objects[table]), id=id_)
        return bytes(rows[0][0] or b"") if rows else b""

    def read(self, id_: int, place: BodyPlace) -> bytes:
        """Return the bytes of a message at a place."""
        number, at, size = place
        if number in self._pages:
            if self._page[0] != number:
                self._page = number, self._file(*self._pages[number])
            return self._page[1][at : at + size]
        rows = self._tables.fetch(sql.find_record(self._names[number]), id=id_, seq=at)
        return bytes(rows[0][0] or b"") if rows else b""

    def large_body(self, id_: int) -> bytes:
        """Return the body of a large message.

        :raises CorruptMessage: it is not there
        """
        if id_ not in self._large:
            raise CorruptMessage(f"there is no row for {id_}.msg, with the body of this large message")
        return self._file(*self._large[id_])

    def name(self, file: int) -> str:
        """Return the name of a table by its number; of a page, with the name of its row."""
        return self._names[file]


def open_tables(url: str, progress: Callable[[int], None]) -> Callable[[Damaged], ArtemisTables]:
    """Return what opens the tables of a database, for a source that says where to report damages."""
    return partial(ArtemisTables, url, progress=progress)
