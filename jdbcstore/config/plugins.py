"""The plug-ins of ActiveMQ that the broker obeys, each with ActiveMQ's options and defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from jdbcstore.config.fields import Options, check, option
from jdbcstore.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcePersistencyModeConfig(Options):
    """ActiveMQ's ``forcePersistencyModeBrokerPlugin``: all messages are persistent, or none is."""

    type: ClassVar[str] = "forcePersistencyModeBrokerPlugin"

    persistence_flag: bool = False
    """Whether each message becomes persistent; otherwise each becomes non-persistent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeStampingConfig(Options):
    """ActiveMQ's ``timeStampingBrokerPlugin``: messages get the time of the broker; durations are seconds."""

    type: ClassVar[str] = "timeStampingBrokerPlugin"

    zero_expiration_override: float = option(0.0, at_least=0, milliseconds=True, negative_is_off=True)
    """Seconds to live for messages without an expiration; 0 leaves them alone."""
    ttl_ceiling: float = option(0.0, at_least=0, milliseconds=True, negative_is_off=True)
    """Maximum seconds to live; 0 means unlimited."""
    future_only: bool = False
    """Whether a message keeps its time and expiration if it would otherwise expire earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardingDeadLettersConfig(Options):
    """ActiveMQ's ``discardingDLQBrokerPlugin``: dead letters are dropped.

    :raises ConfigurationError: a pattern of ``drop_only`` is not a regular expression
    """

    type: ClassVar[str] = "discardingDLQBrokerPlugin"

    drop_all: bool = True
    """Whether all dead letters are dropped, regardless of the other options."""
    drop_temporary_queues: bool = True
    """Whether dead letters of temporary queues are dropped."""
    drop_temporary_topics: bool = True
    """Whether dead letters of temporary topics are dropped."""
    drop_only: str | None = None
    """Regular expressions, separated by spaces, for the names of destinations whose dead letters are
    dropped."""
    report_interval: int = option(1000)
    """Dropped messages between lines in the log; 0 or less turns them off."""

    def __post_init__(self) -> None:
        check(self)
        _ = self.patterns

    @property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """The regular expressions of ``drop_only``.

        :raises ConfigurationError: one of them is none
        """
        try:
            return tuple(re.compile(part) for part in (self.drop_only or "").split())
        except re.error as error:
            raise ConfigurationError(
                f"drop_only has {self.drop_only!r}, which is not a regular expression: {error}; correct it",
                option="drop_only",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsConfig(Options):
    """ActiveMQ's ``statisticsBrokerPlugin``: answers messages to ``ActiveMQ.Statistics.…`` with counters."""

    type: ClassVar[str] = "statisticsBrokerPlugin"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingConfig(Options):
    """ActiveMQ's ``loggingBrokerPlugin``: the log has a line for each event of these kinds."""

    type: ClassVar[str] = "loggingBrokerPlugin"

    log_all: bool = False
    """Whether all events are logged, regardless of the other options."""
    log_connection_events: bool = True
    """Whether the start and end of connections are logged."""
    log_producer_events: bool = False
    """Whether producers and sent messages are logged."""
    log_consumer_events: bool = False
    """Whether consumers and acknowledgements are logged."""
    log_transaction_events: bool = False
    """Whether the start and end of transactions are logged."""
    log_internal_events: bool = False
    """Whether the creation and removal of destinations, deliveries, expirations and dead letters are
    logged."""
    per_destination_logger: bool = False
    """Whether sent messages are logged by a logger of their destination."""


PluginConfig = (
    ForcePersistencyModeConfig
    | TimeStampingConfig
    | DiscardingDeadLettersConfig
    | StatisticsConfig
    | LoggingConfig
)
"""One of ActiveMQ's plug-ins."""
