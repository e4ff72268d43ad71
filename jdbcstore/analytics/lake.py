"""Export of messages to a Delta or an Iceberg table, each message once.

The transaction that appends rows also moves the position of the export: Delta's application transaction and
the metadata of its commit, or a table property of Iceberg. So another machine continues an export from the
table alone, and a killed export neither repeats nor skips a message. The position is that of a stream: see
:mod:`jdbcstore.analytics.streaming.position`.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.analytics.arrow.table import rows_of, schema_of
from jdbcstore.analytics.streaming.offsets import Offset
from jdbcstore.analytics.streaming.options import StreamOptions, task_url
from jdbcstore.analytics.streaming.position import Position
from jdbcstore.analytics.streaming.reading import StreamDatabase, committed
from jdbcstore.config import Configuration, DataSourceConfig
from jdbcstore.errors import IN_JOURNAL, ConfigurationError, StoreError, installation
from jdbcstore.message.destination import Destination
from jdbcstore.util.closing import Closing

if TYPE_CHECKING:
    from deltalake import DeltaTable as DeltaLog

log = logging.getLogger(__name__)

PARTITIONS = ("date", "destination_name")
"""The columns by which the table is partitioned: the day in UTC, and the destination without its kind."""
SCHEMA = (
    schema_of(None).append(pa.field("date", pa.date32())).append(pa.field("destination_name", pa.string()))
)
"""The columns of the table: those of ``messages_decoded``, then the partition columns."""
_ROWS = 100_000
_BYTES = 64 * 1024 * 1024
"""The size of stored messages from which rows are committed; a commit may exceed it by one page."""
_PAUSE = 0.25
_MANY_GAPS = 200
_ATTEMPTS = 5
_RECENT = 20
"""Commits of a Delta table that are searched before all of its log is."""


class LakeTable(ABC):
    """A table of a lake that one export appends to."""

    place: str
    """Its name in errors and logs."""

    @abstractmethod
    def open(self, *, create: bool) -> Offset:
        """Return the position of the export, 0 if the table is missing; then it may be created.

        :raises ConfigurationError: another program has written the table
        """

    @abstractmethod
    def position(self) -> Offset | None:
        """Return the position as of the last commit; None if no export has written the table."""

    @abstractmethod
    def append(self, rows: pa.Table, end: Offset) -> bool:
        """Append rows, and move the position, in one transaction.

        :returns: false if another commit was in the way, and nothing was written
        """


class DeltaTable(LakeTable):
    """A Delta table, in a folder or an object store.

    :param target: a folder, or a URL such as ``s3://bucket/table``
    :param options: the storage options of deltalake
    :param destination: the destination to export; each has a position of its own
    :raises ConfigurationError: deltalake is not installed
    """

    def __init__(
        self, target: str | Path, options: Mapping[str, str] | None = None, destination: str | None = None
    ) -> None:
        _require("deltalake")
        self.place = str(target)
        self._options = dict(options or {})
        self._name = f"jdbcstore {destination or 'all'}"
        self._log: DeltaLog

    def open(self, *, create: bool) -> Offset:
        from deltalake import DeltaTable as DeltaLog
        from deltalake.exceptions import TableNotFoundError

        try:
            self._log = DeltaLog(self.place, storage_options=self._options)
        except TableNotFoundError:
            if create:
                self._log = DeltaLog.create(
                    self.place, SCHEMA, partition_by=[*PARTITIONS], storage_options=self._options
                )
            return Offset(0)
        known = self.position()
        if known is None and self._log.file_uris():
            raise _foreign(self.place)
        return known or Offset(0)

    def position(self) -> Offset | None:
        self._log.update_incremental()
        last = self._log.transaction_version(self._name)
        if last is None:
            return None
        for limit in (_RECENT, None):
            for commit in self._log.history(limit):
                if self._name in commit:
                    return Offset.of(json.loads(commit[self._name]))
        return Offset(last)  # its commit is older than the log of the table, and its gaps are settled

    def append(self, rows: pa.Table, end: Offset) -> bool:
        from deltalake import CommitProperties, Transaction, write_deltalake
        from deltalake.exceptions import CommitFailedError

        # Another export with the same name makes the commit fail.
        properties = CommitProperties(
            {self._name: json.dumps(end.facts)}, app_transactions=[Transaction(self._name, end.id)]
        )
        try:
            write_deltalake(
                self._log,
                rows,
                mode="append",
                schema_mode="merge",
                commit_properties=properties,
            )
        except CommitFailedError as error:
            log.debug("%s: %s", self.place, error)
            return False
        return True


class IcebergTable(LakeTable):
    """An Iceberg table in a catalog that pyiceberg knows.

    :param name: the namespace and the name, such as ``mq.messages``
    :param catalog: the name of the catalog in pyiceberg's configuration
    :param options: properties of the catalog
    :param destination: the destination to export; each has a position of its own
    :raises ConfigurationError: pyiceberg is not installed
    """

    def __init__(
        self,
        name: str,
        catalog: str = "default",
        options: Mapping[str, str] | None = None,
        destination: str | None = None,
    ) -> None:
        _require("pyiceberg")
        self.place = name
        self._catalog, self._options = catalog, dict(options or {})
        self._property = f"jdbcstore.position.{destination or 'all'}"
        self._table: Any

    def open(self, *, create: bool) -> Offset:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog(self._catalog, **self._options)
        if not catalog.table_exists(self.place):
            if create:
                self._create(catalog)
            return Offset(0)
        self._table = catalog.load_table(self.place)
        known = self.position()
        if known is None and self._table.current_snapshot() is not None:
            raise _foreign(self.place)
        if create:
            with self._table.update_schema() as schema:
                schema.union_by_name(SCHEMA)
        return known or Offset(0)

    def _create(self, catalog: Any) -> None:
        catalog.create_namespace_if_not_exists(self.place.rpartition(".")[0])
        self._table = catalog.create_table(self.place, SCHEMA)
        with self._table.update_spec() as spec:
            for name in PARTITIONS:
                spec.add_identity(name)

    def position(self) -> Offset | None:
        self._table.refresh()
        stored = self._table.properties.get(self._property)
        return None if stored is None else Offset.of(json.loads(stored))

    def append(self, rows: pa.Table, end: Offset) -> bool:
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table import TableProperties

        # A repetition behind the commit of another export would append its rows again.
        self._table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        try:
            with self._table.transaction() as transaction:
                transaction.append(rows)
                transaction.set_properties({self._property: json.dumps(end.facts)})
        except CommitFailedException as error:
            log.debug("%s: %s", self.place, error)
            return False
        return True


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: the number of ``messages``, and that of ``commits``."""

    messages: int
    commits: int

    def __add__(self, other: Exported) -> Exported:
        return Exported(self.messages + other.messages, self.commits + other.commits)


class LakeExport(Closing):
    """Appends the new messages of a store to a table of a lake.

    :param settle: the seconds to wait for a message whose ID is missing
    :param creates: whether a missing table is created; if not, only :meth:`pending` may be called
    :raises ConfigurationError: another program has written the table, or analytics does not support the
        database
    """

    def __init__(
        self,
        configuration: Configuration,
        table: LakeTable,
        *,
        destination: Destination | None = None,
        settle: float = 10.0,
        creates: bool = True,
    ) -> None:
        with configuration.locating_errors():
            url, user, password = configuration.login()
            options = StreamOptions(
                task_url(url, configuration.store),
                user,
                password,
                configuration.store,
                destination=None if destination is None else destination.qualified_name,
                starting="earliest",
                rows=_ROWS,
                partitions=1,
                settle=settle,
            )
        self._settle = settle
        self._table = table
        self._database = StreamDatabase(options)
        try:
            if self._database.has_journal():
                log.warning("an export of messages: %s", IN_JOURNAL)
            self._position = Position(self._database, settle)
            with _explained(ConfigurationError, f"{table.place} cannot be opened"):
                self._stored = self._at = table.open(create=creates)
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        self._database.close()

    def run(self, progress: Callable[[int], object] = lambda _: None) -> Exported:
        """Export the messages that are present now; nothing is committed if there is no new one.

        :param progress: called after each step with its number of messages
        :raises StoreError: another export writes to the table, or the database does not answer
        """
        self._forget_settled_gaps()
        self._position.stop_at_present()
        done = Exported(0, 0)
        while True:
            step = self._step()
            if step is not None:
                done += step
                progress(step.messages)
            elif self._position.is_waiting(self._at):
                time.sleep(_PAUSE)
            else:
                return done

    def follow(self, stop: threading.Event, interval: float, progress: Callable[[int], object]) -> Exported:
        """Export present and new messages until ``stop`` is set, looking for new ones every ``interval``
        seconds.

        :raises StoreError: another export writes to the table, or the database does not answer
        """
        done = Exported(0, 0)
        while not stop.is_set():
            step = self._step()
            if step is None:
                stop.wait(interval)
                continue
            done += step
            progress(step.messages)
        return done

    def pending(self) -> int:
        """Return the number of messages that a run would export; late ones are not counted."""
        highest = self._database.sight().highest
        return self._database.count(self._at.id, highest)

    def _forget_settled_gaps(self) -> None:
        """Wait until the gaps of earlier runs are settled, if there are many."""
        if len(self._at.gaps) > _MANY_GAPS:
            for _ in range(2):
                self._position.stop_at_present()
                time.sleep(self._settle)

    def _step(self) -> Exported | None:
        """Export the next messages; None if there is none."""
        end = self._position.after(self._at, _ROWS)
        if end == self._at:
            return None
        done = Exported(0, 0)
        batches: list[pa.RecordBatch] = []
        size = 0
        for page in self._pages(end):
            if size >= _BYTES and page[0].id > self._at.id:
                last = page[0].id - 1
                done += self._commit(batches, Offset(last, end.gaps.up_to(last)))
                batches, size = [], 0
            if rows := [*committed(page)]:
                batches.append(_batch(rows))
                size += sum(len(row.msg) for row in rows)
        return done + self._commit(batches, Offset(end.id, end.gaps))

    def _pages(self, end: Offset) -> Iterator[Sequence[Any]]:
        yield from self._database.pages_of(end.late)
        for page in self._database.pages(self._at.id, end.id):
            if rows := [row for row in page if row.id not in end.gaps]:
                yield rows

    def _commit(self, batches: list[pa.RecordBatch], end: Offset) -> Exported:
        self._at = end
        if not batches:
            return Exported(0, 0)
        rows = pa.Table.from_batches(batches, SCHEMA)
        failed = f"a commit to {self._table.place} failed, or its outcome is unknown; export again"
        for _ in range(_ATTEMPTS):
            with _explained(StoreError, failed):
                if self._table.append(rows, end):
                    self._stored = end
                    return Exported(len(rows), 1)
                position = self._table.position() or Offset(0)
            if position != self._stored:
                raise StoreError(
                    f"another export has written to {self._table.place} meanwhile: run one at a time"
                )
        raise StoreError(
            f"other programs change {self._table.place} all the time: export again when it is quieter"
        )


def to_lake(
    source: str | Configuration, table: LakeTable, *, destination: Destination | None = None
) -> Exported:
    """Append the new messages of a store to a table of a lake, each once; nothing is written without any.

    >>> to_lake("sqlite:///mq.db", DeltaTable("/data/messages"))

    :param source: a SQLAlchemy or JDBC URL, or a configuration
    :raises ConfigurationError: another program has written the table
    :raises StoreError: another export writes to the table, or the database does not answer
    """
    configuration = source
    if isinstance(configuration, str):
        configuration = Configuration(data_source=DataSourceConfig(url=configuration))
    with LakeExport(configuration, table, destination=destination) as export:
        return export.run()


def _batch(rows: Sequence[Any]) -> pa.RecordBatch:
    view = rows_of(rows)
    batch = view.record_batch(schema_of(None))
    names = pc.replace_substring_regex(view.stored["container"], "^[a-z-]*://", "")
    date = batch.column("timestamp").cast(pa.date32())
    return pa.RecordBatch.from_arrays([*batch.columns, date, names], schema=SCHEMA)


@contextmanager
def _explained(kind: type[StoreError], what: str) -> Iterator[None]:
    """Turn an error of a library into ours: catalogs and file systems have errors without a common base."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        raise kind(f"{what}: {error}") from error


def _foreign(place: str) -> ConfigurationError:
    return ConfigurationError(
        f"{place} has rows that no export of this store has written: choose a table that does not exist yet"
    )


def _require(module: str) -> None:
    try:
        __import__(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise ConfigurationError(f"{module} is not installed; run: {installation('lake')}") from error
