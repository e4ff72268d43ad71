"""What a broker does when its store fails: ActiveMQ's two I/O exception handlers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jdbcstore.config.fields import check, option


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultIOExceptionHandlerConfig:
    """Leaves a failure of the database to the client that it happened to."""

    type: ClassVar[str] = "default"

    ignore_all_errors: bool = False
    """Whether every failure is left to the client."""
    ignore_no_space_errors: bool = True
    """Whether one is that has ``no_space_message`` in it."""
    no_space_message: str = "space"
    ignore_sql_exceptions: bool = True
    """Whether one is whose cause is the database driver's, with ``sql_exception_message`` in it."""
    sql_exception_message: str = ""
    """Nothing stands for every message."""
    stop_start_connectors: bool = False
    """Whether the connectors are stopped until the store answers; else the broker is."""
    resume_check_sleep_period: float = option(5.0, at_least=0, milliseconds=True)
    """The longest time between two looks whether it does."""
    system_exit_on_shutdown: bool = False
    """Whether the process is to end when the broker is stopped."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLockerIOExceptionHandlerConfig(DefaultIOExceptionHandlerConfig):
    """Stops the connectors while the database is away, for as long as the lock is still ours."""

    type: ClassVar[str] = "lease-locker"

    ignore_sql_exceptions: bool = False
    stop_start_connectors: bool = True


IOExceptionHandlerConfig = DefaultIOExceptionHandlerConfig | LeaseLockerIOExceptionHandlerConfig
