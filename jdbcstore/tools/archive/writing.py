"""Archiving of a store's messages with Spark, and comparison of a store with its archive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from jdbcstore import analytics
from jdbcstore.abc import Progress
from jdbcstore.analytics.columns import YEAR_10000_MS
from jdbcstore.analytics.decoding import decoded_columns
from jdbcstore.analytics.reading import Stored
from jdbcstore.config import Configuration
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination
from jdbcstore.message.openwire import REFERENCE_START
from jdbcstore.tools.archive.files import Archive

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEY = ("id", "container", "msgid_prod", "msgid_seq")
"""The columns that identify a message."""
_BATCH = 500_000
_DAY_MS = 86_400_000
_COMPARED_AT_ONCE = 100_000


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
    destinations: frozenset[str] = frozenset()
    """Qualified names; empty for all destinations."""

    @classmethod
    def of(
        cls,
        older_than: float | None = None,
        *,
        acknowledged: bool = False,
        destinations: Iterable[Destination] = (),
    ) -> Self:
        """The window relative to the current time; ``older_than`` is in seconds.

        :raises ConfigurationError: the window would include every message of the store
        """
        if older_than is None and not acknowledged:
            raise ConfigurationError("choose messages by age, or acknowledged ones, or both")
        before = None if older_than is None else time.time_ns() // 1_000_000 - round(older_than * 1000)
        names = frozenset(destination.qualified_name for destination in destinations)
        return cls(before, acknowledged, names)

    def includes(self, container: str, time_ms: int | None) -> bool:
        """Whether a message of this destination and time is included, disregarding acknowledgements."""
        if self.destinations and container not in self.destinations:
            return False
        return self.before_ms is None or (time_ms is not None and time_ms < self.before_ms)


@dataclass(frozen=True, slots=True)
class Written:
    """Result of archiving."""

    messages: int
    bytes: int
    """Size of the files."""
    files: int


def write(
    spark: SparkSession,
    store: Configuration,
    folder: str | Path,
    window: Window,
    *,
    batch: int = _BATCH,
    progress: Progress | None = None,
) -> Written:
    """Write the messages of the window that are not in the archive yet.

    The store is only read. Batches of ``batch`` IDs, up to the highest ID at the time of the call, are added
    to the archive one after the other. If the process is killed, the next call continues; each message is
    archived exactly once.

    :param folder: the archive, created if missing; all Spark workers must share it under the same path
    :param progress: called with the number of messages of each batch that was added
    :raises NotMaster: another process is writing to this archive
    :raises ConfigurationError: the folder is a URL, or is not shared by the workers
    """
    archive = Archive(folder)
    messages = size = files = 0
    with archive.writing(), analytics.connect(spark, store) as views, analytics.explained():
        stored = views.stored
        for after, up_to in stored.ranges(-1, stored.last_id(), batch):
            frame = _batch(stored, window, after, up_to, batch)
            staged = archive.stage()
            observed = Observation()
            frame = _without(frame, archive, after, up_to).observe(observed, F.count("id").alias("written"))
            frame.write.partitionBy("folder", "date").parquet(str(staged))
            manifest = archive.commit(staged, observed.get["written"])
            if manifest is not None:
                archive.publish(manifest)
                messages += manifest.messages
                size += sum(file.bytes for file in manifest.files)
                files += len(manifest.files)
                if progress is not None:
                    progress(manifest.messages)
    return Written(messages, size, files)


def _batch(stored: Stored, window: Window, after: int, up_to: int, batch: int) -> DataFrame:
    """The messages of the window in a range of IDs, with the columns of the archive."""
    slice_ = -(-batch // stored.reading.spark.sparkContext.defaultParallelism)
    frame = stored.frame([*stored.ranges(after, up_to, slice_)], acknowledged=window.acknowledged)
    if window.destinations:
        frame = frame.where(F.col("container").isin(sorted(window.destinations)))
    # A reference is useless without its journal; the message is archived once its body is in the database.
    refers = F.substring("msg", 1, len(REFERENCE_START)).eqNullSafe(F.lit(REFERENCE_START))
    frame = frame.where(~refers)
    size = F.octet_length("msg").cast("bigint").alias("message_size")
    digest = F.sha2("msg", 256).alias("msg_sha256")
    frame = frame.select(*frame.columns, size, digest, *decoded_columns(F.col("msg")))
    frame = frame.withColumn("time_ms", F.unix_millis(F.coalesce("timestamp", "broker_in_time")))
    if window.before_ms is not None:
        frame = frame.where(F.col("time_ms") < window.before_ms)
    placed = frame.withColumns({"folder": _folder(), "date": _date()})
    return placed.sortWithinPartitions("folder", "date", "id")


def _folder() -> Column:
    """A unique folder name per destination, valid on every file system.

    It has no special characters, no upper case and a bounded length; the destination itself is in the column
    ``container``.
    """
    readable = F.lower(F.substring(F.regexp_replace("container", "[^A-Za-z0-9]+", "_"), 1, 60))
    return F.concat(readable, F.lit("-"), F.substring(F.sha2("container", 256), 1, 16))


def _date() -> Column:
    """The date of a message in UTC."""
    days = F.floor(F.col("time_ms") / _DAY_MS).cast("int")
    known = F.col("time_ms").between(0, YEAR_10000_MS - 1)
    day = F.date_add(F.lit("1970-01-01").cast("date"), F.when(known, days))
    return F.coalesce(day.cast("string"), F.lit("unknown"))


def _without(frame: DataFrame, archive: Archive, after: int, up_to: int) -> DataFrame:
    """The messages that are in no earlier batch."""
    paths = [
        str(archive.path_of(manifest, file))
        for manifest in archive.manifests()
        for file in manifest.files
        if file.first_id <= up_to and file.last_id > after
    ]
    if not paths:
        return frame
    known = (
        frame.sparkSession.read.parquet(*paths)
        .select(*KEY)
        .where((F.col("id") > after) & (F.col("id") <= up_to))
    )
    same = [frame[name].eqNullSafe(known[name]) for name in KEY[1:]]
    matched = frame.join(known, [frame["id"] == known["id"], *same], "left_anti")
    return matched.sortWithinPartitions("folder", "date", "id")


class Difference(NamedTuple):
    """A message that only one side has, that differs, or that the archive has twice."""

    difference: str
    """``missing`` from the archive, ``extra`` in the archive, ``different`` or ``doubled``."""
    destination: str
    id: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a comparison, as numbers of messages."""

    stored: int = 0
    archived: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    doubled: int = 0

    @property
    def same(self) -> bool:
        return not (self.missing or self.extra or self.different or self.doubled)


def compare(
    spark: SparkSession,
    store: Configuration,
    folder: str | Path,
    on_difference: Callable[[Difference], None] | None = None,
) -> Comparison:
    """Compare the messages of a store with an archive, byte for byte, except those of prepared transactions.

    Messages that were removed from the store are extra, and messages too young for the archive are missing.

    :raises StoresDiffer: a file of the archive is missing or damaged
    """
    archive = Archive(folder)
    paths = [
        str(archive.check(manifest, file)) for manifest in archive.manifests() for file in manifest.files
    ]
    with analytics.connect(spark, store) as views, analytics.explained():
        stored = views.stored
        ranges = [*stored.ranges(-1, stored.last_id(), _COMPARED_AT_ONCE)] or [(-1, -1)]
        left = _digested(stored.frame(ranges))
        right = _digested(spark.read.parquet(*paths)) if paths else left.limit(0)
        joined = _joined(left, right).persist()
        try:
            result = _counted(joined)
            if on_difference is not None:
                for found in _differences(joined):
                    on_difference(found)
        finally:
            joined.unpersist()
    return result


def _digested(frame: DataFrame) -> DataFrame:
    return frame.select(*KEY, F.sha2("msg", 256).alias("digest"))


def _joined(left: DataFrame, right: DataFrame) -> DataFrame:
    """A row for each message of either side: how often each has it, and whether the bytes are the same."""
    both = left.withColumn("archived", F.lit(0)).unionByName(right.withColumn("archived", F.lit(1)))
    verdict = (
        F.when(F.col("in_archive") == 0, "missing")
        .when(F.col("in_store") == 0, "extra")
        .when(F.col("digests") > 1, "different")
    )
    return (
        both.groupBy(*KEY)
        .agg(
            F.sum("archived").alias("in_archive"),
            F.sum(1 - F.col("archived")).alias("in_store"),
            F.count_distinct("digest").alias("digests"),
        )
        .withColumn("difference", verdict)
    )


def _counted(joined: DataFrame) -> Comparison:
    """The totals; only these are sent to the driver."""
    sums = {"stored": "in_store", "archived": "in_archive"}
    one = joined.agg(
        *(F.coalesce(F.sum(column), F.lit(0)).alias(name) for name, column in sums.items()),
        *(F.count_if(F.col("difference") == name).alias(name) for name in ("missing", "extra", "different")),
        F.count_if(F.col("in_archive") > 1).alias("doubled"),
    ).first()
    assert one is not None  # noqa: S101
    return Comparison(**one.asDict())


def _differences(joined: DataFrame) -> Iterator[Difference]:
    found = joined.where("difference IS NOT NULL OR in_archive > 1").sort(*KEY)
    for row in found.toLocalIterator():
        name = (row["container"], row["id"], f"{row['msgid_prod']}:{row['msgid_seq']}")
        if row["difference"] is not None:
            yield Difference(row["difference"], *name)
        if row["in_archive"] > 1:
            yield Difference("doubled", *name)
