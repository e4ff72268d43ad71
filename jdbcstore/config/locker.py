"""Who may write: ActiveMQ's three lockers, and a user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.fields import check, option
from jdbcstore.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLockerConfig:
    """A row lock on ACTIVEMQ_LOCK, in a transaction that stays open."""

    type: ClassVar[str] = "database-locker"

    lock_acquire_sleep_interval: float = option(10.0, at_least=0, milliseconds=True)
    """Between attempts to take the lock."""
    lock_keep_alive_period: float = option(30.0, at_least=0, milliseconds=True)
    """Between checks that it is still held."""
    stop_on_error: bool = False
    """Whether a check that fails by an error stops the broker."""
    create_tables_on_startup: bool = False
    """Whether the locker makes its own table."""
    query_timeout: float | None = option(None, at_least=0)
    """How long a statement of the locker may take; None is no limit."""
    data_source: DataSourceConfig | None = None
    """Where the lock is; None is the database of the messages."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDatabaseLockerConfig:
    """A name and a time of expiry in ACTIVEMQ_LOCK, which the holder renews."""

    type: ClassVar[str] = "lease-database-locker"

    lock_acquire_sleep_interval: float = option(10.0, at_least=0, milliseconds=True)
    """How long a lease lasts, and how long another broker waits before it tries again."""
    lock_keep_alive_period: float = option(5.0, at_least=0, milliseconds=True)
    """Between renewals. ActiveMQ's default, 30 seconds, would let each lease of 10 seconds expire."""
    lease_holder_id: str | None = None
    """The name of the holder; None is the name of the broker."""
    max_allowable_diff_from_db_time: float = option(0.0, at_least=0, milliseconds=True)
    """How far this clock may be from the database's; 0 takes them for equal."""
    handle_start_exception: bool = False
    """Whether an error of the first attempt is raised, and not tried again."""
    stop_on_error: bool = False
    create_tables_on_startup: bool = False
    query_timeout: float | None = option(None, at_least=0)
    data_source: DataSourceConfig | None = None

    def __post_init__(self) -> None:
        check(self)
        if self.lock_keep_alive_period >= self.lock_acquire_sleep_interval:
            raise ConfigurationError(
                f"lock_keep_alive_period is {self.lock_keep_alive_period:g} seconds, and a lease lasts"
                f" {self.lock_acquire_sleep_interval:g}, the lock_acquire_sleep_interval: renew it"
                " several times before it expires",
                option="lock_keep_alive_period",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFileLockerConfig:
    """A lock on a file in a directory that all brokers see."""

    type: ClassVar[str] = "shared-file-locker"

    directory: str | None = None
    """Where the file ``lock`` is."""
    fail_if_locked: bool = False
    """Whether to fail when another holds the lock, and not to wait."""
    lock_acquire_sleep_interval: float = option(10.0, at_least=0, milliseconds=True)
    lock_keep_alive_period: float = option(30.0, at_least=0, milliseconds=True)
    stop_on_error: bool = False

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomLockerConfig:
    """A class of your own, derived from :class:`jdbcstore.lockers.AbstractLocker`."""

    type: ClassVar[str] = "custom"

    locker_class: str | None = None
    """``package.module:Class``, or the name of an entry point in the group ``jdbcstore.lockers``."""
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What else it is made with."""
    fail_if_locked: bool = False
    lock_acquire_sleep_interval: float = option(10.0, at_least=0, milliseconds=True)
    lock_keep_alive_period: float = option(5.0, at_least=0, milliseconds=True)
    stop_on_error: bool = False

    def __post_init__(self) -> None:
        check(self)
        if self.locker_class is None:
            raise ConfigurationError("a custom locker needs a locker_class", option="locker_class")


LockerConfig = DatabaseLockerConfig | LeaseDatabaseLockerConfig | SharedFileLockerConfig | CustomLockerConfig
