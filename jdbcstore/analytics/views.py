"""The views of a store, and the stack of stores whose views share the same names in one session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from jdbcstore.analytics.columns import COLUMNS, YEAR_1_MS, YEAR_10000_MS
from jdbcstore.analytics.comments import VIEWS, commented
from jdbcstore.analytics.decoding import as_time, decoded, decoded_columns
from jdbcstore.analytics.headers import HEADERS
from jdbcstore.analytics.queries import destinations, pending, subscriptions
from jdbcstore.analytics.remote import is_remote
from jdbcstore.analytics.spark_session import LOST, has_ended, is_java_over
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.dead_letters import CAUSE
from jdbcstore.message.destination import DestinationKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from jdbcstore.analytics.reading import JdbcReading


Views = dict[str, "DataFrame"]

_stacks: dict[str, list[Views]] = {}
"""The views in effect by session, the visible ones last."""

_MARK = "spark.jdbcstore.shown.{}"
"""Session setting that holds the plan of our view of this name; the session may outlive the process."""


NAMESPACE = "jdbcstore"
"""Prefix of the views of a named store."""


def names_of(store: str | None) -> tuple[str, ...]:
    """Return the names of a store's temporary views, such as ``jdbcstore.orders.messages``.

    :raises ConfigurationError: the name would have to be quoted
    """
    if store is None:
        return VIEWS
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", store):
        raise ConfigurationError(
            f"the name {store!r} of a store is not valid; use small letters, digits and underscores",
            option="name",
        )
    return tuple(f"{NAMESPACE}.{store}.{view}" for view in VIEWS)


class Shown:
    """The views of one session. Views of the user under the same names are never replaced."""

    def __init__(self, spark: SparkSession, store: str | None = None) -> None:
        self._spark = spark
        self._names = names_of(store)
        self._remote = is_remote(spark)
        session: Any = spark if self._remote else spark._jsparkSession
        where = (
            session.session_id
            if self._remote
            else f"{spark.sparkContext.applicationId}/{session.sessionUUID()}"
        )
        self._key = f"{where}/{store or ''}"

    def put(self, views: Views) -> Views:
        """Make views visible, given by their names in :data:`VIEWS`; returns them as they are shown.

        :raises ConfigurationError: the user has a view under one of the names
        """
        views = dict(zip(self._names, (views[view] for view in VIEWS), strict=True))
        stack, there = _stacks.setdefault(self._key, []), self._there()
        for name in self._names:
            if name in there and not (
                (stack and self._is_same(name, stack[-1])) or self._is_left_behind(name)
            ):
                raise ConfigurationError(
                    f"this Spark session already has a view {name} that does not belong to a message store;"
                    " drop it, or connect in a separate session, spark.newSession()"
                )
        stack.append(views)
        self._show(views)
        return views

    def remove(self, views: Views) -> None:
        """Remove what :meth:`put` returned, and restore the previous views if it was visible; idempotent."""
        stack = _stacks.get(self._key, [])
        places = [place for place, each in enumerate(stack) if each is views]
        if not places:
            return
        seen = places == [len(stack) - 1]
        del stack[places[0]]
        if not stack:
            del _stacks[self._key]
        # A signal may have left half an answer of Java behind, which another call would take for its own.
        if not seen or (not self._remote and is_java_over()):
            return
        try:
            there = self._there()
        except LOST as error:
            if has_ended(error):
                return  # and its views with it
            raise
        mine = [name for name in self._names if name in there and self._is_same(name, views)]
        if stack:
            self._show({name: stack[-1][name] for name in mine})
        else:
            for name in mine:
                self._spark.catalog.dropTempView(name)

    @contextmanager
    def while_in(self, views: Views) -> Iterator[None]:
        """Make these views visible within the block."""
        shown = self.put(views)
        try:
            yield
        finally:
            self.remove(shown)

    def _show(self, views: Views) -> None:
        for name, frame in views.items():
            if not self._remote:
                # Before it is there: a process killed between the two would leave a view without an owner.
                self._mark(name, frame)
            frame.createOrReplaceTempView(_quoted(name))
            if self._remote:
                self._mark(name, self._view(name))

    def _mark(self, name: str, view: DataFrame) -> None:
        """Note that this view is ours, beside the one before."""
        before = self._spark.conf.get(_MARK.format(name), None) or ""
        self._spark.conf.set(_MARK.format(name), " ".join([*before.split()[-1:], str(view.semanticHash())]))

    def _there(self) -> set[str]:
        """Return the names that are taken by temporary views."""
        if self._remote:
            rows = self._spark.sql("SHOW VIEWS").collect()
            return {*self._names} & {row.viewName for row in rows if row.isTemporary}
        session: Any = self._spark._jsparkSession
        catalog = session.sessionState().catalog()
        return {name for name in self._names if catalog.getTempView(name).isDefined()}

    def _view(self, name: str) -> DataFrame:
        return self._spark.table(_quoted(name))

    def _is_left_behind(self, name: str) -> bool:
        """Return whether the view was left in the JVM by a process of ours that has ended."""
        marks = self._spark.conf.get(_MARK.format(name), None) or ""
        return str(self._view(name).semanticHash()) in marks.split()

    def _is_same(self, name: str, views: Views) -> bool:
        """Return whether the existing view is one of these, and was not replaced."""
        if self._remote:
            # There a DataFrame is analysed whenever it is used, to a plan of its own.
            return self._is_left_behind(name)
        return self._view(name).sameSemantics(views[name])


def _quoted(name: str) -> str:
    return f"`{name}`"


_SUBSCRIPTIONS = (
    "destination STRING, client_id STRING, subscription_name STRING, subscribed_destination STRING,"
    " selector STRING, last_acked_id BIGINT, lag BIGINT, acknowledged_ahead BIGINT"
)
_PENDING = "destination STRING, client_id STRING, subscription_name STRING, id BIGINT"
_TOTALS = (
    "destination STRING, depth BIGINT, bytes BIGINT, expired BIGINT, in_doubt BIGINT, oldest_id BIGINT,"
    " msg BINARY"
)


def define(
    reading: JdbcReading, bounds: list[int], archived: Sequence[DataFrame] = ()
) -> dict[str, DataFrame]:
    """Return the DataFrame of each view; ``bounds`` are IDs that divide messages into partitions.

    ``archived``: what ``history`` has besides, as ``read`` of :mod:`jdbcstore.tools.archive` or of
    :mod:`jdbcstore.tools.journal_views` returns it.
    """
    session = reading.session
    tables, adapter = session.tables, session.adapter
    lock, messages = reading.table(tables.lock), reading.table(tables.messages)
    # Without bounds: the catalog's table, which pushes limits down; of a million rows ten are decoded.
    stored = decoded_messages(reading.slices(tables.messages, bounds) if bounds else messages)
    # Spark takes longest to make the columns of decoded messages.
    unsliced = decoded_messages(messages) if bounds else stored
    views = {
        "messages": messages.select(*_columns(messages)),
        "messages_decoded": stored,
        "subscriptions": reading.query(
            subscriptions(tables, adapter, ours=session.has_own_tables), _SUBSCRIPTIONS
        ),
        "pending": reading.query(pending(tables, adapter, ours=session.has_own_tables), _PENDING),
        "destinations": _destinations(reading.query(destinations(tables, adapter), _TOTALS)),
        "in_doubt": unsliced.where("xid IS NOT NULL"),
        "history": _history(
            stored, messages, reading.table(tables.history) if session.has_history else None, archived
        ),
        "lock": lock.withColumn("time", F.timestamp_millis(lock["time"])),
    }
    return {name: commented(view) for name, view in views.items()}


def _columns(table: DataFrame) -> list[Column]:
    """Return the columns of the table except MSG, and those derived from CONTAINER."""
    container = table["container"]
    return [
        table["id"],
        container,
        container.alias("destination"),
        _destination_type(container),
        *(table[name] for name in ("msgid_prod", "msgid_seq", "expiration")),
        as_time(table["expiration"]).alias("expires"),
        *(table[name] for name in ("priority", "xid")),
    ]


def _destination_type(container: Column) -> Column:
    kinds: Any = F
    for kind in DestinationKind:
        kinds = kinds.when(container.startswith(f"{kind}://"), str(kind))
    column: Column = kinds.alias("destination_type")
    return column


def decoded_messages(table: DataFrame) -> DataFrame:
    """Return the columns of ``messages_decoded``, from rows with the columns of ACTIVEMQ_MSGS."""
    size = F.octet_length(table["msg"]).cast("bigint").alias("message_size")
    return table.select(*_columns(table), size, *decoded_columns(table["msg"]))


def decoded_archive(files: DataFrame) -> DataFrame:
    """Return the columns of ``messages_decoded``, then those of an archive only, from its files.

    Some headers are in the files; the rest is decoded from MSG by the queries that need it.
    """
    rows = files.withColumn("xid", F.lit(None).cast("string"))
    added = [rows[c.name] if c in HEADERS else decoded(c, rows["msg"]) for c in COLUMNS]
    return rows.select(*_columns(rows), rows["message_size"], *added, "time_ms", "date", "msg")


def _destinations(totals: DataFrame) -> DataFrame:
    [timestamp] = [column for column in COLUMNS if column.name == "timestamp"]
    oldest = decoded(timestamp, totals["msg"]).alias("oldest")
    age = (F.unix_millis(F.current_timestamp()) - F.unix_millis(F.col("oldest"))) / 1000
    numbers = ("depth", "bytes", "expired", "in_doubt", "oldest_id")
    kind = _destination_type(F.col("destination"))
    return totals.withColumn("oldest", oldest).select(
        "destination", kind, *numbers, "oldest", age.alias("oldest_age")
    )


def _history(
    stored: DataFrame, messages: DataFrame, records: DataFrame | None, archives: Sequence[DataFrame]
) -> DataFrame:
    """Return stored messages, records of removed ones, and others in archives and journals; each once."""
    rows = waiting(stored)
    known = messages.select(*_NAME)
    if records is not None:
        rows = rows.union(_removed(records))
        known = known.union(records.select(*_NAME))
    for archive in archives:
        same = [archive[name].eqNullSafe(known[name]) for name in _NAME[1:]]
        gone = archive.join(known, [archive["id"] == known["id"], *same], "left_anti")
        state = F.col("state") if "state" in gone.columns else F.lit("archived")
        rows = rows.union(_lives(gone, state, F.lit(None).cast("double")))
        known = known.union(archive.select(*_NAME))
    return rows


_NAME = ("id", "container", "msgid_prod", "msgid_seq")
"""The columns that identify a message."""


def waiting(stored: DataFrame) -> DataFrame:
    """Return the stored messages as rows of ``history``."""
    dwell = _seconds("timestamp", F.current_timestamp())
    return _lives(stored.where("xid IS NULL"), F.lit("waiting"), dwell)


def _lives(decoded: DataFrame, state: Column, dwell: Column) -> DataFrame:
    """Return decoded messages as rows of ``history``."""
    return decoded.select(
        *("id", "destination", "destination_type", "msgid_prod", "msgid_seq"),
        state.alias("state"),
        F.col("timestamp").alias("produced"),
        F.lit(None).cast("timestamp").alias("removed"),
        dwell.alias("dwell"),
        F.col("jms_priority").cast("bigint").alias("priority"),
        F.col("message_size").alias("size"),
        F.col("redelivery_counter").cast("bigint").alias("redeliveries"),
        F.col("properties")[CAUSE]["text"].alias("reason"),
    )


def _removed(table: DataFrame) -> DataFrame:
    """Return the records of removed messages as rows of ``history``."""
    produced = table["produced"]
    known = (produced != 0) & produced.between(YEAR_1_MS, YEAR_10000_MS - 1)
    timed = table.withColumn("produced", F.timestamp_millis(F.when(known, produced))).withColumn(
        "removed", F.timestamp_millis(table["removed"])
    )
    return gone(timed)


def gone(table: DataFrame) -> DataFrame:
    """Return records whose times are timestamps as rows of ``history``."""
    container = F.col("container")
    return table.select(
        *("id", container.alias("destination"), _destination_type(container), "msgid_prod", "msgid_seq"),
        F.col("outcome").alias("state"),
        *("produced", "removed", _seconds("produced", F.col("removed")).alias("dwell")),
        *(F.col(name).alias(alias) for name, alias in (("jms_priority", "priority"), ("msg_size", "size"))),
        *("redeliveries", "reason"),
    )


def _seconds(since: str, until: Column) -> Column:
    return (F.unix_millis(until) - F.unix_millis(F.col(since))) / 1000
