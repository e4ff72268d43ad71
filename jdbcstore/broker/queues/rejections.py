"""What a queue does with messages that come back from a consumer, or have expired."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from dataclasses import replace

from jdbcstore.broker.entry import Entry, Source
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.queues.dead_letters import expired, is_dead_letter_queue
from jdbcstore.broker.queues.redelivery import Delays, delay_before, is_over
from jdbcstore.config.policy import PolicyEntry, RedeliveryPolicy

_REJECTED = "java.lang.Throwable: Rejected by its consumer"
_MOST_DELAYED = 10_000
_BEFORE_ANOTHER_TRY = 1.0


class Rejections:
    """Delays them, and buries them in the end."""

    def __init__(self, parts: Parts, source: Source, policy: PolicyEntry) -> None:
        self._parts = parts
        self._source = source
        self._policy = policy
        self._delays = Delays(parts.loop, parts.guarded(source.give_back))

    @property
    def count(self) -> int:
        """Of those that wait until they are delivered again."""
        return len(self._delays)

    @property
    def are_many(self) -> bool:
        """Whether so many wait that nothing more should be given out."""
        return len(self._delays) >= _MOST_DELAYED

    def reject(self, entries: Sequence[Entry]) -> Future[None]:
        """Redeliver them or bury them, as the policy says; done when that is durable."""
        policy = self._policy.redelivery_policy
        if is_dead_letter_queue(self._policy.dead_letter_strategy, self._source.destination):
            # Its messages have nowhere else to go.
            policy = replace(policy or RedeliveryPolicy(), maximum_redeliveries=-1)
        dead = []
        for entry in entries:
            count = entry.message.redelivery_counter
            if policy is None or is_over(policy, count):
                dead.append(entry)
            else:
                entry.redeliver()
                self._delays.add(entry, delay_before(policy, count))
        if not dead:
            return self._parts.done()
        strategy = self._policy.dead_letter_strategy
        return self._parts.dead_letters.bury(self._source, strategy, dead, lambda _: _REJECTED)

    def bury_expired(self, entries: Sequence[Entry]) -> Future[None]:
        """Done when that is durable."""
        strategy = self._policy.dead_letter_strategy
        return self._parts.dead_letters.bury(self._source, strategy, entries, expired, is_expiry=True)

    def expired(self, entries: Sequence[Entry]) -> None:
        """As :meth:`bury_expired`, for nobody who waits."""
        self.bury_expired(entries).add_done_callback(Future.exception)  # told of already

    def retain(self, entries: Sequence[Entry]) -> None:
        """They could not be buried: try again later."""
        for entry in entries:
            self._delays.add(entry, _BEFORE_ANOTHER_TRY)

    def clear(self) -> None:
        self._delays.clear()
