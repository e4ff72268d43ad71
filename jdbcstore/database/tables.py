"""Definitions of ActiveMQ's three tables, as its brokers create them, and of jdbcstore's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Column,
    Identity,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    String,
    Table,
    text,
)
from sqlalchemy.sql import quoted_name
from sqlalchemy.types import TypeEngine

from jdbcstore.config import StoreConfig
from jdbcstore.config.store import NAMES_AND_TYPES
from jdbcstore.database.adapters.base import Adapter, Worded


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables under their configured names; the last are jdbcstore's."""

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
    history: Table
    """Removed messages, for stores that record them; created by the first such store."""
    claims: Table
    """Messages that processes sharing the tables have claimed, delayed or returned; created by the first."""
    claim_sessions: Table
    """The leases of these processes."""
    claim_ids: Sequence
    """The IDs of the messages that they add, where the vendor has sequences."""
    claim_index: Index
    """The index of ACTIVEMQ_MSGS in the order in which they are claimed, for these processes only."""
    flow: Table
    """Limits, rates and pauses of queues that processes share; created once one is set."""
    flow_keys: Table
    """Settings of keys in these queues."""
    keyed: Table
    """The keys of messages in queues that are claimed from by key."""
    inbox: Table
    """The messages that consumers of a broker have processed; created by the first inbox."""
    outbox: Table
    """Messages that SQL statements have inserted, until a store moves them to their destinations."""
    queues: Table
    """Declared queues, for processes that route messages by exchanges; created by the first."""
    exchanges: Table
    bindings: Table
    large: Table
    """Large bodies, and the messages that have them; created by the first store that gets one."""
    pieces: Table
    """The pieces of large bodies."""

    @property
    def all(self) -> tuple[Table, ...]:
        """The tables that a store uses."""
        return (self.messages, self.acks, self.lock, self.acknowledged, self.state)

    @property
    def known(self) -> tuple[Table, ...]:
        """The tables that migrations create."""
        return (*self.all, self.version)

    @property
    def of_flow(self) -> tuple[Table, ...]:
        """The settings of queues and keys, and the keys of messages."""
        return (self.flow, self.flow_keys, self.keyed)

    @property
    def routing(self) -> tuple[Table, ...]:
        """Queues, exchanges and bindings."""
        return (self.queues, self.exchanges, self.bindings)

    @property
    def of_outbox(self) -> tuple[Table, ...]:
        """The outbox, and the send ids of its messages that were moved."""
        return (self.outbox, self.inbox)

    @property
    def of_large(self) -> tuple[Table, ...]:
        """Large bodies and their pieces."""
        return (self.large, self.pieces)

    @property
    def ours(self) -> tuple[Table, ...]:
        return (self.acknowledged, self.state)


def define_tables(adapter: Adapter, config: StoreConfig) -> Tables:
    """Return the tables for a vendor, named so that they are those of an ActiveMQ on that vendor.

    Stores with the same adapter, names and types share the definitions, which take long to make. Nothing
    changes them.
    """
    if not adapter.is_like_its_class:
        return _define(adapter, config)
    kind: Any = type(adapter)
    return _shared(kind, tuple(getattr(config, name) for name in NAMES_AND_TYPES))


@lru_cache(maxsize=32)
def _shared(kind: type[Adapter], values: tuple[Any, ...]) -> Tables:
    return _define(kind(), StoreConfig(**dict(zip(NAMES_AND_TYPES, values, strict=True))))


def _define(adapter: Adapter, config: StoreConfig) -> Tables:
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
        # In a MetaData of its own: migrations neither create it nor miss it.
        history=_history(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_HISTORY"),
        claims=_claims(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_CLAIMS"),
        claim_sessions=_claim_sessions(
            _Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_CLAIM_SESSIONS"
        ),
        claim_ids=Sequence(
            define.name(prefix + "JDBCSTORE_CLAIM_IDS"),
            increment=adapter.sequence_increment,
            metadata=MetaData(),
        ),
        claim_index=_claim_index(_Definer(adapter, MetaData(), config), prefix + config.message_table_name),
        flow=_flow(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_FLOW"),
        flow_keys=_flow_keys(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_FLOW_KEYS"),
        keyed=_keyed(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_KEYED"),
        inbox=_inbox(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_INBOX"),
        outbox=_outbox(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_OUTBOX"),
        queues=_queues(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_QUEUES"),
        exchanges=_exchanges(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_EXCHANGES"),
        bindings=_bindings(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_BINDINGS"),
        large=_large(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_LARGE"),
        pieces=_pieces(_Definer(adapter, MetaData(), config), prefix + "JDBCSTORE_PIECES"),
    )


class _Definer:
    def __init__(self, adapter: Adapter, metadata: MetaData, config: StoreConfig) -> None:
        self.adapter = adapter
        self.metadata = metadata
        self.sequence = _typed(adapter.sequence_type, config.sequence_data_type)
        self.lock_id = _typed(adapter.sequence_type, config.long_data_type)
        self.number = _typed(adapter.long_type, config.sequence_data_type)
        self.time = _typed(adapter.long_type, config.long_data_type)
        self.container = _typed(adapter.container_name_type, config.container_name_data_type)
        self.producer = _typed(adapter.msg_id_type, config.msg_id_data_type)
        self.string = _typed(adapter.string_id_type, config.string_id_data_type)
        self.binary = _typed(adapter.binary_type, config.binary_data_type)

    def own(self, type_: TypeEngine[Any]) -> TypeEngine[Any]:
        """Return the type of a name in jdbcstore's own tables."""
        return type_ if isinstance(type_, Worded) else self.adapter.own_name_type or type_

    def name(self, name: str) -> quoted_name:
        folded = name if self.adapter.fold_upper else name.lower()
        return quoted_name(folded, quote=self.adapter.quotes_names)

    def column(self, name: str, type_: TypeEngine[Any], **options: Any) -> Column[Any]:
        # The key is the lower-case name on every vendor, however it spells the column's name.
        return Column(self.name(name), type_, key=name.lower(), autoincrement=False, **options)

    def table(self, name: str, *parts: Any, **options: Any) -> Table:
        return Table(self.name(name), self.metadata, *parts, **self.adapter.table_options, **options)

    def primary_key(self, *columns: str, name: quoted_name | None = None) -> PrimaryKeyConstraint:
        return PrimaryKeyConstraint(*columns, name=name, **self.adapter.key_options)

    def index(self, table: str, suffix: str, *columns: str) -> Index:
        return Index(self.name(f"{table}_{suffix}"), *columns)


def _typed(base: TypeEngine[Any], worded: str | None) -> TypeEngine[Any]:
    return Worded(base, worded) if worded else base


def _messages(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.column("ID", define.sequence, primary_key=True),
        define.column("CONTAINER", define.container, nullable=False),
        define.column("MSGID_PROD", define.producer),
        define.column("MSGID_SEQ", define.number),
        define.column("EXPIRATION", define.time),
        define.column("MSG", define.binary),
        define.column("PRIORITY", define.number),
        define.column("XID", define.string),
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
        define.column("CONTAINER", define.container, nullable=False),
        define.column("SUB_DEST", define.string),
        define.column("CLIENT_ID", define.string, nullable=False),
        define.column("SUB_NAME", define.string, nullable=False),
        define.column("SELECTOR", define.string),
        define.column("LAST_ACKED_ID", define.number),
        define.column("PRIORITY", define.number, nullable=False, server_default=text("5")),
        define.column("XID", define.string),
        define.primary_key(*key, name=key_name),
        define.index(name, "XIDX", "xid"),
    )


def _lock(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.column("ID", define.lock_id, primary_key=True),
        define.column("TIME", define.time),
        define.column("BROKER_NAME", define.string),
    )


def _acknowledged(define: _Definer, name: str) -> Table:
    # The message id is stored as well as ID: if a broker restarts IDs, a new message must not be taken for
    # an acknowledged one.
    return define.table(
        name,
        define.column("CONTAINER", define.own(define.container), nullable=False),
        define.column("CLIENT_ID", define.own(define.string), nullable=False),
        define.column("SUB_NAME", define.own(define.string), nullable=False),
        define.column("ID", define.number, nullable=False),
        define.column("MSGID_PROD", define.own(define.producer)),
        define.column("MSGID_SEQ", define.number),
        define.column("XID", define.string),
        define.primary_key("container", "client_id", "sub_name", "id"),
        define.index(name, "XIDX", "xid"),
    )


def _state(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.column("NAME", define.string, primary_key=True),
        define.column("NUMBER", define.number, nullable=False),
    )


def _version(define: _Definer, name: str) -> Table:
    # As Alembic creates it.
    return define.table(
        name,
        Column("version_num", String(32), nullable=False),
        PrimaryKeyConstraint("version_num", name=define.name(f"{name}_pkc")),
    )


def _history(define: _Definer, name: str) -> Table:
    # In the order of time, in which rows are added and deleted. An ActiveMQ may use an ID again.
    return define.table(
        name,
        define.column("REMOVED", define.time, nullable=False),
        define.column("ID", define.number, nullable=False),
        define.column("CONTAINER", define.own(define.container), nullable=False),
        define.column("MSGID_PROD", define.own(define.producer)),
        define.column("MSGID_SEQ", define.number),
        define.column("OUTCOME", define.string, nullable=False),
        define.column("PRODUCED", define.time),
        define.column("JMS_PRIORITY", define.number),
        define.column("MSG_SIZE", define.number),
        define.column("REDELIVERIES", define.number),
        define.column("REASON", define.string),
        define.primary_key("removed", "id"),
    )


def _claims(define: _Definer, name: str) -> Table:
    # A message that was never claimed, delayed or returned has no row. TAKEN counts the claims, so that of
    # two that find a message free at the same time, one is late. No foreign key: ActiveMQ removes messages.
    return define.table(
        name,
        define.column("ID", define.sequence, primary_key=True),
        define.column("SESSION", define.number),
        define.column("DUE", define.time, nullable=False),
        define.column("TAKEN", define.number, nullable=False),
        define.column("FAILED", define.number, nullable=False),
        define.index(name, "SIDX", "session"),
    )


def _claim_sessions(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.column("ID", define.sequence, primary_key=True),
        define.column("NAME", define.string, nullable=False),
        define.column("EXPIRES", define.time, nullable=False),
    )


def _claim_index(define: _Definer, messages: str) -> Index:
    # On a copy of the table: no store, migration or ActiveMQ misses it.
    copied = define.table(
        messages,
        define.column("ID", define.sequence, primary_key=True),
        define.column("CONTAINER", define.container, nullable=False),
        define.column("PRIORITY", define.number),
        define.index(messages, "QIDX", "container", "priority", "id"),
    )
    [index] = copied.indexes
    return index


def _flow(define: _Definer, name: str) -> Table:
    # RATE is in claims per million seconds, DRAWN in nanoseconds: integers, of which none is rounded.
    return define.table(
        name,
        define.column("CONTAINER", define.own(define.container), primary_key=True),
        define.column("PAUSED", define.number, nullable=False),
        define.column("MOST", define.number),
        define.column("RATE", define.number),
        define.column("BURST", define.number),
        define.column("DRAWN", define.number, nullable=False),
        define.column("KEYING", define.number, nullable=False),
        define.column("KEY_MOST", define.number),
        define.column("KEY_RATE", define.number),
        define.column("KEY_BURST", define.number),
        define.column("LAST_KEY", define.own(define.container)),
        define.column("CREDIT", define.number, nullable=False),
    )


def _flow_keys(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.column("CONTAINER", define.own(define.container), nullable=False),
        define.column("NAME", define.own(define.container), nullable=False),
        define.column("PAUSED", define.number, nullable=False),
        define.column("MOST", define.number),
        define.column("WEIGHT", define.number, nullable=False),
        define.column("RATE", define.number),
        define.column("BURST", define.number),
        define.column("DRAWN", define.number, nullable=False),
        define.primary_key("container", "name"),
    )


def _keyed(define: _Definer, name: str) -> Table:
    # LANE is 9 less the priority, so that an index in one direction has the order of claims.
    return define.table(
        name,
        define.column("ID", define.number, nullable=False),
        define.column("CONTAINER", define.own(define.container), nullable=False),
        define.column("NAME", define.own(define.container), nullable=False),
        define.column("LANE", define.number, nullable=False),
        define.primary_key("id", "container"),
        define.index(name, "NIDX", "container", "name", "lane", "id"),
    )


def _inbox(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.column("CONSUMER", define.own(define.container), nullable=False),
        define.column("MSGID", define.own(define.container), nullable=False),
        define.column("PROCESSED", define.time, nullable=False),
        define.primary_key("consumer", "msgid"),
        define.index(name, "PIDX", "consumer", "processed"),
    )


def _outbox(define: _Definer, name: str) -> Table:
    # An INSERT needs only DESTINATION. An ID is never used again: it identifies a row to movers.
    adapter, short = define.adapter, define.own(define.string)
    return define.table(
        name,
        Column(define.name("ID"), adapter.counter_type, Identity(), key="id", primary_key=True),
        define.column("DESTINATION", define.own(define.container), nullable=False),
        define.column("BODY", adapter.text_type),
        define.column("BODY_BYTES", define.binary),
        define.column("BODY_TYPE", short),
        define.column("PROPERTIES", adapter.text_type),
        define.column("PRIORITY", define.number),
        define.column("PERSISTENT", define.number),
        define.column("DELAY", define.number),
        define.column("EXPIRES", define.time),
        define.column("CORRELATION_ID", short),
        define.column("REPLY_TO", define.own(define.container)),
        define.column("JMS_TYPE", short),
        define.column("GROUP_ID", short),
        define.column("SEND_ID", define.own(define.container)),
        define.column("CREATED", define.time, server_default=text(f"({adapter.now_ms})")),
        define.column("ERROR", short),
        sqlite_autoincrement=True,
    )


def _queues(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.column("NAME", define.own(define.container), primary_key=True),
        define.column("MESSAGE_TTL", define.time),
        define.column("EXPIRES", define.time),
        define.column("UNUSED_UNTIL", define.time),
    )


def _exchanges(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.column("NAME", define.own(define.container), primary_key=True),
        define.column("KIND", define.own(define.string), nullable=False),
    )


def _bindings(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.column("EXCHANGE", define.own(define.container), nullable=False),
        define.column("QUEUE", define.own(define.container), nullable=False),
        define.column("ROUTING_KEY", define.own(define.container), nullable=False),
        define.primary_key("exchange", "queue", "routing_key"),
        define.index(name, "QIDX", "queue"),
    )


def _large(define: _Definer, name: str) -> Table:
    # A body has one row with MSG_ID 0, whose TOUCHED counts the messages that ever got it and is -1 once it
    # is being removed; and one for each ID in ACTIVEMQ_MSGS. No foreign key: ActiveMQ removes messages.
    return define.table(
        name,
        define.column("ID", define.number, nullable=False),
        define.column("MSG_ID", define.number, nullable=False),
        define.column("TOUCHED", define.number, nullable=False),
        define.column("BEGUN", define.time, nullable=False),
        define.primary_key("id", "msg_id"),
        define.index(name, "MIDX", "msg_id"),
    )


def _pieces(define: _Definer, name: str) -> Table:
    return define.table(
        name,
        define.column("ID", define.number, nullable=False),
        define.column("PIECE", define.number, nullable=False),
        define.column("DATA", define.binary, nullable=False),
        define.primary_key("id", "piece"),
    )


PAGE_INDEXES = ("container", "expiration", "priority")
"""The columns whose indexes find the messages of a page; see :func:`message_index`."""


def message_index(tables: Tables, column: str) -> Index:
    """Return the index of the messages on this column alone."""
    [index] = [i for i in tables.messages.indexes if [c.key for c in i.columns] == [column]]
    return index
