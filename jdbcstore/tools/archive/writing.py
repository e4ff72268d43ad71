"""Archiving of a store's messages with Spark, and comparison of a store with its archive."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from jdbcstore import analytics
from jdbcstore.abc import Progress
from jdbcstore.analytics.columns import YEAR_10000_MS
from jdbcstore.analytics.decoding import plan_decoding
from jdbcstore.analytics.hadoop import footer
from jdbcstore.analytics.headers import with_headers, with_headers_in_java
from jdbcstore.analytics.reading import RAW, StoredMessages
from jdbcstore.analytics.spark_session import ship
from jdbcstore.analytics.views import decoded_archive
from jdbcstore.config import Configuration
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination
from jdbcstore.message.openwire.wire_format import BODY_ELSEWHERE
from jdbcstore.tools.archive.files import Archive, File

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEY = ("id", "container", "msgid_prod", "msgid_seq")
"""The columns that identify a message."""
_TASK_BYTES = 256 * 1024 * 1024
"""Bytes of one task, at most, unless one message is larger."""
_FEWEST, _MOST = 1_000, 250_000
"""Messages of one task, which sorts them and writes one file for each day, unless they have more bytes."""
_TASKS = 4
"""Tasks of one batch for each core, one after the other."""
_BROADCAST = 2_000_000
"""Names that each worker can hold."""
_DAY_MS = 86_400_000
_REST = "undecoded"
"""In place of the day of messages whose headers Java cannot read, until Python has."""
_COMPARED_AT_ONCE = 100_000
_BOUNDED = {
    "parquet.block.size": "33554432",
    "parquet.page.size.row.check.min": "10",
    "parquet.page.size.row.check.max": "10",
    "parquet.memory.pool.ratio": "0.25",
}
"""Bytes of a group of rows, of which a reader holds a few; rows between looks at the memory of a file that is
written; and the part of the heap for all such files."""
_PLAINLY = {
    **{
        f"parquet.enable.dictionary#{name}": "false"
        for name in ("id", "msgid_seq", "time_ms", "timestamp", "broker_in_time", "msg")
    },
    "parquet.column.statistics.enabled#msg": "false",
}
"""Without a dictionary for values that are all different, which Parquet would only find to be too large, and
without bounds of the bytes of messages, which no query uses."""


@dataclass(frozen=True, slots=True)
class Window:
    """Messages older than some time, or acknowledged, or both; of some destinations or of all.

    The time of a message is its JMSTimestamp, or if that is not set, the time when the broker received it. A
    message that cannot be decoded has no time, and is never old.

    Only messages of topics can be acknowledged and still stored: until cleanup removes a message that every
    durable subscription, of which there must be one, has acknowledged. Queues keep no such messages.
    """

    before_ms: int | None = None
    """Messages whose time is before this."""
    acknowledged: bool = False
    """Whether only messages that every durable subscription has acknowledged are included."""
    destinations: frozenset[str] = frozenset()
    """Qualified names; empty for all destinations."""
    older_than: float | None = None
    """Messages that are older than this, in seconds, when the window is used; in place of ``before_ms``."""

    @classmethod
    def of(
        cls,
        older_than: float | None = None,
        *,
        acknowledged: bool = False,
        destinations: Iterable[Destination] = (),
    ) -> Self:
        """Return a window of messages older than ``older_than`` seconds whenever it is used.

        :raises ConfigurationError: the window would include every message of the store
        """
        if older_than is None and not acknowledged:
            raise ConfigurationError("choose messages by age, or acknowledged ones, or both")
        names = frozenset(destination.qualified_name for destination in destinations)
        return cls(None, acknowledged, names, older_than)

    def now(self) -> Self:
        """Return the window as of the current time, with ``before_ms`` only."""
        if self.older_than is None:
            return self
        before_ms = time.time_ns() // 1_000_000 - round(self.older_than * 1000)
        return replace(self, before_ms=before_ms, older_than=None)

    def includes(self, container: str, time_ms: int | None) -> bool:
        """Return whether a window as of one time has this destination and time, acknowledged or not."""
        if self.destinations and container not in self.destinations:
            return False
        return self.before_ms is None or (time_ms is not None and time_ms < self.before_ms)


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """Result of archiving."""

    messages: int
    """Messages added to the archive."""
    bytes: int
    """Size of the files."""
    files: int
    """Files added to the archive."""


def write(
    spark: SparkSession,
    store: Configuration,
    where: str | Path,
    window: Window,
    *,
    batch: int | None = None,
    progress: Progress | None = None,
) -> WrittenBatch:
    """Write the messages of the window that are not in the archive yet.

    The store is only read. Batches, up to the highest ID at the time of the call, are added to the archive
    one after the other. If the process is killed, the next call continues; each message is archived exactly
    once.

    :param where: the archive, created if missing: a folder that all Spark workers share under the same path,
        or a URL of a file system of Spark's
    :param batch: the number of messages that are added at once, at most; by default 1 GiB for each core
    :param progress: called with the number of messages of each batch that was added
    :raises NotMaster: another process is writing to this archive
    :raises ConfigurationError: the folder is not shared by the workers, or Spark cannot use the URL
    """
    archive, window = Archive(where), window.now()
    messages = size = files = 0
    with analytics.explained(), archive.writing(), analytics.stored_in(spark, store) as stored:
        for ranges in _batches(stored, archive, window, batch):
            folder = archive.begin()
            written = _write(spark, archive, folder, _new(stored, archive, window, ranges), window)
            manifest = archive.commit(folder, _files(spark, archive, folder), written)
            if manifest is not None:
                messages += manifest.messages
                size += sum(file.bytes for file in manifest.files)
                files += len(manifest.files)
                if progress is not None:
                    progress(manifest.messages)
    return WrittenBatch(messages, size, files)


_Ranges = list[tuple[int, int]]


def _batches(
    stored: StoredMessages, archive: Archive, window: Window, batch: int | None
) -> Iterator[_Ranges]:
    """Yield ranges of IDs for the tasks of each batch, with messages that may be new."""
    tasks = cores = stored.reading.spark.sparkContext.defaultParallelism
    if batch:
        each = -(-batch // cores)
    else:
        each = _evenly(stored.count(), cores)
        tasks *= _TASKS  # each batch has a fixed cost
    wide = each * (max(1, _MOST // each) if archive.manifests() else 1)
    for many in _grouped(stored.ranges(-1, stored.last_id(), wide), tasks):
        narrow = _narrowed(stored, archive, window, many, wide, each)
        for some in _grouped(narrow, tasks):
            ranges = _narrowed(stored, archive, window, some, each, each)
            yield from _grouped(
                (part for range_ in ranges for part in stored.cut(*range_, _TASK_BYTES)), tasks
            )


def _grouped(ranges: Iterator[tuple[int, int]], count: int) -> Iterator[_Ranges]:
    while some := [*islice(ranges, count)]:
        yield some


def _evenly(count: int, cores: int) -> int:
    """Return the messages of each task: all cores get equally many tasks, and few, but of a bounded size."""
    rounds = max(1, -(-count // (cores * _MOST)))
    return max(_FEWEST, -(-count // (cores * rounds)))


def _narrowed(
    stored: StoredMessages, archive: Archive, window: Window, ranges: _Ranges, size: int, wanted: int
) -> Iterator[tuple[int, int]]:
    """Return ranges of ``wanted`` messages that may be new, from these ranges of ``size`` messages.

    Archived messages are recognised without their bytes.
    """
    if _known(stored, archive, ranges) is None:
        if size == wanted:
            return iter(ranges)
        return stored.ranges(ranges[0][0], ranges[-1][1], wanted)
    names = _new(stored, archive, window, ranges).agg(F.min("id"), F.max("id")).first()
    if names is None or names[0] is None:
        return iter(())
    return stored.ranges(names[0] - 1, names[1], wanted)


def _write(spark: SparkSession, archive: Archive, folder: str, frame: DataFrame, window: Window) -> int:
    """Write the messages of the window to the folder of a batch; returns how many there are.

    A message whose headers Java cannot read is written there first and read again: the store may change it.
    """
    # Its body is in a journal, or in pieces: it stays in the store, and is archived once it is in the row.
    elsewhere = F.substring("msg", 1, len(BODY_ELSEWHERE)).eqNullSafe(F.lit(BODY_ELSEWHERE))
    frame = with_headers_in_java(frame.where(~elsewhere), "known")
    written, known = _write_part(archive, folder, frame, window)
    if written == known or sum(file.messages for file in _files(spark, archive, folder)) < written:
        return written  # the commit finds out that files cannot be seen
    rest = f"{folder}/date={_REST}"
    again = with_headers(spark.read.parquet(archive.folder.url(rest)).select(*RAW))
    decoded, _ = _write_part(archive, folder, again.withColumn("known", F.lit(True)), window)
    archive.folder.remove(rest)
    return known + decoded


def _write_part(archive: Archive, folder: str, frame: DataFrame, window: Window) -> tuple[int, int]:
    """Write messages ordered by day, destination and ID; returns how many, and how many of them are known."""
    frame = frame.withColumn("message_size", F.octet_length("msg").cast("bigint"))
    frame = frame.withColumn("time_ms", F.unix_millis(F.coalesce("timestamp", "broker_in_time")))
    if window.before_ms is not None:
        frame = frame.where(~F.col("known") | (F.col("time_ms") < window.before_ms))
    frame = frame.withColumn("date", F.when(F.col("known"), _date()).otherwise(_REST)).drop("known")
    observed = Observation()
    totals = (F.count("id").alias("written"), F.count(F.when(F.col("date") != _REST, 1)).alias("known"))
    # A projection after the sort would copy the rows once more.
    frame = frame.sortWithinPartitions("date", "container", "id").observe(observed, *totals)
    files = frame.write.mode("append").options(**_BOUNDED, **_PLAINLY).partitionBy("date")
    files.parquet(archive.folder.url(folder))
    return observed.get["written"], observed.get["known"]


def _date() -> Column:
    """Return the date of a message in UTC."""
    days = F.floor(F.col("time_ms") / _DAY_MS).cast("int")
    known = F.col("time_ms").between(0, YEAR_10000_MS - 1)
    day = F.date_add(F.lit("1970-01-01").cast("date"), F.when(known, days))
    return F.coalesce(day.cast("string"), F.lit("unknown"))


def _new(stored: StoredMessages, archive: Archive, window: Window, ranges: _Ranges) -> DataFrame:
    """Return the messages that the window may include and that are in no earlier batch."""
    frame = stored.frame(ranges, acknowledged=window.acknowledged)
    if window.destinations:
        frame = frame.where(F.col("container").isin(sorted(window.destinations)))
    known = _known(stored, archive, ranges)
    if known is None:
        return frame
    same = [frame[name].eqNullSafe(known[name]) for name in KEY[1:]]
    return frame.join(known, [frame["id"] == known["id"], *same], "left_anti")


def _known(stored: StoredMessages, archive: Archive, ranges: _Ranges) -> DataFrame | None:
    """Return the names of messages of earlier batches with IDs in these ranges; None without any."""
    after, up_to = ranges[0][0], ranges[-1][1]
    files = [
        file
        for manifest in archive.manifests()
        for file in manifest.files
        if file.first_id <= up_to and file.last_id > after
    ]
    if not files:
        return None
    read = stored.reading.spark.read.parquet(*(archive.folder.url(file.path) for file in files))
    known = read.select(*KEY).where(F.col("id").between(after + 1, up_to))
    # So that the messages themselves are not shuffled.
    return F.broadcast(known) if sum(file.messages for file in files) <= _BROADCAST else known


def _files(spark: SparkSession, archive: Archive, folder: str) -> list[File]:
    """Return the files of a batch that the driver sees, in a folder to which Spark has written."""
    files = []
    for day in archive.folder.names(folder):
        for name in archive.folder.names(f"{folder}/{day}") if day.startswith("date=") else ():
            if name.endswith(".parquet") and not name.startswith((".", "_")):
                path = f"{folder}/{day}/{name}"
                read = footer(spark, archive.folder.url(path), KEY[:2])
                ids, containers = (read.bounds[column] for column in KEY[:2])
                files.append(File(path, read.rows, read.bytes, *ids, *containers, ""))
    return files


def read(spark: SparkSession, where: str | Path) -> DataFrame:
    """Read an archive's messages: the columns of ``messages_decoded``, and ``time_ms``, ``date``, ``msg``.

    Only committed batches are read. Filters on ``date`` and ``destination`` skip files and parts of files.

    :raises ConfigurationError: there is no archive, or it has no messages
    """
    archive = Archive(where)
    urls = [archive.folder.url(file.path) for manifest in archive.manifests() for file in manifest.files]
    if not urls:
        raise ConfigurationError(f"there is no archive in {archive.folder.place}, or it has no messages")
    ship(spark)
    plan_decoding(spark)
    files = spark.read.option("basePath", archive.folder.url("")).parquet(*urls)
    return decoded_archive(files.withColumn("date", F.col("date").cast("string")))


class MessageDifference(NamedTuple):
    """A message that only one side has, that differs, or that the archive has twice."""

    difference: str
    """``missing`` from the archive, ``extra`` in the archive, ``different`` or ``doubled``."""
    destination: str
    """Qualified name."""
    id: int
    """The message's sequence, the ID column."""
    message_id: str
    """The producer's message id."""


@dataclass(frozen=True, slots=True)
class ArchiveComparison:
    """Result of a comparison, as numbers of messages."""

    stored: int = 0
    """Messages in the store."""
    archived: int = 0
    """Messages in the archive."""
    missing: int = 0
    """Messages in the store that the archive does not have."""
    extra: int = 0
    """Messages in the archive that the store does not have."""
    different: int = 0
    """Messages in both that are not the same."""
    doubled: int = 0
    """Messages that the archive has twice."""

    @property
    def same(self) -> bool:
        """Whether store and archive have the same messages, each once."""
        return not (self.missing or self.extra or self.different or self.doubled)


def compare(
    spark: SparkSession,
    store: Configuration,
    where: str | Path,
    on_difference: Callable[[MessageDifference], None] | None = None,
) -> ArchiveComparison:
    """Compare the messages of a store with an archive, except those of prepared transactions.

    Messages are compared by their names and by 128 bits of a hash of their bytes, which finds damage but is
    not cryptographic. The SHA-256 of every file is verified first.
    Messages that were removed from the store are extra, and messages too young for the archive are missing.

    :raises StoresDiffer: a file of the archive is missing or damaged
    """
    archive = Archive(where)
    files = [file for manifest in archive.manifests() for file in manifest.files]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(archive.check_sum, files):
            pass
    urls = [archive.folder.url(file.path) for file in files]
    with analytics.explained(), analytics.stored_in(spark, store) as stored:
        ranges = [*stored.ranges(-1, stored.last_id(), _COMPARED_AT_ONCE)] or [(-1, -1)]
        left = _digested(stored.frame(ranges))
        right = _digested(spark.read.parquet(*urls)) if urls else left.limit(0)
        observed = Observation()
        joined = _joined(left, right).observe(observed, *_totals())
        different = joined.where("difference IS NOT NULL OR in_archive > 1").persist()
        try:
            different.count()
            result = ArchiveComparison(**observed.get)
            if on_difference is not None:
                for difference in _differences(different):
                    on_difference(difference)
        finally:
            different.unpersist()
    return result


def _digested(frame: DataFrame) -> DataFrame:
    """Return the names, and 128 bits of a hash of the bytes; null if there are none."""
    there = F.col("msg").isNotNull()
    first, other = F.xxhash64("msg"), F.xxhash64(F.lit(1), F.col("msg"))
    return frame.select(*KEY, F.when(there, first).alias("one"), F.when(there, other).alias("other"))


def _joined(left: DataFrame, right: DataFrame) -> DataFrame:
    """Return a row for each message of either side: its count on each, and whether the bytes are equal."""
    both = left.withColumn("archived", F.lit(0)).unionByName(right.withColumn("archived", F.lit(1)))
    some_null = F.col("digests").between(1, F.col("in_store") + F.col("in_archive") - 1)
    verdict = (
        F.when(F.col("in_archive") == 0, "missing")
        .when(F.col("in_store") == 0, "extra")
        .when(~F.col("same") | some_null, "different")
    )
    same = (F.min(name).eqNullSafe(F.max(name)) for name in ("one", "other"))
    return (
        both.groupBy(*KEY)
        .agg(
            F.sum("archived").alias("in_archive"),
            F.sum(1 - F.col("archived")).alias("in_store"),
            F.count("one").alias("digests"),
            reduce(and_, same).alias("same"),
        )
        .withColumn("difference", verdict)
    )


def _totals() -> list[Column]:
    sums = {"stored": "in_store", "archived": "in_archive"}
    return [
        *(F.coalesce(F.sum(column), F.lit(0)).alias(name) for name, column in sums.items()),
        *(F.count_if(F.col("difference") == name).alias(name) for name in ("missing", "extra", "different")),
        F.count_if(F.col("in_archive") > 1).alias("doubled"),
    ]


def _differences(different: DataFrame) -> Iterator[MessageDifference]:
    for row in different.sort(*KEY).toLocalIterator():
        name = (row["container"], row["id"], f"{row['msgid_prod']}:{row['msgid_seq']}")
        if row["difference"] is not None:
            yield MessageDifference(row["difference"], *name)
        if row["in_archive"] > 1:
            yield MessageDifference("doubled", *name)
