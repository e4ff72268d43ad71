"""The options of a store in a database: tables, column types, SQL, writing and reading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from jdbcstore.config.fields import Options, check, convert, find_field, is_camel, option, unknown
from jdbcstore.config.statements import StatementValue, normalise
from jdbcstore.errors import ConfigurationError

NAME_LENGTH = 250
"""Characters that a name column holds where no type is configured."""
_UNBOUNDED = 65_535
"""Characters of a type without a length; no name can have more in a MSG column."""
_MAX_NAME = 40
"""Leaves room for the longest index suffix within the 63 characters of PostgreSQL."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_ ]*(\([A-Za-z0-9_, ]+\)[A-Za-z0-9_ ]*)?")
_LENGTH = re.compile(r"\( *(\d+)")
_NAMES = ("table_prefix", "message_table_name", "durable_sub_acks_table_name", "lock_table_name")
_TYPES = (
    "binary_data_type",
    "container_name_data_type",
    "msg_id_data_type",
    "sequence_data_type",
    "long_data_type",
    "string_id_data_type",
)
NAMES_AND_TYPES = (*_NAMES, *_TYPES)
"""The options of which the tables are made."""


@dataclass(frozen=True, slots=True)
class NameLengths:
    """The number of characters that the name columns hold."""

    container: int = NAME_LENGTH
    """CONTAINER: a destination with its prefix."""
    message_id: int = NAME_LENGTH
    """MSGID_PROD: the producer's part of a message id."""
    string_id: int = NAME_LENGTH
    """CLIENT_ID, SUB_NAME, SELECTOR and SUB_DEST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig(Options):
    """The options of a :class:`~jdbcstore.stores.jdbc.store.JdbcStore`.

    Durations are seconds, sizes bytes. The options up to ``statements`` are attributes of ActiveMQ's
    ``statements`` element, those of tables, audit, cleanup and timeouts attributes of
    ``jdbcPersistenceAdapter``: each in camelCase. The defaults are ActiveMQ's, except where those lose
    messages or starve writers; docs/guide/activemq-xml.md lists the differences.

    :raises ConfigurationError: a value that cannot work, or a table name that is not a plain identifier
    """

    table_prefix: str = ""
    """The prefix of each table name, including the store's own tables."""
    message_table_name: str = "ACTIVEMQ_MSGS"
    """The table of messages. Table names are plain identifiers of at most 40 characters with the prefix."""
    durable_sub_acks_table_name: str = "ACTIVEMQ_ACKS"
    """The table of durable subscriptions and their acknowledgements."""
    lock_table_name: str = "ACTIVEMQ_LOCK"
    """The table of the lock."""
    binary_data_type: str | None = None
    """The column type of MSG. For this and the next five options, None uses the vendor's type."""
    container_name_data_type: str | None = None
    """The column type of CONTAINER. Names that do not fit it are rejected."""
    msg_id_data_type: str | None = None
    """The column type of MSGID_PROD."""
    sequence_data_type: str | None = None
    """The column type of the messages' ID, and of MSGID_SEQ, LAST_ACKED_ID and PRIORITY."""
    long_data_type: str | None = None
    """The column type of EXPIRATION, and of the lock's ID and TIME."""
    string_id_data_type: str | None = None
    """The column type of SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, XID and BROKER_NAME."""
    statements: Mapping[str, StatementValue] = field(default_factory=dict, hash=False)
    """SQL that replaces the store's own, by ActiveMQ's property name in either spelling; none by
    default.

    The section may also contain the table names and column types above, as in ActiveMQ.
    """

    adapter: str | None = None
    """The adapter; None chooses it by the URL. ActiveMQ's ``adapter``."""
    create_tables_on_startup: bool = True
    """Whether to create missing tables; otherwise they are a :class:`SchemaError`."""
    enable_audit: bool = False
    """Whether duplicates are recognised by their message ID and not stored again."""
    max_producers_to_audit: int = option(1024, at_least=1)
    """Number of producers whose message IDs the audit remembers."""
    max_audit_depth: int = option(1000, at_least=1)
    """Number of message IDs of each producer that the audit remembers."""
    audit_recovery_depth: int = option(1024, at_least=0)
    """Number of newest messages whose IDs the audit reads when the store opens."""
    cleanup_period: float = option(300.0, at_least=0, milliseconds=True, negative_is_off=True)
    """Seconds between cleanups in the background; 0 leaves cleanup to :meth:`Store.cleanup`."""
    history_retention: float = option(0.0, at_least=0, negative_is_off=True)
    """Seconds for which a record of each removed message is kept; 0 records none. Not in ActiveMQ."""
    outbox: bool = False
    """Whether messages that SQL statements insert into JDBCSTORE_OUTBOX are moved to their destinations. Not
    in ActiveMQ."""
    outbox_destinations: str = ""
    """The destinations of these messages, separated by commas, with wildcards; others become dead letters.
    By default all. Not in ActiveMQ."""
    network_timeout: float = option(60.0, at_least=0, milliseconds=True, negative_is_off=True)
    """Seconds without an answer to a statement after which the connection is abandoned; 0 waits
    forever."""
    query_timeout: float = option(0.0, at_least=0, negative_is_off=True)
    """Seconds that the database may work on a statement, where the server can limit it; 0 means
    unlimited."""

    reconnect_timeout: float = option(10.0, at_least=0)
    """Seconds that a write waits for a lost database before it fails. Not in ActiveMQ."""
    max_pending_count: int = option(10_000, at_least=1)
    """Maximum number of pending writes; beyond it callers wait. Not in ActiveMQ."""
    max_pending_bytes: int = option(64 * 1024 * 1024, at_least=1, size=True)
    """Maximum bytes of pending writes; beyond it callers wait. Not in ActiveMQ."""
    pool_size: int = option(5, at_least=1)
    """Connections for reading; the writer has one more. One less than a DataSource's ``maxTotal``."""

    def __post_init__(self) -> None:
        check(self)
        self._normalise_statements()
        for name in _NAMES[1:]:
            _check_name(name, self.table_prefix + getattr(self, name))
        for name in _TYPES:
            if getattr(self, name) is not None:
                _check_type(name, getattr(self, name))

    def _normalise_statements(self) -> None:
        defaults = {known.name: known.default for known in fields(self)}
        statements, lifted = normalise(self.statements, NAMES_AND_TYPES)
        for name, value in lifted.items():
            if getattr(self, name) not in (defaults[name], value):
                raise ConfigurationError(
                    f"{name} is {getattr(self, name)!r}, and in statements {value!r}; give one of them"
                )
            object.__setattr__(self, name, value)
        object.__setattr__(self, "statements", MappingProxyType(statements))

    @property
    def name_lengths(self) -> NameLengths:
        """The longest names that the configured column types hold."""
        return NameLengths(
            length_of(self.container_name_data_type),
            length_of(self.msg_id_data_type),
            length_of(self.string_id_data_type),
        )

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values, each under our name or ActiveMQ's (and then in ActiveMQ's unit).

        :raises ConfigurationError: an unknown option, or a value that cannot work
        """
        values = {}
        for name, value in changes.items():
            known = find_field(type(self), name)
            if known is None:
                raise ConfigurationError(unknown("option", name, [field.name for field in fields(self)]))
            values[known.name] = convert(type(self), known, value, activemq_units=is_camel(name))
        return replace(self, **values)


def length_of(column_type: str | None) -> int:
    """Return the number of characters that a column type holds; None is the default type of a name."""
    if column_type is None:
        return NAME_LENGTH
    match = _LENGTH.search(column_type)
    return int(match[1]) if match else _UNBOUNDED


def _check_type(option_name: str, text: str) -> None:
    # It is written into CREATE TABLE, so it must not contain anything else.
    if not _TYPE.fullmatch(text):
        raise ConfigurationError(
            f"{option_name} must be a column type such as VARCHAR(128) or NUMBER(19, 0), of letters, digits,"
            f" blanks, commas and one pair of parentheses, not {text!r}",
            option=option_name,
        )


def _check_name(option_name: str, name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise ConfigurationError(
            f"table_prefix + {option_name} gives {name!r}; use a letter or underscore, then letters,"
            f" digits, underscores or $, at most {_MAX_NAME} characters",
            option=option_name,
        )
