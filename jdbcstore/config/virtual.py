"""Virtual topics and composite destinations, with ActiveMQ's options and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from jdbcstore.config.fields import Options, check
from jdbcstore.errors import ConfigurationError, InvalidDestination, InvalidSelector
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard
from jdbcstore.message.selector import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualTopicConfig(Options):
    """Topics whose messages are also sent to queues, one for each group of consumers; ActiveMQ's
    ``virtualTopic``."""

    name: str = ">"
    """The topics: a name or a wildcard."""
    prefix: str = "Consumer.*."
    """The part before the topic's name in the name of a queue; its wildcard is the name of the consumer
    group."""
    postfix: str = ""
    """The part after the topic's name."""
    selector_aware: bool = False
    """Whether a queue gets only messages that the selector of a connected consumer matches."""

    def __post_init__(self) -> None:
        check(self)
        try:
            _ = self.topics
            Destination.queue(f"{self.prefix}X{self.postfix}")
        except InvalidDestination as error:
            raise ConfigurationError(
                f"a virtual topic cannot have this name: {error}", option="name"
            ) from error

    @property
    def topics(self) -> Destination:
        """The topics, mostly a wildcard."""
        return Destination.topic(self.name)


DEFAULT_VIRTUAL_TOPICS = (VirtualTopicConfig(name="VirtualTopic.>"),)
"""ActiveMQ's default virtual topics."""


def _place(queue: str | None, topic: str | None) -> Destination:
    if (queue is None) == (topic is None):
        raise ConfigurationError("give either queue or topic", option="queue")
    try:
        return Destination.topic(topic) if topic is not None else Destination.queue(queue or "")
    except InvalidDestination as error:
        option = "queue" if topic is None else "topic"
        raise ConfigurationError(f"{option} is not a destination: {error}", option=option) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardConfig(Options):
    """A queue or topic that a composite destination sends to; ActiveMQ's ``filteredDestination``, or
    ``queue`` or ``topic`` in ``forwardTo``."""

    queue: str | None = None
    """The name of the queue."""
    topic: str | None = None
    """The name of the topic, instead."""
    selector: str | None = None
    """The messages that are sent; None is all of them."""

    def __post_init__(self) -> None:
        check(self)
        if is_wildcard(self.destination) or self.destination.is_composite:
            option = "queue" if self.topic is None else "topic"
            raise ConfigurationError(
                f"{option} must be one destination, not {self.destination}; write an entry for each",
                option=option,
            )
        try:
            if self.selector is not None:
                Selector(self.selector)
        except InvalidSelector as error:
            raise ConfigurationError(f"selector is not valid: {error}", option="selector") from error

    @property
    def destination(self) -> Destination:
        """The queue or topic."""
        return _place(self.queue, self.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeConfig(Options):
    """A queue or topic whose messages are sent to others; ActiveMQ's ``compositeQueue`` and
    ``compositeTopic``."""

    queue: str | None = None
    """The queues: a name or a wildcard. ActiveMQ's ``name``."""
    topic: str | None = None
    """The topics, instead."""
    forward_to: tuple[ForwardConfig, ...] = ()
    """Destinations to which their messages are sent."""
    forward_only: bool = True
    """Whether messages are only forwarded; otherwise the destination gets them too."""
    send_when_not_matched: bool = False
    """Whether the destination gets only messages that no selector matches."""

    def __post_init__(self) -> None:
        check(self)
        _ = self.destination

    @property
    def destination(self) -> Destination:
        """The queues or topics."""
        return _place(self.queue, self.topic)
