"""Destination policies, with ActiveMQ's options and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple
from urllib.parse import parse_qsl

from jdbcstore.config.fields import Options, check, option
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeadLetterStrategy(Options):
    """The options of every dead-letter strategy, in camelCase in ActiveMQ; durations are seconds."""

    process_expired: bool = True
    """Whether expired messages become dead letters; otherwise they are dropped."""
    process_non_persistent: bool = False
    """Whether non-persistent messages become dead letters; otherwise they are dropped."""
    expiration: float = option(0.0, at_least=0, milliseconds=True)
    """Seconds after which a dead letter expires; 0 means never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDeadLetterStrategy(_DeadLetterStrategy):
    """ActiveMQ's ``sharedDeadLetterStrategy``: one queue for the dead letters of all destinations."""

    type: ClassVar[str] = "sharedDeadLetterStrategy"

    dead_letter_queue: str = "ActiveMQ.DLQ"
    """The name of the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndividualDeadLetterStrategy(_DeadLetterStrategy):
    """ActiveMQ's ``individualDeadLetterStrategy``: a dead-letter destination for each destination."""

    type: ClassVar[str] = "individualDeadLetterStrategy"

    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    """The prefix of the dead-letter destination of a queue."""
    queue_suffix: str = ""
    """Its suffix."""
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    """The prefix of the dead-letter destination of a topic."""
    topic_suffix: str = ""
    """Its suffix."""
    use_queue_for_queue_messages: bool = True
    """Whether dead letters of queues go to a queue; otherwise to a topic."""
    use_queue_for_topic_messages: bool = True
    """Whether dead letters of topics go to a queue; otherwise to a topic."""
    destination_per_durable_subscriber: bool = False
    """Whether each durable subscription of a topic has its own dead-letter destination."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardingDeadLetterStrategy:
    """ActiveMQ's ``discarding``: dead letters are dropped."""

    type: ClassVar[str] = "discarding"


DeadLetterStrategy = SharedDeadLetterStrategy | IndividualDeadLetterStrategy | DiscardingDeadLetterStrategy
"""The destination of messages that expired or could not be consumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryPolicy(Options):
    """Delays and limits of the redelivery of rejected messages; ActiveMQ's ``redeliveryPolicy``.

    Options are its attributes of the same name in camelCase; delays are seconds.
    """

    maximum_redeliveries: int = option(6, at_least=-1)
    """Redeliveries after which a message becomes a dead letter; -1 means unlimited."""
    initial_redelivery_delay: float = option(1.0, at_least=0, milliseconds=True)
    """Seconds before the first redelivery."""
    redelivery_delay: float = option(1.0, at_least=0, milliseconds=True)
    """Seconds before each further redelivery, or the first of growing delays."""
    use_exponential_back_off: bool = False
    """Whether each delay is the previous one times ``back_off_multiplier``."""
    back_off_multiplier: float = option(5.0, at_least=0)
    """The factor by which delays grow."""
    maximum_redelivery_delay: float | None = option(None, at_least=0, milliseconds=True)
    """Maximum seconds of a growing delay; None means unlimited."""
    counts_returned: bool = False
    """Whether a message that returns because its client has left counts as rejected. Not in ActiveMQ;
    Artemis counts deliveries this way."""
    use_collision_avoidance: bool = False
    """Whether delays vary randomly by up to ``collision_avoidance_percent`` either way."""
    collision_avoidance_percent: int = option(15, at_least=0)
    """Per cent of a delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCountSubscriptionRecoveryPolicy(Options):
    """ActiveMQ's policy of that name: a topic's last messages, by number."""

    type: ClassVar[str] = "fixedCountSubscriptionRecoveryPolicy"

    maximum_size: int = option(100, at_least=1)
    """Number of kept messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSizedSubscriptionRecoveryPolicy(Options):
    """ActiveMQ's policy of that name: a topic's last messages, by size."""

    type: ClassVar[str] = "fixedSizedSubscriptionRecoveryPolicy"

    maximum_size: int = option(64 * 1024, at_least=0, size=True)
    """Bytes of kept messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedSubscriptionRecoveryPolicy(Options):
    """ActiveMQ's policy of that name: a topic's last messages, by age."""

    type: ClassVar[str] = "timedSubscriptionRecoveryPolicy"

    recover_duration: float = option(60.0, at_least=0, milliseconds=True)
    """Seconds for which messages are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastImageSubscriptionRecoveryPolicy:
    """ActiveMQ's policy of that name: a topic's last message."""

    type: ClassVar[str] = "lastImageSubscriptionRecoveryPolicy"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBasedSubscriptionRecoveryPolicy(Options):
    """ActiveMQ's policy of that name: the messages that a program finds.

    :raises ConfigurationError: there is no ``query``
    """

    type: ClassVar[str] = "queryBasedSubscriptionRecoveryPolicy"

    query: str | None = None
    """``package.module:Class``, a :class:`jdbcstore.broker.topics.queries.MessageQuery`. In ActiveMQ a
    Java class."""

    def __post_init__(self) -> None:
        check(self)
        if self.query is None:
            raise ConfigurationError("a query is needed; give package.module:Class", option="query")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSubscriptionRecoveryPolicy:
    """ActiveMQ's policy of that name: no earlier message."""

    type: ClassVar[str] = "noSubscriptionRecoveryPolicy"


SubscriptionRecoveryPolicy = (
    FixedCountSubscriptionRecoveryPolicy
    | FixedSizedSubscriptionRecoveryPolicy
    | TimedSubscriptionRecoveryPolicy
    | LastImageSubscriptionRecoveryPolicy
    | QueryBasedSubscriptionRecoveryPolicy
    | NoSubscriptionRecoveryPolicy
)
"""The earlier messages that a retroactive subscriber without a durable subscription gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SlowConsumerStrategy(Options):
    """The options of both strategies, in camelCase in ActiveMQ; durations are seconds."""

    max_slow_count: int = option(-1, at_least=-1)
    """Number of consecutive checks as slow after which a consumer is closed; -1 turns this off."""
    max_slow_duration: float = option(30.0, at_least=0, milliseconds=True, negative_is_off=True)
    """Seconds as slow after which a consumer is closed; 0 turns this off."""
    check_period: float = option(30.0, at_least=0, milliseconds=True)
    """Seconds between two checks."""
    abort_connection: bool = False
    """Whether to close the consumer's connection, not only the consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortSlowConsumerStrategy(_SlowConsumerStrategy):
    """ActiveMQ's ``abortSlowConsumerStrategy``: closes consumers for which messages wait too long."""

    type: ClassVar[str] = "abortSlowConsumerStrategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortSlowAckConsumerStrategy(_SlowConsumerStrategy):
    """ActiveMQ's ``abortSlowAckConsumerStrategy``: closes consumers that do not acknowledge."""

    type: ClassVar[str] = "abortSlowAckConsumerStrategy"

    max_time_since_last_ack: float = option(30.0, at_least=0, milliseconds=True)
    """Seconds without an acknowledgement after which a consumer is slow."""
    ignore_idle_consumers: bool = True
    """Whether a consumer without unacknowledged messages is never slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowConsumerRateStrategy(Options):
    """Artemis's ``slow-consumer-policy``: looks for consumers that acknowledge too few messages in a time.

    A consumer is slow only while it has at least so many messages as it should acknowledge in a second. Not
    in ActiveMQ.
    """

    type: ClassVar[str] = "slowConsumerRateStrategy"

    threshold: float = option(0.0, at_least=0)
    """Messages per second below which a consumer is slow; 0 finds consumers that acknowledge none."""
    check_period: float = option(5.0, at_least=0.01, milliseconds=True)
    """Seconds between two checks."""
    abort_connection: bool = False
    """Whether to close the connection of a slow consumer; otherwise only a warning is logged."""


SlowConsumerStrategy = AbortSlowConsumerStrategy | AbortSlowAckConsumerStrategy | SlowConsumerRateStrategy
"""The end of consumers that do not keep up."""


class GroupMap(NamedTuple):
    """The map of the message groups of a queue: its kind, and its size."""

    kind: str = "cached"
    """``simple`` has no bound; ``cached`` and ``bucket`` have the bounds below."""
    cache_size: int = 1024
    """Groups that a cached map remembers; the one used least recently is forgotten."""
    bucket_count: int = 1024
    """Buckets of a bucket map; all groups in a bucket have the same owner."""

    @classmethod
    def parse(cls, text: str) -> GroupMap:
        """Parse ActiveMQ's ``simple``, ``cached?cacheSize=1024`` or ``bucket?bucketCount=1024``.

        :raises ConfigurationError: it is none of these
        """
        kind, _, query = text.strip().partition("?")
        names = {"cacheSize": "cache_size", "bucketCount": "bucket_count"}
        try:
            sizes = {names[name]: int(value) for name, value in parse_qsl(query, strict_parsing=bool(query))}
        except (KeyError, ValueError):
            sizes = {"cache_size": 0}
        if kind not in _GROUP_MAPS or min(sizes.values(), default=1) < 1:
            raise ConfigurationError(
                "message_group_map_factory_type must be simple, cached or bucket, the last two with a size"
                f" as in cached?cacheSize=1024 or bucket?bucketCount=1024, not {text!r}",
                option="message_group_map_factory_type",
            )
        return cls(kind, **sizes)


_GROUP_MAPS = ("simple", "cached", "bucket")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry(Options):
    """The policy of the queues or topics that a wildcard matches; ActiveMQ's ``policyEntry``.

    An entry with neither ``queue`` nor ``topic`` is for the destinations that no other entry matches.
    Options are attributes of the same name in camelCase; durations are seconds, sizes bytes. A note says
    so when one is set that ``jdbcstore broker`` does not obey.
    """

    queue: str | None = None
    """The queues: a name, a wildcard, or several separated by commas."""
    topic: str | None = None
    """The topics, likewise."""

    pending_queue_policy: str = option(
        "storeCursor", choices=("storeCursor", "fileQueueCursor", "vmQueueCursor")
    )
    """The cursor of a queue: where its pending messages are."""
    pending_durable_subscriber_policy: str = option(
        "storeDurableSubscriberCursor",
        choices=("storeDurableSubscriberCursor", "fileDurableSubscriberCursor", "vmDurableCursor"),
    )
    """The cursor of a durable subscription."""
    pending_subscriber_policy: str = option("fileCursor", choices=("fileCursor", "vmCursor"))
    """The cursor of any other subscriber of a topic."""
    dead_letter_strategy: DeadLetterStrategy = SharedDeadLetterStrategy()
    """The destination of dead letters."""
    expiry_queue: str | None = None
    """The queue of expired messages; None uses the one of dead letters. Not in ActiveMQ; Artemis's
    ``expiry-address``."""
    expiry_delay: float | None = option(None, at_least=0, milliseconds=True)
    """Seconds after which a message without an expiration expires, also a dead letter if this is its
    queue's policy. Not in ActiveMQ; Artemis's ``expiry-delay``."""
    min_expiry_delay: float | None = option(None, at_least=0, milliseconds=True)
    """Minimum seconds to live, set on arrival if ``expiry_delay`` is None. Artemis's
    ``min-expiry-delay``."""
    max_expiry_delay: float | None = option(None, at_least=0, milliseconds=True)
    """Maximum seconds to live, likewise. A message without an expiration gets the maximum, or else the
    minimum."""
    no_expiry: bool = False
    """Whether messages never expire, regardless of their senders and the options above. Artemis's
    ``no-expiry``."""
    redelivery_policy: RedeliveryPolicy | None = None
    """Redelivery of rejected messages. Without it they become dead letters immediately, as in an
    ActiveMQ without the redelivery plug-in."""
    subscription_recovery_policy: SubscriptionRecoveryPolicy = NoSubscriptionRecoveryPolicy()
    """The earlier messages that a retroactive subscriber of a topic gets."""
    slow_consumer_strategy: SlowConsumerStrategy | None = None
    """Strategy to close slow consumers; None keeps them."""
    pending_message_limit: int | None = option(None, at_least=0)
    """Non-stored messages kept for a slow subscriber beyond its prefetch; the oldest are dropped. None
    means unlimited. ``limit`` of ActiveMQ's ``constantPendingMessageLimitStrategy``."""

    pending_message_limit_multiplier: float | None = option(None, at_least=0)
    """The same limit as a multiple of the prefetch, if ``pending_message_limit`` is None.
    ``multiplier`` of ActiveMQ's ``prefetchRatePendingMessageLimitStrategy``."""

    memory_limit: int = option(0, at_least=0, size=True)
    """Bytes of messages in memory per destination; 0 is the broker's limit."""
    cursor_memory_high_water_mark: int = option(70, at_least=0)
    """Per cent of the memory at which a cursor stops reading ahead."""
    producer_flow_control: bool = True
    """Whether producers wait when the memory is full."""
    blocked_producer_warning_interval: float = option(30.0, at_least=0, milliseconds=True)
    """Seconds between warnings that producers wait; 0 turns them off."""
    send_fail_if_no_space: bool = False
    """Whether a send fails immediately instead of waiting."""
    send_fail_if_no_space_after_timeout: float | None = option(None, at_least=0, milliseconds=True)
    """Seconds after which a waiting send fails; None means never."""

    send_drop_if_no_space: bool = False
    """Whether a message is dropped instead of waiting, without an error for its producer. Not in
    ActiveMQ; Artemis's ``address-full-policy`` DROP."""
    auto_create: bool = True
    """Whether clients create a destination by using it. Otherwise it must be in the broker's
    ``destinations`` or in the store. Not in ActiveMQ; Artemis's ``auto-create-queues``."""

    prioritized_messages: bool = False
    """Whether messages are dispatched by priority."""
    persist_jms_redelivered: bool = False
    """Whether a queue stores, before the first delivery, that the message was delivered, so that the
    next broker knows. Such a queue stores messages before it delivers them."""
    use_consumer_priority: bool = True
    """Whether consumers of a higher priority get a queue's messages first."""
    all_consumers_exclusive_by_default: bool = False
    """Whether one consumer of a queue gets all messages until it leaves."""
    always_retroactive: bool = False
    """Whether every subscriber of a topic gets the messages of ``subscription_recovery_policy``."""
    consumers_before_dispatch_starts: int = option(0, at_least=0)
    """Consumers that a queue waits for before it delivers; at most one second if no time is set."""
    time_before_dispatch_starts: float = option(0.0, at_least=0, milliseconds=True)
    """Maximum seconds that a queue waits for them, or for more consumers after the first."""
    message_group_map_factory_type: str = "cached"
    """Memory for the owners of message groups: ``cached`` (the 1,024 used last, or
    ``cached?cacheSize=N``), ``simple`` (all), or ``bucket`` (1,024 buckets, or
    ``bucket?bucketCount=N``)."""

    max_page_size: int = option(200, at_least=1)
    """Messages that a cursor reads at once."""
    max_browse_page_size: int = option(400, at_least=1)
    """Messages that a browser reads at once."""
    max_expire_page_size: int = option(400, at_least=1)
    """Messages that the search for expired ones reads at once."""
    queue_prefetch: int = option(1000, at_least=0)
    """The prefetch of a queue's consumers, unless they set one."""
    queue_browser_prefetch: int = option(500, at_least=0)
    """The prefetch of a queue's browsers, unless they set one."""
    topic_prefetch: int = option(32767, at_least=0)
    """The prefetch of a topic's subscribers, unless they set one."""
    durable_topic_prefetch: int = option(100, at_least=0)
    """The prefetch of durable subscribers, unless they set one."""

    expire_messages_period: float = option(30.0, at_least=0, milliseconds=True, negative_is_off=True)
    """Seconds between searches for expired messages; 0 turns them off."""
    max_destinations: int | None = option(None, at_least=0)
    """Maximum number of destinations of this policy; a client that needs one more gets an error.
    Destinations in the store always exist. None means unlimited."""

    advisory_for_delivery: bool = False
    """Whether JMS clients get advisories of arriving messages."""
    advisory_for_dispatched: bool = False
    """Whether they get advisories of deliveries to consumers, except browsers."""
    advisory_for_consumed: bool = False
    """Whether they get advisories of consumed messages. Unacknowledged messages then stay in memory."""
    advisory_for_discarding_messages: bool = False
    """Whether they get advisories of messages that a subscriber loses through
    ``pending_message_limit``."""
    send_advisory_if_no_consumers: bool = False
    """Whether JMS clients get copies of non-persistent messages for a destination without consumers."""
    advisory_when_full: bool = False
    """Whether they get advisories of waiting producers."""
    advisory_for_fast_producers: bool = False
    """Whether they get advisories with the names of waiting producers."""
    advisory_for_slow_consumers: bool = False
    """Whether they get advisories of slow subscribers of topics."""
    include_body_for_advisory: bool = False
    """Whether advisories about messages contain their bodies."""

    def __post_init__(self) -> None:
        check(self)
        if self.queue is not None and self.topic is not None:
            raise ConfigurationError("a policy is for a queue or for a topic; write two", option="topic")
        _ = self.message_groups
        try:
            self.destination  # noqa: B018
        except InvalidDestination as error:
            option = "topic" if self.queue is None else "queue"
            raise ConfigurationError(f"{option} is not a destination: {error}", option=option) from error

    @property
    def destination(self) -> Destination | None:
        """The destinations of this entry, mostly a wildcard; None for all that no other entry matches."""
        if self.queue is not None:
            return Destination.queue(self.queue)
        return None if self.topic is None else Destination.topic(self.topic)

    @property
    def changes_expiration(self) -> bool:
        """Whether messages may get another expiration than that of their senders."""
        delays = (self.expiry_delay, self.min_expiry_delay, self.max_expiry_delay)
        return self.no_expiry or any(delay is not None for delay in delays)

    @property
    def message_groups(self) -> GroupMap:
        """The map of the message groups."""
        return GroupMap.parse(self.message_group_map_factory_type)
