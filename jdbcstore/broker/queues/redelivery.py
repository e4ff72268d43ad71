"""Redelivery of rejected messages, with delays, until they become dead letters."""

from __future__ import annotations

import logging
import random
from asyncio import Future, TimerHandle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from jdbcstore.abc import MessageStore
from jdbcstore.broker.cursors.store import StoredRows
from jdbcstore.broker.entry import Entry, EntrySource, Wanted
from jdbcstore.broker.loop import complete, pass_on, unheard
from jdbcstore.broker.memory import Account
from jdbcstore.broker.queues.dead_letters import DeadLetters, is_dead_letter_queue
from jdbcstore.config.policy import DeadLetterStrategy, RedeliveryPolicy, SharedDeadLetterStrategy
from jdbcstore.errors import CorruptMessage, MessageNotFound
from jdbcstore.message.message import Message
from jdbcstore.message.values import Long

log = logging.getLogger(__name__)

MAX_DELAYED = 10_000
"""The most delayed entries of a queue; beyond it, the queue stops dispatching."""
_MAX_STEPS = 64
"""The most steps of the exponential back-off, so that no delay overflows."""
_BEFORE_ANOTHER_TRY = 1.0
_MARK = "redeliveryDelay"


def delay_before(policy: RedeliveryPolicy, count: int) -> float:
    """Return seconds before the next delivery of a message redelivered ``count`` times, as in ActiveMQ."""
    if count == 0:
        return policy.initial_redelivery_delay
    delay = policy.redelivery_delay
    if policy.use_exponential_back_off and policy.back_off_multiplier > 1:
        first, steps = policy.initial_redelivery_delay, count
        if not first:
            first, steps = policy.redelivery_delay, count - 1
        delay = first * policy.back_off_multiplier ** min(steps, _MAX_STEPS)
        if policy.maximum_redelivery_delay is not None:
            delay = min(delay, max(policy.maximum_redelivery_delay, policy.redelivery_delay))
    if policy.use_collision_avoidance:
        delay *= 1 + random.uniform(-1, 1) * policy.collision_avoidance_percent / 100  # noqa: S311
    return delay


def delay_mark(delay: float) -> dict[str, Any]:
    """Return the property that ActiveMQ's redelivery plug-in sets on messages sent again after a delay.

    Otherwise a JMS client whose own policy allows fewer redeliveries would reject the message unseen.
    """
    return {_MARK: Long(round(delay * 1000))}


def redelivered_again(message: Message, count: int, policy: RedeliveryPolicy | None) -> Message:
    """Return a message that was read again from the store, with its redeliveries here added."""
    if policy is None or not count:
        return message.replace(redelivery_counter=count)
    mark = delay_mark(delay_before(policy, count - 1))
    return message.replace(redelivery_counter=count, properties={**message.properties, **mark})


class Rejections:
    """Rejected and expired entries of one source: a queue, or a topic for one durable subscription.

    :param rows: the stored messages; None if no messages are stored
    """

    def __init__(
        self, account: Account, dead_letters: DeadLetters, source: EntrySource, rows: StoredRows | None
    ) -> None:
        self._loop, self._memory, self._policy = account.loop, account.memory, account.policy
        self._dead_letters, self._source, self._rows = dead_letters, source, rows
        self._subscriber = None if rows is None else rows.subscriber
        self.delayed: dict[Entry, TimerHandle] = {}
        """Entries that wait for their redelivery."""

    def reject(self, entries: Sequence[Entry], cause: str | None) -> Future[None]:
        """Redeliver or dead-letter entries according to the policy; completes when that is durable.

        :param cause: the reason from the consumer, if given
        """
        policy, strategy = self._policy.redelivery_policy, self._policy.dead_letter_strategy
        if self._subscriber is None and is_dead_letter_queue(strategy, self._source.destination):
            # Its messages have no other destination.
            policy = replace(policy or RedeliveryPolicy(), maximum_redeliveries=-1)
        dead = []
        for entry in entries:
            count = entry.message.redelivery_counter
            if policy is None or 0 <= policy.maximum_redeliveries <= count:
                dead.append(entry)
            else:
                delay = delay_before(policy, count)
                entry.redeliver(delay_mark(delay))
                self._delay(entry, delay)
        return self.reload(dead, partial(self._move_dead, cause=cause)) if dead else self._loop.done()

    def _move_dead(
        self, entries: Sequence[Entry], *, expired: bool = False, cause: str | None = None
    ) -> Future[None]:
        strategy: DeadLetterStrategy = self._policy.dead_letter_strategy
        expiry_queue = self._policy.expiry_queue
        if expired and expiry_queue is not None:
            strategy = SharedDeadLetterStrategy(dead_letter_queue=expiry_queue, process_non_persistent=True)
        return self._dead_letters.move(
            self._source, strategy, entries, expired=expired, subscriber=self._subscriber, cause=cause
        )

    def move_expired(self, entries: Sequence[Entry]) -> Future[None]:
        """Move expired entries to the dead letter queue; completes when that is durable."""
        return self._move_dead(entries, expired=True)

    def expire(self, entries: Sequence[Entry]) -> None:
        """Move expired entries like :meth:`move_expired`, without a waiting caller."""
        self.move_expired(entries).add_done_callback(unheard)

    def retain(self, entries: Sequence[Entry]) -> None:
        """Redeliver entries, a little later, that could not be dead-lettered."""
        for entry in entries:
            self._delay(entry, _BEFORE_ANOTHER_TRY)

    def _delay(self, entry: Entry, delay: float) -> None:
        self.delayed[entry] = self._loop.call_later(delay, self._end_delay, entry)

    def _end_delay(self, entry: Entry) -> None:
        if self.delayed.pop(entry, None) is not None:
            self._loop.guarded(self._source.give_back)([entry])

    def take(self, wanted: Wanted) -> list[Entry]:
        """Remove the wanted delayed entries."""
        taken = [entry for entry in self.delayed if wanted(entry)]
        for entry in taken:
            self.delayed.pop(entry).cancel()
        return taken

    def clear(self) -> list[Entry]:
        """Cancel all delays; return the delayed entries."""
        entries = [*self.delayed]
        for timer in self.delayed.values():
            timer.cancel()
        self.delayed.clear()
        return entries

    def reload(
        self, entries: Sequence[Entry], go_on: Callable[[Sequence[Entry]], Future[None]]
    ) -> Future[None]:
        """Call ``go_on`` when all entries have their messages in memory, which is mostly immediately.

        If the store cannot be read, the source retains the entries. Entries removed from the store meanwhile
        count as acknowledged. Damaged ones stay in the store, and fail the future once the others are done.
        """
        unloaded, rows = [entry for entry in entries if entry.is_unloaded], self._rows
        if not unloaded or rows is None:
            return go_on(entries)
        promise: Future[None] = self._loop.create_future()
        read = partial(_read_all, rows.store, [entry.sequence for entry in unloaded])
        self._loop.run_before_write(read, partial(self._reloaded, entries, unloaded, go_on, promise))
        return promise

    def _reloaded(
        self,
        entries: Sequence[Entry],
        unloaded: Sequence[Entry],
        go_on: Callable[[Sequence[Entry]], Future[None]],
        promise: Future[None],
        reading: Future[list[Message | CorruptMessage | None]],
    ) -> None:
        error = reading.exception()
        if error is not None:
            self._source.retain(entries)
            complete(promise, error)
            return
        gone, damaged = list[Entry](), dict[Entry, CorruptMessage]()
        for entry, message in zip(unloaded, reading.result(), strict=True):
            if message is None:
                gone.append(entry)
            elif isinstance(message, CorruptMessage):
                log.error("a message cannot be read, and stays in its queue: %s", message)
                damaged[entry] = message
            else:
                entry.reload(message, self._memory)
        if gone:
            self._source.acknowledged(gone)
        done = go_on([entry for entry in entries if entry not in gone and entry not in damaged])
        if damaged:
            done.add_done_callback(unheard)
            done.add_done_callback(lambda _: complete(promise, next(iter(damaged.values()))))
        else:
            done.add_done_callback(partial(pass_on, promise))


def _read_all(store: MessageStore, sequences: Sequence[int]) -> list[Message | CorruptMessage | None]:
    """Read messages; None for removed ones, the error for damaged ones; called in a thread."""
    return [_read(store, sequence) for sequence in sequences]


def _read(store: MessageStore, sequence: int) -> Message | CorruptMessage | None:
    try:
        return store.get_message(sequence)
    except MessageNotFound:
        return None
    except CorruptMessage as error:
        return error
