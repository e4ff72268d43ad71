"""Destination policies, with ActiveMQ's defaults: what ``jdbcstore broker`` goes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jdbcstore.config.fields import check, option
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination

QUEUE_CURSORS = ("storeCursor", "fileQueueCursor", "vmQueueCursor")
DURABLE_CURSORS = ("storeDurableSubscriberCursor", "fileDurableSubscriberCursor", "vmDurableCursor")
SUBSCRIBER_CURSORS = ("fileCursor", "vmCursor")
DISPATCH_POLICIES = (
    "roundRobinDispatchPolicy",
    "strictOrderDispatchPolicy",
    "simpleDispatchPolicy",
    "priorityDispatchPolicy",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDeadLetterStrategy:
    """One queue for all dead letters."""

    type: ClassVar[str] = "sharedDeadLetterStrategy"

    dead_letter_queue: str = "ActiveMQ.DLQ"
    process_expired: bool = True
    """Whether expired messages become dead letters."""
    process_non_persistent: bool = False
    expiration: float = option(0.0, at_least=0, milliseconds=True)
    """How long a dead letter is kept; 0 is for ever."""
    enable_audit: bool = True
    """Whether a second dead letter of the same message is dropped."""
    max_producers_to_audit: int = option(64, at_least=1)
    max_audit_depth: int = option(2048, at_least=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndividualDeadLetterStrategy:
    """A queue or topic of dead letters for each destination."""

    type: ClassVar[str] = "individualDeadLetterStrategy"

    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    queue_suffix: str = ""
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    topic_suffix: str = ""
    use_queue_for_queue_messages: bool = True
    use_queue_for_topic_messages: bool = True
    destination_per_durable_subscriber: bool = False
    process_expired: bool = True
    process_non_persistent: bool = False
    expiration: float = option(0.0, at_least=0, milliseconds=True)
    enable_audit: bool = True
    max_producers_to_audit: int = option(64, at_least=1)
    max_audit_depth: int = option(2048, at_least=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardingDeadLetterStrategy:
    """Dead letters are dropped."""

    type: ClassVar[str] = "discarding"


DeadLetterStrategy = SharedDeadLetterStrategy | IndividualDeadLetterStrategy | DiscardingDeadLetterStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryPolicy:
    """How often, and how much later, a message comes again that a consumer has rejected."""

    maximum_redeliveries: int = option(6, at_least=-1)
    """-1 is no maximum. A message that has come again so often becomes a dead letter."""
    initial_redelivery_delay: float = option(1.0, at_least=0, milliseconds=True)
    """Before the first time."""
    redelivery_delay: float = option(1.0, at_least=0, milliseconds=True)
    """Before each further one, unless that grows."""
    use_exponential_back_off: bool = False
    """Whether each delay is the one before, times ``back_off_multiplier``."""
    back_off_multiplier: float = option(5.0, at_least=0)
    maximum_redelivery_delay: float | None = option(None, at_least=0, milliseconds=True)
    """Beyond which no delay grows; None is no maximum."""
    use_collision_avoidance: bool = False
    """Whether delays vary by chance, up to ``collision_avoidance_percent`` either way."""
    collision_avoidance_percent: int = option(15, at_least=0)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCountSubscriptionRecoveryPolicy:
    """The last messages of a topic, so many."""

    type: ClassVar[str] = "fixedCountSubscriptionRecoveryPolicy"

    maximum_size: int = option(100, at_least=1)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSizedSubscriptionRecoveryPolicy:
    """The last messages of a topic, up to so many bytes."""

    type: ClassVar[str] = "fixedSizedSubscriptionRecoveryPolicy"

    maximum_size: int = option(64 * 1024, at_least=0, size=True)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedSubscriptionRecoveryPolicy:
    """The messages of a topic that are not older."""

    type: ClassVar[str] = "timedSubscriptionRecoveryPolicy"

    recover_duration: float = option(60.0, at_least=0, milliseconds=True)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastImageSubscriptionRecoveryPolicy:
    """The last message of a topic."""

    type: ClassVar[str] = "lastImageSubscriptionRecoveryPolicy"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSubscriptionRecoveryPolicy:
    """Nothing that was sent before."""

    type: ClassVar[str] = "noSubscriptionRecoveryPolicy"


SubscriptionRecoveryPolicy = (
    FixedCountSubscriptionRecoveryPolicy
    | FixedSizedSubscriptionRecoveryPolicy
    | TimedSubscriptionRecoveryPolicy
    | LastImageSubscriptionRecoveryPolicy
    | NoSubscriptionRecoveryPolicy
)
"""What a retroactive subscriber that is not durable gets of what was sent before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """What holds for the queues or topics that a wildcard matches; for all others, without either."""

    queue: str | None = None
    topic: str | None = None

    pending_queue_policy: str = option("storeCursor", choices=QUEUE_CURSORS)
    """Where messages of a queue wait for consumers."""
    pending_durable_subscriber_policy: str = option("storeDurableSubscriberCursor", choices=DURABLE_CURSORS)
    pending_subscriber_policy: str = option("fileCursor", choices=SUBSCRIBER_CURSORS)
    dead_letter_strategy: DeadLetterStrategy = SharedDeadLetterStrategy()
    redelivery_policy: RedeliveryPolicy | None = None
    """With None a rejected message becomes a dead letter at once, as in an ActiveMQ without the plug-in."""
    subscription_recovery_policy: SubscriptionRecoveryPolicy = NoSubscriptionRecoveryPolicy()
    dispatch_policy: str = option("roundRobinDispatchPolicy", choices=DISPATCH_POLICIES)
    """Of topics."""
    pending_message_limit: int | None = option(None, at_least=0)
    """Messages of a slow subscriber beyond its prefetch, which are not stored; None is no limit."""

    memory_limit: int = option(0, at_least=0, size=True)
    """Bytes; 0 is the broker's."""
    cursor_memory_high_water_mark: int = option(70, at_least=0)
    """Per cent of the memory, beyond which a cursor reads no further."""
    store_usage_high_water_mark: int = option(100, at_least=0)
    minimum_message_size: int = option(1024, at_least=0)
    producer_flow_control: bool = True
    blocked_producer_warning_interval: float = option(30.0, at_least=0, milliseconds=True)
    send_fail_if_no_space: bool = False
    send_fail_if_no_space_after_timeout: float | None = option(None, at_least=0, milliseconds=True)

    prioritized_messages: bool = False
    persist_jms_redelivered: bool = False
    use_cache: bool = True
    lazy_dispatch: bool = False
    strict_order_dispatch: bool = False
    use_consumer_priority: bool = True
    use_prefetch_extension: bool = True
    all_consumers_exclusive_by_default: bool = False
    always_retroactive: bool = False
    consumers_before_dispatch_starts: int = option(0, at_least=0)
    time_before_dispatch_starts: float = option(0.0, at_least=0, milliseconds=True)

    max_page_size: int = option(200, at_least=1)
    max_browse_page_size: int = option(400, at_least=1)
    max_expire_page_size: int = option(400, at_least=1)
    queue_prefetch: int = option(1000, at_least=0)
    queue_browser_prefetch: int = option(500, at_least=0)
    topic_prefetch: int = option(32767, at_least=0)
    durable_topic_prefetch: int = option(100, at_least=0)

    expire_messages_period: float = option(30.0, at_least=0, milliseconds=True, negative_is_off=True)
    """Between looks for expired messages; 0 is never."""
    gc_inactive_destinations: bool = False
    inactive_timeout_before_gc: float = option(60.0, at_least=0, milliseconds=True)
    max_destinations: int | None = option(None, at_least=0)

    enable_audit: bool = True
    max_producers_to_audit: int = option(64, at_least=1)
    max_audit_depth: int = option(10_000, at_least=1)
    max_queue_audit_depth: int = option(10_000, at_least=1)
    send_duplicate_from_store_to_dlq: bool = False

    def __post_init__(self) -> None:
        check(self)
        if self.queue is not None and self.topic is not None:
            raise ConfigurationError("a policy is for queue or for topic; write two", option="topic")
        try:
            self.destination  # noqa: B018
        except InvalidDestination as error:
            option = "topic" if self.queue is None else "queue"
            raise ConfigurationError(f"{option} names none: {error}", option=option) from error

    @property
    def destination(self) -> Destination | None:
        """What this is for, mostly with wildcards; None is all that no other policy is for."""
        if self.queue is not None:
            return Destination.queue(self.queue)
        return None if self.topic is None else Destination.topic(self.topic)
