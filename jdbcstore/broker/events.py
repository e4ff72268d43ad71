"""Message events for watchers, the base of advisories."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jdbcstore.broker.api import MessageEvent, MessageEventKind, SubscriptionRequest, Watcher
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

_ASKED: dict[MessageEventKind, Callable[[PolicyEntry], bool]] = {
    MessageEventKind.EXPIRED: lambda _: True,
    MessageEventKind.DEAD: lambda _: True,
    MessageEventKind.DELIVERED: lambda policy: policy.advisory_for_delivery,
    MessageEventKind.DISPATCHED: lambda policy: policy.advisory_for_dispatched,
    MessageEventKind.CONSUMED: lambda policy: policy.advisory_for_consumed,
    MessageEventKind.DISCARDED: lambda policy: policy.advisory_for_discarding_messages,
    MessageEventKind.UNWANTED: lambda policy: policy.send_advisory_if_no_consumers,
    MessageEventKind.FULL: lambda policy: policy.advisory_when_full,
    MessageEventKind.FAST_PRODUCER: lambda policy: policy.advisory_for_fast_producers,
    MessageEventKind.SLOW_CONSUMER: lambda policy: policy.advisory_for_slow_consumers,
}
"""Whether a policy enables an event, as in ActiveMQ."""


class MessageEvents:
    """The watchers of one broker's message events. Without watchers it costs nothing.

    :param policy_of: the policy entry of a destination
    :param reports_dispatches: whether any policy enables events of dispatched messages
    """

    def __init__(
        self, policy_of: Callable[[Destination], PolicyEntry], *, reports_dispatches: bool = False
    ) -> None:
        self._policy_of = policy_of
        self.reports_dispatches = reports_dispatches
        self._watchers: dict[Watcher, None] = {}

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    @property
    def are_watched(self) -> bool:
        return bool(self._watchers)

    def arrived(self, destination: Destination, message: Message, *, is_unwanted: bool) -> None:
        """Notify the watchers of a message that has arrived at its destination."""
        self.happened(MessageEventKind.DELIVERED, destination, [message])
        if is_unwanted:
            self.happened(MessageEventKind.UNWANTED, destination, [message])

    def happened(
        self,
        kind: MessageEventKind,
        destination: Destination,
        messages: Iterable[Message],
        request: SubscriptionRequest | None = None,
        count: int = 0,
    ) -> None:
        """Notify the watchers, if the policy of the destination enables this kind of event.

        :param messages: the messages with their bodies
        :param request: the consumer that did it, or for which the message waits
        :param count: the total number of messages that this consumer lost, or the bytes of memory in use
        """
        if not self._watchers:
            return
        policy = self._policy_of(destination)
        if not _ASKED[kind](policy):
            return
        for message in messages:
            event = MessageEvent(
                kind=kind,
                destination=destination,
                message=message,
                includes_body=policy.include_body_for_advisory,
                request=request,
                count=count,
            )
            for watcher in [*self._watchers]:
                watcher.happened(event)
