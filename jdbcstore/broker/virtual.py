"""Virtual topics and composite destinations: further destinations of a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from jdbcstore.broker.subscription import matches
from jdbcstore.config.virtual import CompositeConfig, VirtualTopicConfig
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.message.selector import Selector

_MOST = 10_000
"""The most destinations whose rules are cached."""

WantedIn = Callable[[Destination, Message], bool]
"""Returns whether the selector of a current consumer of a queue matches a message."""


class VirtualDestinations:
    """The rules that forward messages to other destinations, and the queues of virtual topics.

    As in ActiveMQ, all rules that match a destination apply, and a forwarded message is subject to the rules
    of its new destination. A cycle ends where the message has been before.
    """

    def __init__(
        self,
        topics: Sequence[VirtualTopicConfig],
        composites: Sequence[CompositeConfig],
        wanted_in: WantedIn,
    ) -> None:
        self._wanted_in = wanted_in
        self._queues: dict[Destination, None] = {}
        """The known queues that may belong to a virtual topic, in the order of their creation."""
        self._rules: list[_VirtualTopic | _Composite] = [
            *(_VirtualTopic(config, self._queues, wanted_in) for config in topics),
            *map(_Composite, composites),
        ]
        self._rules_by_name: dict[Destination, tuple[_VirtualTopic | _Composite, ...]] = {}

    def apply_to(self, destination: Destination) -> bool:
        """Return whether messages for this destination are forwarded."""
        return bool(self._rules_of(destination))

    def copies_to(self, queue: Destination) -> bool:
        """Return whether a queue may belong to a virtual topic, and so exists until it is deleted."""
        return any(isinstance(rule, _VirtualTopic) and rule.may_have(queue) for rule in self._rules)

    def introduce(self, queue: Destination) -> None:
        """Register a queue that gets copies."""
        self._queues[queue] = None
        for rule in self._rules:
            if isinstance(rule, _VirtualTopic):
                rule.queues_of.clear()

    def forget(self, queue: Destination) -> None:
        """Unregister a queue that does not exist any more."""
        if self._queues.pop(queue, self) is None:
            for rule in self._rules:
                if isinstance(rule, _VirtualTopic):
                    rule.queues_of.clear()

    def route(self, message: Message, seen: frozenset[Destination] = frozenset()) -> Iterator[Message]:
        """Yield the copies of a message, each with its destination; the copy for its own is last, if any."""
        destination = message.destination
        assert destination is not None  # noqa: S101 - checked by the engine
        rules = self._rules_of(destination)
        if not rules:
            yield message
            return
        seen |= {destination}
        for rule in rules:
            for target in rule.targets(destination, message):
                if target not in seen:
                    copy = message.replace(destination=target, original_destination=destination)
                    yield from self.route(copy, seen)
        if any(rule.keeps(message) for rule in rules):
            yield message

    def _rules_of(self, destination: Destination) -> tuple[_VirtualTopic | _Composite, ...]:
        rules = self._rules_by_name.get(destination)
        if rules is None:
            if len(self._rules_by_name) >= _MOST:
                self._rules_by_name.clear()
            rules = tuple(rule for rule in self._rules if rule.matches(destination))
            self._rules_by_name[destination] = rules
        return rules


class _VirtualTopic:
    """The rule of a virtual topic: a copy for each queue of its consumers."""

    def __init__(
        self, config: VirtualTopicConfig, queues: Iterable[Destination], wanted_in: WantedIn
    ) -> None:
        self._prefix, self._postfix = config.prefix, config.postfix
        self.matches = DestinationPattern(config.topics).matches
        self._all_queues = DestinationPattern(Destination.queue(f"{config.prefix}{config.name}"))
        self._queues = queues
        self._wanted_in = wanted_in if config.selector_aware else None
        self.queues_of: dict[Destination, tuple[Destination, ...]] = {}
        """The queues of each topic, cached until the set of queues changes."""

    def may_have(self, queue: Destination) -> bool:
        """Return whether a queue has the name of a consumer's queue of a virtual topic."""
        name = queue.name.removesuffix(self._postfix)
        if not name or not queue.name.endswith(self._postfix):
            return False
        return self._all_queues.matches(Destination(queue.kind, name))

    def targets(self, topic: Destination, message: Message) -> Iterable[Destination]:
        queues = self.queues_of.get(topic)
        if queues is None:
            if len(self.queues_of) >= _MOST:
                self.queues_of.clear()
            pattern = DestinationPattern(Destination.queue(f"{self._prefix}{topic.name}{self._postfix}"))
            queues = tuple(queue for queue in self._queues if pattern.overlaps(DestinationPattern(queue)))
            self.queues_of[topic] = queues
        wanted_in = self._wanted_in
        return queues if wanted_in is None else [queue for queue in queues if wanted_in(queue, message)]

    def keeps(self, message: Message) -> bool:  # noqa: ARG002
        """Return whether the topic itself gets a message, which is always true."""
        return True


class _Composite:
    """The rule of a composite destination."""

    def __init__(self, config: CompositeConfig) -> None:
        self.matches = DestinationPattern(config.destination).matches
        self._forward_only = config.forward_only
        self._keeps_unmatched = config.send_when_not_matched
        self._forwards = [
            (forward.destination, None if forward.selector is None else Selector(forward.selector))
            for forward in config.forward_to
        ]

    def targets(self, destination: Destination, message: Message) -> Iterable[Destination]:  # noqa: ARG002
        return [to for to, selector in self._forwards if selector is None or matches(selector, message)]

    def keeps(self, message: Message) -> bool:
        """Return whether the destination itself gets a message."""
        if self._keeps_unmatched:
            return not any(selector is None or matches(selector, message) for _, selector in self._forwards)
        return not self._forward_only
