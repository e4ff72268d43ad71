"""Dispatch of a queue's messages to its consumers, in order."""

from __future__ import annotations

from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jdbcstore.broker.entry import Entry
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.queues.groups import MessageGroups
from jdbcstore.broker.queues.pending import PendingMessages
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.message import Message

_ASSEMBLY = 1.0
"""Default seconds for which a queue waits for a number of consumers."""
_MOST_REFUSED = 100_000
"""The most unwanted messages that are remembered; for others, all consumers are asked again."""


class Consumers:
    """The consumers of a queue: round robin by priority among consumers with room; an exclusive consumer gets
    all.

    All messages of a group go to the consumer of its first message, while that consumer exists.
    """

    def __init__(self, policy: PolicyEntry) -> None:
        self._policy = policy
        self.members: dict[BaseSubscription, int] = {}
        """Each with its priority, in the order of subscription."""
        self._numbers: dict[BaseSubscription, int] = {}
        self.newest = 0
        """The number of the newest consumer; numbers increase."""
        self._turns: dict[int, deque[BaseSubscription]] = {}
        """By priority, highest first: consumers that may have room, in turn."""
        self._in_turn: set[BaseSubscription] = set()
        self.woken: dict[BaseSubscription, None] = {}
        """Consumers that got room since this was last cleared."""
        self._exclusive: BaseSubscription | None = None
        self._groups = MessageGroups(policy.message_groups)
        self.regrouped = False
        """Whether a group has lost its owner since this was last cleared."""

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[BaseSubscription]:
        return iter(self.members)

    def add(self, subscription: BaseSubscription) -> None:
        priority = subscription.request.priority if self._policy.use_consumer_priority else 0
        self.members[subscription] = priority
        self.newest += 1
        self._numbers[subscription] = self.newest
        if priority not in self._turns:
            self._turns[priority] = deque()
            self._turns = dict(sorted(self._turns.items(), reverse=True))
        self._choose_exclusive()
        self.wake(subscription)

    def remove(self, subscription: BaseSubscription) -> bool:
        """Remove a consumer; return whether others may now get messages that only this one could."""
        priority = self.members.pop(subscription, None)
        if priority is None:
            return False
        del self._numbers[subscription]
        was_exclusive = subscription is self._exclusive
        if subscription in self._in_turn:
            self._in_turn.remove(subscription)
            self._turns[priority].remove(subscription)
        if priority not in self.members.values():
            del self._turns[priority]
        self.woken.pop(subscription, None)
        self._choose_exclusive()
        return self._groups.forget(subscription) or was_exclusive

    def wake(self, subscription: BaseSubscription) -> None:
        """Record that the consumer has room."""
        if subscription not in self.members:
            return
        self.woken[subscription] = None
        if subscription not in self._in_turn:
            self._in_turn.add(subscription)
            self._turns[self.members[subscription]].append(subscription)

    @property
    def any_room(self) -> bool:
        """Whether any consumer may have room."""
        return bool(self._in_turn)

    def next_for(self, entry: Entry) -> BaseSubscription | None:
        """Return the consumer for an entry; None if no consumer with room wants it."""
        if entry.message.group_id is not None:
            return self._next_of_group(entry, entry.message.group_id)
        return self.next_for_ungrouped(entry)

    def next_for_ungrouped(self, entry: Entry, refused_by: int = 0) -> BaseSubscription | None:
        """Return the consumer for a message without a group, like :meth:`next_for`.

        :param refused_by: consumers up to this number do not want it
        """
        if self._exclusive is not None:
            return self._next_exclusive(self._exclusive, entry)
        for turns in self._turns.values():
            for _ in range(len(turns)):
                subscription = turns[0]
                if subscription.room <= 0:
                    turns.popleft()
                    self._in_turn.remove(subscription)
                    continue
                turns.rotate(-1)
                if self._numbers[subscription] > refused_by and subscription.wants(entry.message):
                    return subscription
        return None

    def _next_exclusive(self, exclusive: BaseSubscription, entry: Entry) -> BaseSubscription | None:
        if exclusive.room <= 0:
            # No other consumer gets messages.
            self._in_turn.clear()
            for turns in self._turns.values():
                turns.clear()
            return None
        return exclusive if exclusive.wants(entry.message) else None

    def _next_of_group(self, entry: Entry, group_id: str) -> BaseSubscription | None:
        sequence = entry.message.group_sequence
        owner = self._owner(entry.message, group_id)
        if owner is None:
            subscription = self._least_loaded(entry)
            if subscription is None:
                return None
            if sequence >= 0 and self._groups.assign(group_id, subscription):
                self._regroup()
            entry.begin_group()
            return subscription
        if owner.room <= 0:
            self._rest(owner)
            return None
        if not owner.wants(entry.message):
            return None
        self._put_last(owner)
        if sequence < 0:
            self._groups.close(group_id)
            self._regroup()
        return owner

    def _put_last(self, subscription: BaseSubscription) -> None:
        """Put a consumer last in its turn, so that others with as few groups get the next group first."""
        turns = self._turns[self.members[subscription]]
        if subscription in self._in_turn and turns[-1] is not subscription:
            turns.remove(subscription)
            turns.append(subscription)

    def _owner(self, message: Message, group_id: str) -> BaseSubscription | None:
        """Return the only consumer that may get a message of a group; None if any may."""
        # As in ActiveMQ, the first message of a group may go to another consumer than the previous group.
        owner = None if message.group_sequence == 1 else self._groups.owner(group_id)
        return owner if self._exclusive in (None, owner) else None

    def _least_loaded(self, entry: Entry) -> BaseSubscription | None:
        """Return the consumer with the fewest groups, for a group without an owner."""
        if self._exclusive is not None:
            return self._next_exclusive(self._exclusive, entry)
        for turns in self._turns.values():
            for subscription in [consumer for consumer in turns if consumer.room <= 0]:
                self._rest(subscription)
            wanting = [consumer for consumer in turns if consumer.wants(entry.message)]
            if wanting:
                chosen = min(wanting, key=self._groups.count)
                turns.remove(chosen)
                turns.append(chosen)
                return chosen
        return None

    def _rest(self, subscription: BaseSubscription) -> None:
        """Skip a consumer without room until it is woken."""
        if subscription in self._in_turn:
            self._in_turn.remove(subscription)
            self._turns[self.members[subscription]].remove(subscription)

    def _regroup(self) -> None:
        """Record that messages kept for the owner of a group may now go to any consumer."""
        self.regrouped = True
        for subscription in self.members:
            self.wake(subscription)

    @property
    def woken_room(self) -> bool:
        """Whether a woken consumer has room."""
        return any(subscription.room > 0 for subscription in self.woken)

    def next_woken_for(self, entry: Entry) -> BaseSubscription | None:
        """Return the woken consumer for an entry."""
        if entry.message.group_id is not None:
            return self._next_of_group(entry, entry.message.group_id)
        for subscription in self.woken:
            allowed = self._exclusive is None or self._exclusive is subscription
            if allowed and subscription.room > 0 and subscription.wants(entry.message):
                return subscription
        return None

    def is_wanted(self, entry: Entry, refused_by: int = 0) -> bool:
        """Return whether any consumer wants an entry that no consumer with room wants.

        :param refused_by: see :meth:`next_for_ungrouped`
        """
        if self._exclusive is not None:
            return self._exclusive.wants(entry.message)
        if entry.message.group_id is not None:
            owner = self._owner(entry.message, entry.message.group_id)
            if owner is not None:
                return owner.wants(entry.message)
        # Consumers in turn have just refused it, so their selector is not evaluated again.
        others = (
            subscription
            for subscription, number in self._numbers.items()
            if number > refused_by and subscription not in self._in_turn
        )
        return any(subscription.wants(entry.message) for subscription in others)

    def all_were_asked(self, entry: Entry) -> bool:
        """Return whether an unwanted entry was offered to every consumer."""
        return self._exclusive is None and entry.message.group_id is None

    def is_kept_for_owner(self, entry: Entry) -> bool:
        """Return whether an entry that others want may only go to its group's owner, which does not want
        it."""
        return entry.message.group_id is not None and any(
            member.wants(entry.message) for member in self.members
        )

    def _choose_exclusive(self) -> None:
        """Choose the first subscribed consumer of the highest priority."""
        every = self._policy.all_consumers_exclusive_by_default
        candidates = [member for member in self.members if every or member.request.exclusive]
        chosen = max(candidates, key=self.members.__getitem__, default=None)
        if chosen is not self._exclusive:
            self._exclusive = chosen
            for subscription in self.members:
                self.wake(subscription)


@dataclass(eq=False, repr=False)
class Assembly:
    """The wait for more consumers, so that they share the first messages or groups."""

    _loop: BrokerLoop
    _policy: PolicyEntry
    _consumers: Consumers
    _on_end: Callable[[], None]
    _timer: TimerHandle | None = None

    def joined(self) -> None:
        """Start waiting, if the policy requires it and this consumer is the first."""
        wanted = self._policy.consumers_before_dispatch_starts
        longest = self._policy.time_before_dispatch_starts
        if len(self._consumers) == 1 and self._timer is None and (wanted > 1 or (longest and not wanted)):
            self._timer = self._loop.call_later(longest or _ASSEMBLY, self._end)

    def is_waiting(self) -> bool:
        """Return whether to wait longer; the wait ends as soon as there are enough consumers."""
        if self._timer is not None:
            wanted = self._policy.consumers_before_dispatch_starts
            if 0 < wanted <= sum(consumer.begun for consumer in self._consumers):
                self._end()
        return self._timer is not None

    def _end(self) -> None:
        if self._timer is not None:
            self.close()
            self._on_end()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@dataclass(eq=False, repr=False)
class Dispatcher:
    """Offers the pending messages of a queue to its consumers.

    A message that no consumer with room wants is set aside until another consumer has room. A message that no
    consumer wants is left to the store until there are other consumers. It stays in memory if it is not
    stored, or was returned by a consumer, which the store does not know. No message overtakes a set-aside
    message of its group.
    """

    _pending: PendingMessages
    _consumers: Consumers
    _deliver: Callable[[BaseSubscription, Entry], None]

    def __post_init__(self) -> None:
        self._most_aside = 5 * self._pending.policy.max_page_size
        self._refused: dict[int, int] = {}
        """For messages left to the store, by sequence: the number up to which consumers do not want it."""
        self._left_group = False
        """Whether a message left to the store may be wanted by another owner of its group."""

    def run(self) -> None:
        """Deliver every message that can be delivered now."""
        self._run()
        while self._consumers.regrouped:
            self._consumers.regrouped = False
            if self._left_group:
                self._left_group = False
                self._pending.reconsider()
            elif not self._pending.aside.count:
                return
            self._run()

    def _run(self) -> None:
        consumers, pending = self._consumers, self._pending
        aside = pending.aside
        expired: list[Entry] = []
        if aside.count:
            self._offer_again(expired)
        consumers.woken.clear()
        while consumers.any_room and aside.count < self._most_aside:
            entry, backlog = pending.next()
            if entry is None:
                break
            if pending.is_expired(entry):
                pending.pop(backlog, entry)
                expired.append(entry)
                continue
            group_id = entry.message.group_id
            # Not remembered, because it may return with another number of redeliveries, which a selector may
            # test.
            refused_by = self._refused.pop(entry.sequence, 0) if entry.stored else 0
            if group_id is None:
                subscription = consumers.next_for_ungrouped(entry, refused_by)
            elif group_id in aside.groups:
                pending.pop(backlog, entry)
                aside.append(entry)
                continue
            else:
                subscription = consumers.next_for(entry)
            if subscription is not None:
                pending.pop(backlog, entry)
                self._deliver(subscription, entry)
            elif consumers.any_room:
                pending.pop(backlog, entry)
                self._pass_over(entry, refused_by)
        if expired:
            pending.rejections.expire(expired)

    def consumer_of_next(self, entry: Entry) -> BaseSubscription | None:
        """Return the consumer for an arriving message; None if other messages wait, or no consumer takes
        it."""
        pending = self._pending
        cursor = pending.cursor
        if cursor is None or not cursor.is_up_to_date or pending.aside.count or pending.is_expired(entry):
            return None
        return self._consumers.next_for(entry) if pending.stored.head() is None else None

    def dispatched_early(self, entry: Entry) -> None:
        """Record that an entry is stored after its delivery."""
        self._pending.in_flight.sequences.add(entry.sequence)
        if self._pending.cursor is not None:
            self._pending.cursor.skip(entry)

    def _offer_again(self, expired: list[Entry]) -> None:
        """Deliver set-aside messages to consumers that have room again."""
        consumers, pending, kept, waiting = self._consumers, self._pending, [], set()
        while pending.aside.count and consumers.woken_room:
            entry = pending.aside.pop()
            group_id = entry.message.group_id
            if pending.is_expired(entry):
                expired.append(entry)
                continue
            subscription = None if group_id in waiting else consumers.next_woken_for(entry)
            if subscription is None:
                kept.append(entry)
                if group_id is not None:
                    waiting.add(group_id)
            else:
                self._deliver(subscription, entry)
        pending.aside.insert(kept)

    def _pass_over(self, entry: Entry, refused_by: int) -> None:
        pending = self._pending
        if self._consumers.is_wanted(entry, refused_by):
            pending.aside.append(entry)
            return
        self._left_group |= self._consumers.is_kept_for_owner(entry)
        if entry.stored and pending.cursor is not None and not entry.returned:
            if self._consumers.all_were_asked(entry):
                if len(self._refused) >= _MOST_REFUSED:
                    self._refused.clear()
                self._refused[entry.sequence] = self._consumers.newest
            pending.cursor.leave(entry)
            pending.in_flight.release([entry])
        else:
            pending.unwanted.append(entry)
