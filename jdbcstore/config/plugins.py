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
    """Seconds to live of messages that would never expire; 0 leaves these alone."""
    ttl_ceiling: float = option(0.0, at_least=0, milliseconds=True, negative_is_off=True)
    """The most seconds that a message may have to live; 0 means unlimited."""
    future_only: bool = False
    """Whether a message keeps its time and expiration if its expiration would become an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardingDeadLettersConfig(Options):
    """ActiveMQ's ``discardingDLQBrokerPlugin``: dead letters are dropped.

    :raises ConfigurationError: a pattern of ``drop_only`` is not a regular expression
    """

    type: ClassVar[str] = "discardingDLQBrokerPlugin"

    drop_all: bool = True
    """Whether all are dropped, whatever the other options are."""
    drop_temporary_queues: bool = True
    """Whether those of temporary queues are dropped."""
    drop_temporary_topics: bool = True
    """Whether those of temporary topics are dropped."""
    drop_only: str | None = None
    """Regular expressions, separated by spaces: dead letters of a name that one matches are dropped."""
    report_interval: int = option(1000)
    """Dropped messages after which the log has a line; 0 or less is never."""

    def __post_init__(self) -> None:
        check(self)
        _ = self.patterns

    @property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """The regular expressions of ``drop_only``.

        :raises ConfigurationError: one of them is none
        """
        try:
            return tuple(re.compile(one) for one in (self.drop_only or "").split())
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
    """Whether all events are logged, whatever the other options are."""
    log_connection_events: bool = True
    """Whether connections that begin and end are logged."""
    log_producer_events: bool = False
    """Whether producers, and the messages that are sent, are logged."""
    log_consumer_events: bool = False
    """Whether consumers, and acknowledgements, are logged."""
    log_transaction_events: bool = False
    """Whether the beginnings and ends of transactions are logged."""
    log_internal_events: bool = False
    """Whether destinations that are made and removed, and messages that are delivered, expire or become dead
    letters, are logged."""
    per_destination_logger: bool = False
    """Whether a message that is sent is logged by a logger of its destination."""


PluginConfig = (
    ForcePersistencyModeConfig
    | TimeStampingConfig
    | DiscardingDeadLettersConfig
    | StatisticsConfig
    | LoggingConfig
)
"""One of ActiveMQ's plug-ins."""
