"""Definitions of ActiveMQ's three tables, as its brokers create them, and of jdbcstore's own three."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    text,
)
from sqlalchemy.sql import quoted_name
from sqlalchemy.types import TypeEngine

from jdbcstore.config import StoreConfig
from jdbcstore.database.adapters.base import Adapter, Worded


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables under their configured names; ``acknowledged``, ``state``, ``version`` are jdbcstore's."""

    messages: Table
    acks: Table
    lock: Table
    acknowledged: Table
    """Durable acknowledgements that are ahead of LAST_ACKED_ID, or in a prepared transaction (XID)."""
    state: Table
    """Named numbers: ``sequence`` is the highest ever reserved, ``epoch`` the master's.

    The paths of lock files are stored as names.
    """
    version: Table
    """The schema's revision, for ``jdbcstore migrate``. The store never reads it."""

    @property
    def all(self) -> tuple[Table, ...]:
        """The tables that a store uses."""
        return (self.messages, self.acks, self.lock, self.acknowledged, self.state)

    @property
    def known(self) -> tuple[Table, ...]:
        """The tables that migrations create."""
        return (*self.all, self.version)

    @property
    def ours(self) -> tuple[Table, ...]:
        return (self.acknowledged, self.state)


def define_tables(adapter: Adapter, config: StoreConfig) -> Tables:
    """The tables for a vendor, named so that they are those of an ActiveMQ on that vendor."""
    metadata = MetaData()
    define = _Definer(adapter, metadata, config)
    prefix = config.table_prefix
    return Tables(
        messages=_messages(define, prefix + config.message_table_name),
        acks=_acks(define, prefix + config.durable_sub_acks_table_name),
        lock=_lock(define, prefix + config.lock_table_name),
        acknowledged=_acknowledged(define, prefix + "JDBCSTORE_ACKS"),
        state=_state(define, prefix + "JDBCSTORE_STATE"),
        version=_version(define, prefix + "JDBCSTORE_VERSION"),
    )


class _Definer:
    def __init__(self, adapter: Adapter, metadata: MetaData, config: StoreConfig) -> None:
        self.adapter = adapter
        self.metadata = metadata
        self.config = config

    def name(self, name: str) -> quoted_name:
        folded = name if self.adapter.fold_upper else name.lower()
        return quoted_name(folded, quote=self.adapter.quotes_names)

    def column(self, name: str, type_: Any, worded: str | None = None, **options: Any) -> Column[Any]:
        # The key is the lower-case name on every vendor, whatever the column's name there.
        return Column(
            self.name(name), Worded(type_, worded) if worded else type_, key=name.lower(), **options
        )

    def container(self) -> Column[Any]:
        worded = self.config.container_name_data_type
        return self.column("CONTAINER", self.adapter.container_name_type, worded, nullable=False)

    def producer(self) -> Column[Any]:
        return self.column("MSGID_PROD", self.adapter.msg_id_type, self.config.msg_id_data_type)

    def text(self, name: str, **options: Any) -> Column[Any]:
        return self.column(name, self.adapter.string_id_type, self.config.string_id_data_type, **options)

    def own(self, name: str, base: TypeEngine[Any], worded: str | None, **options: Any) -> Column[Any]:
        """A name in one of jdbcstore's own tables."""
        type_ = base if worded else self.adapter.own_name_type or base
        return self.column(name, type_, worded, **options)

    def number(self, name: str, **options: Any) -> Column[Any]:
        """A number of a message or acknowledgement."""
        return self._number(name, self.adapter.long_type, self.config.sequence_data_type, **options)

    def long(self, name: str, **options: Any) -> Column[Any]:
        return self._number(name, self.adapter.long_type, self.config.long_data_type, **options)

    def _number(self, name: str, type_: Any, worded: str | None, **options: Any) -> Column[Any]:
        return self.column(name, type_, worded, autoincrement=False, **options)

    def key(self, worded: str | None) -> Column[Any]:
        return self._number("ID", self.adapter.sequence_type, worded, primary_key=True)

    def table(self, name: str, *parts: Any) -> Table:
        return Table(self.name(name), self.metadata, *parts, **self.adapter.table_options)

    def primary_key(self, *columns: str, name: quoted_name | None = None) -> PrimaryKeyConstraint:
        return PrimaryKeyConstraint(*columns, name=name, **self.adapter.key_options)

    def index(self, table: str, suffix: str, *columns: str) -> Index:
        return Index(self.name(f"{table}_{suffix}"), *columns)


def _messages(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.key(define.config.sequence_data_type),
        define.container(),
        define.producer(),
        define.number("MSGID_SEQ"),
        define.long("EXPIRATION"),
        define.column("MSG", define.adapter.binary_type, define.config.binary_data_type),
        define.number("PRIORITY"),
        define.text("XID"),
        define.index(name, "MIDX", "msgid_prod", "msgid_seq"),
        define.index(name, "CIDX", "container"),
        define.index(name, "EIDX", "expiration"),
        define.index(name, "PIDX", "priority"),
        define.index(name, "XIDX", "xid"),
        define.index(name, "IIDX", "id", "xid", "container"),
    )


def _acks(define: _Definer, name: str) -> Table:
    key = ["container", "client_id", "sub_name"]
    if define.adapter.acks_key_has_priority:
        key.append("priority")
    # ActiveMQ leaves the prefix out of this name, and cannot create the table for a second prefix.
    key_name = define.name(f"PK_{name}") if define.adapter.acks_key_is_named else None
    return define.table(
        name,
        define.container(),
        define.text("SUB_DEST"),
        define.text("CLIENT_ID", nullable=False),
        define.text("SUB_NAME", nullable=False),
        define.text("SELECTOR"),
        define.number("LAST_ACKED_ID"),
        define.number("PRIORITY", nullable=False, server_default=text("5")),
        define.text("XID"),
        define.primary_key(*key, name=key_name),
        define.index(name, "XIDX", "xid"),
    )


def _lock(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.key(define.config.long_data_type),
        define.long("TIME"),
        define.text("BROKER_NAME"),
    )


def _acknowledged(define: _Definer, name: str) -> Table:
    adapter, config = define.adapter, define.config
    # The message id is stored as well as ID: if a broker restarts IDs, a new message must not be taken for
    # one that was acknowledged before.
    return define.table(
        name,
        define.own("CONTAINER", adapter.container_name_type, config.container_name_data_type, nullable=False),
        define.own("CLIENT_ID", adapter.string_id_type, config.string_id_data_type, nullable=False),
        define.own("SUB_NAME", adapter.string_id_type, config.string_id_data_type, nullable=False),
        define.number("ID", nullable=False),
        define.own("MSGID_PROD", adapter.msg_id_type, config.msg_id_data_type),
        define.number("MSGID_SEQ"),
        define.text("XID"),
        define.primary_key("container", "client_id", "sub_name", "id"),
        define.index(name, "XIDX", "xid"),
    )


def _state(define: _Definer, name: str) -> Table:
    return define.table(name, define.text("NAME", primary_key=True), define.number("NUMBER", nullable=False))


def _version(define: _Definer, name: str) -> Table:
    # As Alembic creates it.
    return define.table(
        name,
        Column("version_num", String(32), nullable=False),
        PrimaryKeyConstraint("version_num", name=define.name(f"{name}_pkc")),
    )


def container_index(tables: Tables) -> Index:
    """The index on CONTAINER, by which a destination's messages are found."""
    [index] = [i for i in tables.messages.indexes if [c.key for c in i.columns] == ["container"]]
    return index
