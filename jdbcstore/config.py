"""Configuration: frozen values, checked when made, under ActiveMQ's own property names."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from jdbcstore.errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_MAX_NAME = 40
"""Leaves room for the longest index suffix within the 63 characters of PostgreSQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """How a :class:`~jdbcstore.store.JdbcStore` works on its tables.

    The defaults are ActiveMQ's, except where those lose messages or starve writers; the operations
    guide lists the differences. Durations are seconds.

    :raises ConfigurationError: a value that cannot work, or a table name that is no plain identifier
    """

    table_prefix: str = ""
    message_table_name: str = "ACTIVEMQ_MSGS"
    durable_sub_acks_table_name: str = "ACTIVEMQ_ACKS"
    lock_table_name: str = "ACTIVEMQ_LOCK"
    create_tables_on_startup: bool = True

    enable_audit: bool = False
    max_producers_to_audit: int = 1024
    max_audit_depth: int = 1000
    audit_recovery_depth: int = 1024

    cleanup_period: float = 300.0
    """Seconds between cleanups in the background; 0 leaves them to :meth:`Store.cleanup`."""

    reconnect_timeout: float = 10.0
    """How long a write waits for a lost database before it fails."""

    max_pending_count: int = 10_000
    max_pending_bytes: int = 64 * 1024 * 1024
    """Work waiting to be written; beyond either bound, callers wait."""

    pool_size: int = 5
    """Connections for reading; the writer has one more."""

    def __post_init__(self) -> None:
        for option in ("message_table_name", "durable_sub_acks_table_name", "lock_table_name"):
            _check_name(option, self.table_prefix + getattr(self, option))
        positive = (
            "max_producers_to_audit",
            "max_audit_depth",
            "max_pending_count",
            "max_pending_bytes",
            "pool_size",
        )
        for option in positive:
            if getattr(self, option) < 1:
                raise ConfigurationError(f"{option} must be at least 1, not {getattr(self, option)}")
        for option in ("cleanup_period", "reconnect_timeout", "audit_recovery_depth"):
            if not 0 <= getattr(self, option) < math.inf:
                raise ConfigurationError(f"{option} must be 0 or a number above, not {getattr(self, option)}")

    def replace(self, **changes: Any) -> Self:
        """A copy with other values; an unknown option is a :class:`ConfigurationError`."""
        _check_options(changes)
        return replace(self, **changes)


def load_config(path: Path) -> tuple[str | None, StoreConfig]:
    """The URL (if given) and options of a TOML file: ``url`` and the fields of :class:`StoreConfig`."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
    url = data.pop("url", None)
    if url is not None and not isinstance(url, str):
        raise ConfigurationError(f"url in {path} must be a string")
    _check_options(data)
    return url, StoreConfig(**data)


def _check_options(options: Mapping[str, object]) -> None:
    known = {field.name: field.default for field in fields(StoreConfig)}
    for option, value in options.items():
        if option not in known:
            raise ConfigurationError(f"unknown option {option!r}; the options are {', '.join(known)}")
        default = known[option]
        wanted = (int, float) if isinstance(default, float) else (type(default),)
        if not isinstance(value, wanted) or isinstance(value, bool) != isinstance(default, bool):
            raise ConfigurationError(
                f"{option} must be of type {type(default).__name__}, not {type(value).__name__}"
            )


def _check_name(option: str, name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise ConfigurationError(
            f"table_prefix + {option} gives {name!r}; use a letter or underscore, then letters,"
            f" digits, underscores or $, at most {_MAX_NAME} characters"
        )
