"""The options of lockers, which elect the master, and of its reaction to a failure of the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.fields import Options, check, option
from jdbcstore.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Locker(Options):
    """The options of every locker: attributes of the same name in camelCase of ActiveMQ's lockers.

    Durations are seconds.
    """

    lock_acquire_sleep_interval: float = option(10.0, at_least=0, milliseconds=True)
    """Seconds between a slave's attempts to acquire the lock."""
    lock_keep_alive_period: float = option(30.0, at_least=0, milliseconds=True)
    """Seconds between the master's checks that it still holds the lock."""
    stop_on_error: bool = False
    """Whether an error of a check ends the mastership; otherwise the check is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DatabaseLocker(_Locker):
    """The options of a locker in a database."""

    create_tables_on_startup: bool = False
    """Whether the locker creates its table."""
    query_timeout: float | None = option(None, at_least=0)
    """Seconds that a statement of the locker may take; None means unlimited."""
    data_source: DataSourceConfig | None = None
    """The database of the lock; None uses the messages' database. ActiveMQ's ``dataSource``, or
    ``lockDataSource`` of the persistence adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLockerConfig(_DatabaseLocker):
    """ActiveMQ's ``database-locker``: a row lock on ACTIVEMQ_LOCK, in a transaction that stays open."""

    type: ClassVar[str] = "database-locker"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseDatabaseLockerConfig(_DatabaseLocker):
    """ActiveMQ's ``lease-database-locker``: a holder and an expiry in ACTIVEMQ_LOCK, which the master renews.

    ``lock_acquire_sleep_interval`` is also the duration of the lease.

    :raises ConfigurationError: the lease would expire before it is renewed
    """

    type: ClassVar[str] = "lease-database-locker"

    lock_keep_alive_period: float = option(5.0, at_least=0, milliseconds=True)
    """Seconds between renewals. With ActiveMQ's default, 30, each lease of 10 seconds would expire."""
    lease_holder_id: str | None = None
    """The name of the holder; None is the name of the broker."""
    max_allowable_diff_from_db_time: float = option(0.0, at_least=0, milliseconds=True)
    """Seconds by which this clock may differ from the database's; 0 assumes that they agree."""
    handle_start_exception: bool = False
    """Whether an error of the first attempt is raised; otherwise the attempt is repeated."""

    def __post_init__(self) -> None:
        check(self)
        if self.lock_keep_alive_period >= self.lock_acquire_sleep_interval:
            raise ConfigurationError(
                f"lock_keep_alive_period is {self.lock_keep_alive_period:g} seconds, but a lease lasts"
                f" {self.lock_acquire_sleep_interval:g}, the lock_acquire_sleep_interval; renew it"
                " several times before it expires",
                option="lock_keep_alive_period",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFileLockerConfig(_Locker):
    """ActiveMQ's ``shared-file-locker``: a lock on a file in a directory that all brokers reach."""

    type: ClassVar[str] = "shared-file-locker"

    directory: str | None = None
    """The directory of the file ``lock``; None uses the store's."""
    fail_if_locked: bool = False
    """Whether to fail if another process holds the lock; otherwise wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperLockerConfig(_Locker):
    """A lock in ZooKeeper; in ActiveMQ, that of its replicated LevelDB store.

    :raises ConfigurationError: the lock would be lost before it is checked
    """

    type: ClassVar[str] = "zookeeper-locker"

    address: str | None = None
    """The servers: ``host:2181``, several separated by commas. Required."""
    path: str = "/jdbcstore"
    """The node below which the brokers of one store queue up; each store needs its own."""
    user: str = "jdbcstore"
    """The user, if there is a password. Other users then cannot use the path."""
    password_env: str | None = None
    """The environment variable with the password; None uses none."""
    password: str | None = option(None, secret=True)
    """The password itself, in place of ``password_env``; ``replicatedLevelDB``'s ``zkPassword``."""
    session_timeout: float = option(10.0, at_least=0.1, milliseconds=True)
    """Seconds after which the servers give the lock of a silent broker to the next one."""
    fail_if_locked: bool = False
    """Whether to fail if another process holds the lock; otherwise wait."""
    lock_keep_alive_period: float = option(2.0, at_least=0, milliseconds=True)
    """Seconds between the master's checks that it still holds the lock."""

    def __post_init__(self) -> None:
        check(self)
        _check_in_time(self.lock_keep_alive_period, self.session_timeout)
        if not self.path.startswith("/") or self.path.endswith("/") or "//" in self.path:
            raise ConfigurationError(
                f"{self.path!r} is not a path of ZooKeeper: give one such as /brokers/orders", option="path"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLockerConfig(_Locker):
    """A lock on the servers of the journal's stream: a key that expires. Not in ActiveMQ.

    :raises ConfigurationError: the lock would be lost before it is checked
    """

    type: ClassVar[str] = "stream-locker"

    session_timeout: float = option(10.0, at_least=0.5, milliseconds=True)
    """Seconds after which the servers release the lock of a silent broker. The first broker that uses
    the lock sets it for all."""
    fail_if_locked: bool = False
    """Whether to fail if another process holds the lock; otherwise wait."""
    lock_keep_alive_period: float = option(2.0, at_least=0, milliseconds=True)
    """Seconds between the master's renewals of the lock."""

    def __post_init__(self) -> None:
        check(self)
        _check_in_time(self.lock_keep_alive_period, self.session_timeout)


def _check_in_time(period: float, timeout: float) -> None:
    if not 0 < period < timeout / 2:
        raise ConfigurationError(
            f"lock_keep_alive_period is {period:g} seconds, but the lock is lost {timeout:g} seconds after"
            " the last check, the session_timeout; check more than twice in that time",
            option="lock_keep_alive_period",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomLockerConfig(_Locker):
    """A locker of your own, derived from :class:`jdbcstore.lockers.AbstractLocker`; not in ActiveMQ.

    :raises ConfigurationError: there is no ``locker_class``
    """

    type: ClassVar[str] = "custom"

    locker_class: str | None = None
    """``package.module:Class``, or the name of an entry point in the group ``jdbcstore.lockers``."""
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Further arguments of its constructor; none by default."""
    fail_if_locked: bool = False
    """Whether to fail if another process holds the lock; otherwise wait."""
    lock_keep_alive_period: float = option(5.0, at_least=0, milliseconds=True)
    """Seconds between the master's checks that it still holds the lock."""

    def __post_init__(self) -> None:
        check(self)
        if self.locker_class is None:
            raise ConfigurationError(
                "a custom locker needs a locker_class; give package.module:Class", option="locker_class"
            )


LockerConfig = (
    DatabaseLockerConfig
    | LeaseDatabaseLockerConfig
    | SharedFileLockerConfig
    | ZooKeeperLockerConfig
    | StreamLockerConfig
    | CustomLockerConfig
)
"""One of ActiveMQ's lockers, ZooKeeper's, the stream's, or one of your own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultIOExceptionHandlerConfig(Options):
    """ActiveMQ's ``defaultIOExceptionHandler``: reports a failure of the database to the client.

    Options are its attributes of the same name in camelCase; durations are seconds.
    """

    type: ClassVar[str] = "default"

    ignore_all_errors: bool = False
    """Whether every failure is only reported to the client."""
    ignore_no_space_errors: bool = True
    """Whether a failure is only reported to the client if it is StorageFull, or an error of the driver or the
    system behind it, whose text contains ``no_space_message``."""
    no_space_message: str = "space"
    """The text by which a full disk is recognised."""
    ignore_sql_exceptions: bool = True
    """Whether a failure of the driver with ``sql_exception_message`` in its text is only reported."""
    sql_exception_message: str = ""
    """The text by which an ignored failure of the driver is recognised; "" is any."""
    stop_start_connectors: bool = False
    """Whether other failures stop the connectors until the store answers; else they stop the broker."""
    resume_check_sleep_period: float = option(5.0, at_least=0, milliseconds=True)
    """Maximum seconds between attempts to reach the store."""
    system_exit_on_shutdown: bool = False
    """Whether the process exits when the broker is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLockerIOExceptionHandlerConfig(DefaultIOExceptionHandlerConfig):
    """ActiveMQ's ``leaseLockerIOExceptionHandler``: stops the connectors while the database does not
    answer, for as long as this broker holds the lock."""

    type: ClassVar[str] = "lease-locker"

    ignore_sql_exceptions: bool = False
    """As in the default handler, but off."""
    stop_start_connectors: bool = True
    """As in the default handler, but on."""


IOExceptionHandlerConfig = DefaultIOExceptionHandlerConfig | LeaseLockerIOExceptionHandlerConfig
"""One of ActiveMQ's handlers of failures of the store."""
