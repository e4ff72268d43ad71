"""The views that questions are asked of, over one way of reading a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from jdbcstore.analytics.columns import COLUMNS
from jdbcstore.analytics.decoding import decoded
from jdbcstore.analytics.queries import destinations, subscriptions
from jdbcstore.message.destination import DestinationKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from jdbcstore.analytics.reading import Reading

VIEWS = ("messages", "messages_decoded", "subscriptions", "destinations", "in_doubt", "lock")

_SUBSCRIPTIONS = (
    "destination STRING, client_id STRING, subscription_name STRING, subscribed_destination STRING,"
    " selector STRING, last_acked_id BIGINT, lag BIGINT, acknowledged_ahead BIGINT"
)
_TOTALS = (
    "destination STRING, depth BIGINT, bytes BIGINT, expired BIGINT, in_doubt BIGINT, oldest_id BIGINT,"
    " msg BINARY"
)


def define(reading: Reading, bounds: list[int]) -> dict[str, DataFrame]:
    """Each view's frame; ``bounds`` cut what reads the messages themselves into partitions."""
    session = reading.source.session
    tables, adapter = session.tables, session.adapter
    lock, messages = reading.table(tables.lock), reading.table(tables.messages)
    return {
        "messages": _messages(messages),
        # One statement is the catalog's, which pushes limits down: ten of a million are decoded.
        "messages_decoded": _decoded(reading.slices(tables.messages, bounds) if bounds else messages),
        "subscriptions": reading.query(
            subscriptions(tables, adapter, ours=session.has_own_tables), _SUBSCRIPTIONS
        ),
        "destinations": _destinations(reading.query(destinations(tables, adapter), _TOTALS)),
        "in_doubt": _decoded(messages).where("xid IS NOT NULL"),
        "lock": lock.withColumn("time", _time(lock["time"])),
    }


def _messages(table: DataFrame) -> DataFrame:
    return table.select(*_columns(table))


def _columns(table: DataFrame) -> list[Column]:
    """The columns of the table but MSG, and what CONTAINER says."""
    container = table["container"]
    return [
        table["id"],
        container,
        container.alias("destination"),
        _destination_type(container),
        *(table[name] for name in ("msgid_prod", "msgid_seq", "expiration", "priority", "xid")),
    ]


def _destination_type(container: Column) -> Column:
    kinds: Any = F
    for kind in DestinationKind:
        kinds = kinds.when(container.startswith(f"{kind}://"), str(kind))
    column: Column = kinds.alias("destination_type")
    return column


def _decoded(table: DataFrame) -> DataFrame:
    blob = table["msg"]
    size = F.octet_length(blob).cast("bigint").alias("message_size")
    return table.select(*_columns(table), size, *(decoded(column, blob) for column in COLUMNS))


def _destinations(totals: DataFrame) -> DataFrame:
    [timestamp] = [column for column in COLUMNS if column.name == "timestamp"]
    oldest = decoded(timestamp, totals["msg"]).alias("oldest")
    age = (F.unix_millis(F.current_timestamp()) - F.unix_millis(F.col("oldest"))) / 1000
    numbers = ("depth", "bytes", "expired", "in_doubt", "oldest_id")
    kind = _destination_type(F.col("destination"))
    return totals.withColumn("oldest", oldest).select(
        "destination", kind, *numbers, "oldest", age.alias("oldest_age")
    )


def _time(milliseconds: Column) -> Column:
    return F.timestamp_millis(milliseconds)
