"""Whether a store and an archive have the same messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from jdbcstore import analytics
from jdbcstore.config import Configuration
from jdbcstore.tools.archive.layout import Archive
from jdbcstore.tools.archive.writing import KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_RANGE = 100_000


class Difference(NamedTuple):
    """A message that one of the two has not, or has otherwise, or that the archive has twice."""

    difference: str
    """``missing``: only the store has it. ``extra``: only the archive. ``different``, ``doubled``."""
    destination: str
    id: int
    message_id: str


@dataclass(slots=True)
class Comparison:
    """What became of comparing."""

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
    """Compare a store's messages with an archive's, byte for byte; what is in doubt is left out.

    What was removed from the store is extra, and what is too young for the archive is missing.

    :raises StoresDiffer: a file of the archive is gone, or is not what was written
    """
    archive, result = Archive(folder), Comparison()
    paths = [
        str(archive.check(manifest, file)) for manifest in archive.manifests() for file in manifest.files
    ]
    with analytics.connect(spark, store) as views, analytics.explained():
        stored = views.stored
        ranges = [*stored.ranges(-1, stored.last_id(), _RANGE)] or [(-1, -1)]
        left = _digested(stored.frame(ranges))
        right = _digested(spark.read.parquet(*paths)) if paths else left.limit(0)
        joined = _joined(left, right).persist()
        try:
            _count(joined, result)
            if on_difference is not None:
                for found in _differences(joined):
                    on_difference(found)
        finally:
            joined.unpersist()
    return result


def _digested(frame: DataFrame) -> DataFrame:
    return frame.select(*KEY, F.sha2("msg", 256).alias("digest"))


def _joined(left: DataFrame, right: DataFrame) -> DataFrame:
    """A row for each message of either: how often each has it, and whether with the same bytes."""
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


def _count(joined: DataFrame, result: Comparison) -> None:
    """Totals alone come to the driver."""
    one = joined.agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("in_store", "in_archive")),
        *(F.count_if(F.col("difference") == name).alias(name) for name in ("missing", "extra", "different")),
        F.count_if(F.col("in_archive") > 1).alias("doubled"),
    ).first()
    assert one is not None  # noqa: S101
    result.stored, result.archived = one["in_store"], one["in_archive"]
    result.missing, result.extra = one["missing"], one["extra"]
    result.different, result.doubled = one["different"], one["doubled"]


def _differences(joined: DataFrame) -> Iterator[Difference]:
    found = joined.where("difference IS NOT NULL OR in_archive > 1").sort(*KEY)
    for row in found.toLocalIterator():
        yield from _of(row)


def _of(row: Row) -> Iterator[Difference]:
    name = (row["container"], row["id"], f"{row['msgid_prod']}:{row['msgid_seq']}")
    if row["difference"] is not None:
        yield Difference(row["difference"], *name)
    if row["in_archive"] > 1:
        yield Difference("doubled", *name)
