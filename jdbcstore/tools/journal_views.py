"""The messages in the files of a journal, for the view ``history`` of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from jdbcstore.analytics.decoding import plan_decoding
from jdbcstore.analytics.java import scratch
from jdbcstore.analytics.spark_session import ship
from jdbcstore.analytics.views import decoded_messages
from jdbcstore.database.adapters.sql import Row
from jdbcstore.errors import ConfigurationError
from jdbcstore.tools.journal_history import JournalHistory
from jdbcstore.tools.pages import bounded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REMOVED, JOURNALED = "removed", "journaled"
"""States of messages in ``history``: whether the files also have the removal."""
_MESSAGES = pa.schema(
    [
        ("id", pa.int64()),
        ("container", pa.string()),
        ("msgid_prod", pa.string()),
        ("msgid_seq", pa.int64()),
        ("expiration", pa.int64()),
        ("msg", pa.binary()),
        ("priority", pa.int64()),
        ("xid", pa.string()),
    ]
)
_REMOVALS = pa.schema([("removed_id", pa.int64())])


def read(spark: SparkSession, directory: str | Path, archive: str | Path | None = None) -> DataFrame:
    """Read the messages in the files of a journal, those that are retained included, each once.

    The columns of ``messages_decoded``, and ``state``: :data:`REMOVED` if the files also have the message's
    removal, which does not say why and when; else :data:`JOURNALED`. The files are read now, also while the
    journal is written, and copied for Spark to a folder of this process: Spark must run on this machine.

    :param archive: directory of retained files, if it is not that of the journal
    :raises ConfigurationError: Spark runs on a cluster
    :raises CorruptJournal: a file is damaged or missing
    :raises StoresDiffer: files were removed in the meantime
    """
    if not str(spark.sparkContext.master).startswith("local"):
        raise ConfigurationError(
            "the files of a journal are read here, and Spark runs on a cluster; use the master local[*]",
            option="master",
        )
    folder = scratch("journal")
    messages, removals = folder / "messages.parquet", folder / "removals.parquet"
    history = JournalHistory(directory, archive=archive)
    with pq.ParquetWriter(messages, _MESSAGES) as added, pq.ParquetWriter(removals, _REMOVALS) as gone:
        for page in bounded(_operations(history), lambda operation: _size(operation[0])):
            _write(added, [row for row, _ in page if row is not None])
            _write(gone, [(sequence,) for row, sequence in page if row is None])
    ship(spark)
    plan_decoding(spark)
    rows = decoded_messages(spark.read.parquet(str(messages)))
    known = spark.read.parquet(str(removals)).distinct()
    joined = rows.join(known, rows["id"] == known["removed_id"], "left")
    state = F.when(F.col("removed_id").isNull(), JOURNALED).otherwise(REMOVED)
    return joined.select(*rows.columns, state.alias("state"))


def _size(row: Row | None) -> int:
    return 0 if row is None else len(row[5])


def _operations(history: JournalHistory) -> Iterator[tuple[Row | None, int]]:
    """Yield each message that was added, as a row, and the sequence of each that was removed, without one."""
    for sequence, writes in history.writes():
        for number, message in enumerate(writes.adds, sequence):
            yield message.row(number), number
        for _, sequences in writes.removes:
            for removed in sequences:
                yield None, removed


def _write(writer: pq.ParquetWriter, rows: Iterable[Sequence[Any]]) -> None:
    if columns := [*zip(*rows, strict=True)]:
        arrays = [pa.array(column, field.type) for column, field in zip(columns, writer.schema, strict=True)]
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=writer.schema))
