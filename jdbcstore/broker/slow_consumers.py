"""Detection of slow consumers, and the strategies that end them.

As in ActiveMQ, and for rates as in Artemis, a policy's ``slowConsumerStrategy`` applies to each consumer of
its destinations.
"""

from __future__ import annotations

import logging
from asyncio import TimerHandle
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from jdbcstore.broker.consumer_watch import ConsumerWatch
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.queues.browser import Browser
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.topics.subscriber import TopicSubscriber
from jdbcstore.config.policy import (
    AbortSlowConsumerStrategy,
    SlowConsumerRateStrategy,
    SlowConsumerStrategy,
)
from jdbcstore.errors import ProtocolError

log = logging.getLogger(__name__)


def is_behind(subscription: BaseSubscription) -> bool:
    """Return whether messages wait for a consumer whose prefetch is full.

    A non-durable subscriber of a topic is behind with more pending messages than its prefetch.
    """
    if isinstance(subscription, Browser) or subscription.closed or not subscription.begun:
        return False
    if isinstance(subscription, TopicSubscriber):
        return subscription.pending > subscription.prefetch > 1
    if not subscription.prefetch or len(subscription.held) < subscription.prefetch + len(
        subscription.extension
    ):
        return False
    if not subscription.queues:
        return subscription.is_slow  # a durable subscriber
    return any(isinstance(queue, Queue) and queue.has_waiting for queue in subscription.queues)


@dataclass(slots=True)
class _Slow:
    """A slow consumer."""

    since: float
    times: int = 0
    """The number of checks at which it was slow."""


class _Rates:
    """The acknowledged messages per second of each consumer since the last check."""

    def __init__(self) -> None:
        self._looked: WeakKeyDictionary[BaseSubscription, tuple[float, int]] = WeakKeyDictionary()
        """The time of the last check, by a monotonic clock, and the total number until then."""

    def below(self, subscription: BaseSubscription, strategy: SlowConsumerRateStrategy, now: float) -> bool:
        """Return whether a consumer was slower than the threshold for a whole period with work to do.

        Within a period it returns false.
        """
        waiting = len(subscription.held) - len(subscription.lent)
        settled = subscription.dispatched - waiting
        looked, before = self._looked.setdefault(subscription, (now, settled))
        if now - looked < strategy.check_period:
            return False
        self._looked[subscription] = now, settled
        rate, least = (settled - before) / (now - looked), strategy.threshold
        if isinstance(subscription, TopicSubscriber):
            waiting += subscription.pending
        is_busy = waiting >= least or is_behind(subscription)
        return is_busy and (rate < least or rate == least == 0)


class SlowConsumers:
    """Ends slow consumers, or their connections, according to the policy of their destination.

    :param subscriptions: returns the current consumers
    """

    def __init__(
        self,
        loop: BrokerLoop,
        policies: Policies,
        subscriptions: Callable[[], Collection[BaseSubscription]],
    ) -> None:
        self._loop, self._policies = loop, policies
        self._subscriptions = subscriptions
        self._watch = ConsumerWatch()
        self._rates = _Rates()
        self._slow: dict[BaseSubscription, _Slow] = {}
        self._timer: TimerHandle | None = None
        self._period = min(
            (strategy.check_period for strategy in policies.slow_consumer_strategies), default=0.0
        )

    def start(self) -> None:
        """Start checking, if any policy has a strategy."""
        if self._period > 0:
            self._timer = self._loop.call_later(self._period, self._check_again)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check_again(self) -> None:
        self.check()
        self.start()

    def check(self) -> None:
        """End consumers that have been slow for too long."""
        known, self._slow = self._slow, {}
        now = self._loop.clock.monotonic()
        self._watch.observe(self._subscriptions(), now)
        ending: list[tuple[BaseSubscription, SlowConsumerStrategy]] = []
        for subscription, strategy in self._with_strategies():
            if not self._is_slow(subscription, strategy, now):
                continue
            slow = self._slow[subscription] = known.get(subscription) or _Slow(now)
            slow.times += 1
            if _is_enough(slow, strategy, now):
                ending.append((subscription, strategy))
        for subscription, strategy in ending:
            self._end(subscription, strategy)

    def _is_slow(self, subscription: BaseSubscription, strategy: SlowConsumerStrategy, now: float) -> bool:
        if isinstance(strategy, AbortSlowConsumerStrategy):
            return is_behind(subscription)
        if isinstance(strategy, SlowConsumerRateStrategy):
            return self._rates.below(subscription, strategy, now)
        rests = self._watch.unsettled if strategy.ignore_idle_consumers else self._watch.idle
        since = rests(subscription, now)
        return since is not None and since > strategy.max_time_since_last_ack

    def _with_strategies(self) -> Iterator[tuple[BaseSubscription, SlowConsumerStrategy]]:
        for subscription in self._subscriptions():
            for member in subscription.request.destination.members:
                strategy = self._policies.of(member).slow_consumer_strategy
                if strategy is not None and not subscription.request.browser:
                    yield subscription, strategy
                    break

    def _end(self, subscription: BaseSubscription, strategy: SlowConsumerStrategy) -> None:
        self._slow.pop(subscription, None)
        request = subscription.request
        if isinstance(strategy, SlowConsumerRateStrategy) and not strategy.abort_connection:
            log.warning(
                "a consumer of %s is slow, with less than %g messages per second: %s",
                *(request.destination, strategy.threshold, request.client_id or request.connection_id),
            )
            return
        what = "connection" if strategy.abort_connection else "consumer"
        log.warning(
            "the %s of a slow consumer of %s is closed: %s",
            *(what, request.destination, request.client_id or request.connection_id),
        )
        text = f"a consumer of {request.destination} was too slow for too long; acknowledge messages sooner"
        subscription.end(ProtocolError(text, fatal=strategy.abort_connection))


def _is_enough(slow: _Slow, strategy: SlowConsumerStrategy, now: float) -> bool:
    if isinstance(strategy, SlowConsumerRateStrategy):
        return True
    most, longest = strategy.max_slow_count, strategy.max_slow_duration
    if most > 0 and slow.times >= most:
        return True
    return longest > 0 and now - slow.since >= longest
