"""From the store to the archive, through Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from jdbcstore import analytics
from jdbcstore.abc import Progress
from jdbcstore.analytics.stored import Stored, decoded_columns
from jdbcstore.config import Configuration
from jdbcstore.message.openwire import REFERENCE_START
from jdbcstore.tools.archive.layout import Archive
from jdbcstore.tools.archive.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEY = ("id", "container", "msgid_prod", "msgid_seq")
"""What says which message it is."""
_BATCH = 500_000
_DAY_MS = 86_400_000
_YEAR_10000_MS = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class Written:
    """What went into the archive."""

    messages: int
    bytes: int
    """Of the files."""
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
    """Write those messages of the window that are not in the archive yet.

    The store is only read. Batches of so many messages of the store, by ID up to the last one there is now,
    are written and become part of the archive one after the other. Killed at any point, the next call goes
    on: whatever happens, each message is in the archive once.

    :param folder: where the archive is, or is made; every worker of Spark must have it in the same place
    :param progress: told of messages that are in the archive now, a batch at a time
    :raises NotMaster: another process writes to this archive
    :raises ConfigurationError: the folder is a URL, or the workers have another one in its place
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
    """The messages of the window in a range of IDs, as they stand in the archive."""
    spark = stored.reading.source.spark
    slice_ = -(-batch // spark.sparkContext.defaultParallelism)
    frame = stored.frame([*stored.ranges(after, up_to, slice_)], acknowledged=window.acknowledged)
    if window.destinations:
        frame = frame.where(F.col("container").isin(sorted(window.destinations)))
    # A reference is worth nothing without its journal; the message is archived once the database has it.
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
    """A name for a folder that differs where destinations do, on every file system.

    It has no character that means something to one, no case, and a bounded length; the destination itself
    stands in the column ``container``.
    """
    readable = F.lower(F.substring(F.regexp_replace("container", "[^A-Za-z0-9]+", "_"), 1, 60))
    return F.concat(readable, F.lit("-"), F.substring(F.sha2("container", 256), 1, 16))


def _date() -> Column:
    """The day of its time, in UTC."""
    days = F.floor(F.col("time_ms") / _DAY_MS).cast("int")
    known = F.col("time_ms").between(0, _YEAR_10000_MS - 1)
    day = F.date_add(F.lit("1970-01-01").cast("date"), F.when(known, days))
    return F.coalesce(day.cast("string"), F.lit("unknown"))


def _without(frame: DataFrame, archive: Archive, after: int, up_to: int) -> DataFrame:
    """Those that no earlier batch has."""
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
