"""A store's options: frozen, checked when made, under ActiveMQ's own property names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from jdbcstore.config.fields import check, convert, find_field, is_camel, option, unknown
from jdbcstore.config.statements import StatementValue, normalise
from jdbcstore.config.types import NameLengths, check_type, length_of
from jdbcstore.errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_MAX_NAME = 40
"""Leaves room for the longest index suffix within the 63 characters of PostgreSQL."""
_NAMES = ("table_prefix", "message_table_name", "durable_sub_acks_table_name", "lock_table_name")
_TYPES = (
    "binary_data_type",
    "container_name_data_type",
    "msg_id_data_type",
    "sequence_data_type",
    "long_data_type",
    "string_id_data_type",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """How a :class:`~jdbcstore.stores.jdbc.store.JdbcStore` works on its tables.

    The defaults are ActiveMQ's, except where those lose messages or starve writers; the operations
    guide lists the differences. Durations are seconds.

    :raises ConfigurationError: a value that cannot work, or a table name that is no plain identifier
    """

    table_prefix: str = ""
    message_table_name: str = "ACTIVEMQ_MSGS"
    durable_sub_acks_table_name: str = "ACTIVEMQ_ACKS"
    lock_table_name: str = "ACTIVEMQ_LOCK"

    binary_data_type: str | None = None
    """The column type of MSG; like the types below, None is the vendor's own."""
    container_name_data_type: str | None = None
    """Of CONTAINER. Names longer than this type, or those below, holds are refused."""
    msg_id_data_type: str | None = None
    """Of MSGID_PROD."""
    sequence_data_type: str | None = None
    """Of the messages' ID, and of MSGID_SEQ, LAST_ACKED_ID and PRIORITY."""
    long_data_type: str | None = None
    """Of EXPIRATION, and of the lock's ID and TIME."""
    string_id_data_type: str | None = None
    """Of SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, XID and BROKER_NAME."""
    statements: Mapping[str, StatementValue] = field(default_factory=dict, hash=False)
    """SQL in place of the store's own, under ActiveMQ's property names, camelCase or snake_case.

    The names and types above are taken from here as well: in ActiveMQ all are attributes of one element.
    """
    adapter: str | None = None
    """The adapter to use in place of the one that the URL names."""

    create_tables_on_startup: bool = True

    enable_audit: bool = False
    max_producers_to_audit: int = option(1024, at_least=1)
    max_audit_depth: int = option(1000, at_least=1)
    audit_recovery_depth: int = option(1024, at_least=0)

    cleanup_period: float = option(300.0, at_least=0, milliseconds=True, negative_is_off=True)
    """Seconds between cleanups in the background; 0 leaves them to :meth:`Store.cleanup`."""

    reconnect_timeout: float = option(10.0, at_least=0)
    """How long a write waits for a database that it has lost before it fails."""
    network_timeout: float = option(60.0, at_least=0, milliseconds=True, negative_is_off=True)
    """How long the database may leave a statement without an answer before the connection is given up.

    0 waits as long as the network does.
    """
    query_timeout: float = option(0.0, at_least=0, negative_is_off=True)
    """How long the database may work on a statement, where it can be told; 0 is no limit."""

    max_pending_count: int = option(10_000, at_least=1)
    max_pending_bytes: int = option(64 * 1024 * 1024, at_least=1, size=True)
    """Work waiting to be written; beyond either bound, callers wait."""

    pool_size: int = option(5, at_least=1)
    """Connections for reading; the writer has one more."""

    def __post_init__(self) -> None:
        check(self)
        self._take_statements()
        for name in _NAMES[1:]:
            _check_name(name, self.table_prefix + getattr(self, name))
        for name in _TYPES:
            if getattr(self, name) is not None:
                check_type(name, getattr(self, name))

    def _take_statements(self) -> None:
        defaults = {known.name: known.default for known in fields(self)}
        statements, lifted = normalise(self.statements, (*_NAMES, *_TYPES))
        for name, value in lifted.items():
            if getattr(self, name) not in (defaults[name], value):
                raise ConfigurationError(
                    f"{name} is {getattr(self, name)!r}, and in statements {value!r}; give one of them"
                )
            object.__setattr__(self, name, value)
        object.__setattr__(self, "statements", MappingProxyType(statements))

    @property
    def name_lengths(self) -> NameLengths:
        """How long names may be, by the configured types."""
        return NameLengths(
            length_of(self.container_name_data_type),
            length_of(self.msg_id_data_type),
            length_of(self.string_id_data_type),
        )

    def replace(self, **changes: Any) -> Self:
        """A copy with other values, each under our name or ActiveMQ's (and then in its unit).

        :raises ConfigurationError: an unknown option, or a value that cannot work
        """
        values = {}
        for name, value in changes.items():
            known = find_field(type(self), name)
            if known is None:
                raise ConfigurationError(unknown("option", name, [one.name for one in fields(self)]))
            values[known.name] = convert(type(self), known, value, theirs=is_camel(name))
        return replace(self, **values)


def _check_name(option_name: str, name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise ConfigurationError(
            f"table_prefix + {option_name} gives {name!r}; use a letter or underscore, then letters,"
            f" digits, underscores or $, at most {_MAX_NAME} characters",
            option=option_name,
        )
