"""Dead letter queues, for messages that were rejected too often or expired.

One transaction of the store adds the dead letter and removes the message.
"""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jdbcstore.abc import Transaction
from jdbcstore.broker.amending import with_expiration
from jdbcstore.broker.api import MessageEventKind
from jdbcstore.broker.attempts import Attempts
from jdbcstore.broker.entry import Entry, EntrySource
from jdbcstore.broker.events import MessageEvents
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.queues.moves import Moves, Staged
from jdbcstore.broker.store_io.transaction import SendTarget
from jdbcstore.config.plugins import DiscardingDeadLettersConfig
from jdbcstore.config.policy import (
    DeadLetterStrategy,
    DiscardingDeadLetterStrategy,
    IndividualDeadLetterStrategy,
    PolicyEntry,
    SharedDeadLetterStrategy,
)
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.dead_letters import ATTEMPTS, CAUSE, ORIGINAL_DELIVERY_MODE, ORIGINAL_EXPIRATION
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)

_REJECTED = "Rejected by its consumer"

_Keeping = SharedDeadLetterStrategy | IndividualDeadLetterStrategy


def dead_letter_queue(
    strategy: DeadLetterStrategy, destination: Destination, subscriber: str | None = None
) -> Destination | None:
    """Return the dead letter queue of a destination; None if dead letters are discarded.

    :param subscriber: ``client id:name`` of a durable subscription
    """
    if isinstance(strategy, DiscardingDeadLetterStrategy):
        return None
    if not isinstance(strategy, IndividualDeadLetterStrategy):
        return Destination.queue(strategy.dead_letter_queue)
    if destination.is_topic:
        prefix, suffix = strategy.topic_prefix, strategy.topic_suffix
        queue = strategy.use_queue_for_topic_messages
    else:
        prefix, suffix = strategy.queue_prefix, strategy.queue_suffix
        queue = strategy.use_queue_for_queue_messages
    own = f".{subscriber}" if subscriber and strategy.destination_per_durable_subscriber else ""
    kind = DestinationKind.QUEUE if queue else DestinationKind.TOPIC
    return Destination(kind, f"{prefix}{destination.name}{own}{suffix}")


def is_dead_letter_queue(strategy: DeadLetterStrategy, destination: Destination) -> bool:
    """Return whether the messages of a destination are already dead letters."""
    if isinstance(strategy, DiscardingDeadLetterStrategy):
        return False
    if isinstance(strategy, IndividualDeadLetterStrategy):
        return destination.name.startswith((strategy.queue_prefix, strategy.topic_prefix))
    return destination == Destination.queue(strategy.dead_letter_queue)


def renamed(message_id: MessageId | None) -> MessageId | None:
    """Return an id with the same string but other columns, so that an audit does not drop it as a
    duplicate."""
    return None if message_id is None else MessageId(None, 0, 0, str(message_id))


class DiscardedDeadLetters:
    """The dead letters dropped by ActiveMQ's ``discardingDLQBrokerPlugin``, counted in the log."""

    def __init__(self, plugins: Sequence[DiscardingDeadLettersConfig]) -> None:
        self._plugins = plugins
        self._counts = [0] * len(plugins)

    def has(self, destination: Destination) -> bool:
        """Return whether the dead letters of a destination are dropped."""
        return any(_discards(plugin, destination) for plugin in self._plugins)

    def count(self, destination: Destination, dropped: int) -> None:
        """Log the total number of dropped dead letters periodically."""
        for number, plugin in enumerate(self._plugins):
            if not _discards(plugin, destination):
                continue
            before, self._counts[number] = self._counts[number], self._counts[number] + dropped
            every = plugin.report_interval
            if every > 0 and before // every != self._counts[number] // every:
                log.info(
                    "%d dead letters were dropped by the discardingDLQBrokerPlugin", self._counts[number]
                )


def _discards(plugin: DiscardingDeadLettersConfig, destination: Destination) -> bool:
    if plugin.drop_all:
        return True
    if destination.is_temporary and (
        plugin.drop_temporary_topics if destination.is_topic else plugin.drop_temporary_queues
    ):
        return True
    return any(pattern.fullmatch(destination.name) for pattern in plugin.patterns)


def _is_kept(strategy: DeadLetterStrategy, entry: Entry) -> bool:
    """Return whether a rejected or expired message becomes a dead letter."""
    if isinstance(strategy, DiscardingDeadLetterStrategy):
        return False
    return entry.message.persistent or strategy.process_non_persistent


@dataclass(eq=False, repr=False)
class DeadLetters:
    """Moves entries of any source to the dead letter queue of its policy."""

    _loop: BrokerLoop
    _moves: Moves
    _find: Callable[[Destination], SendTarget]
    """The queue or topic of a name."""
    _policy_of: Callable[[Destination], PolicyEntry]
    _audited: bool
    """Whether the store drops a message id that it has seen before in any destination."""
    _events: MessageEvents
    _attempts: Attempts = field(default_factory=Attempts)
    _discarded: DiscardedDeadLetters = field(default_factory=lambda: DiscardedDeadLetters(()))

    def move(
        self,
        source: EntrySource,
        strategy: DeadLetterStrategy,
        entries: Sequence[Entry],
        *,
        expired: bool,
        subscriber: str | None,
        cause: str | None = None,
    ) -> Future[None]:
        """Move entries without a consumer; completes when that is durable.

        If it fails, the source retains the entries. Entries with damaged properties stay stored, and are
        tried again after a restart.

        :param expired: whether they have expired; otherwise their consumers rejected them
        :param cause: the reason from the consumers, if given
        """
        damaged: dict[Entry, CorruptMessage] = {}
        if self._discarded.has(source.destination):
            strategy = DiscardingDeadLetterStrategy()
            self._discarded.count(source.destination, len(entries))

        def stage(written: Transaction) -> tuple[Sequence[Entry], Staged]:
            staged = self._stage(written, source, strategy, entries, expired, subscriber, cause, damaged)
            moved = [entry for entry in entries if entry not in damaged] if damaged else entries
            gone[:] = [entry.message for entry in moved] if expired else []
            dead[:] = [entry.message for entry in moved if _is_kept(strategy, entry)] if staged else []
            return moved, staged

        def count(done: Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._attempts.forget([entry.key for entry in entries], subscriber)
                source.counters.expired += len(gone)
                source.counters.dead += len(dead)
                self._events.happened(MessageEventKind.EXPIRED, source.destination, gone)
                self._events.happened(MessageEventKind.DEAD, source.destination, dead)

        gone: list[Message] = []
        dead: list[Message] = []
        done = self._moves.move(source, entries, stage, "dead letters")
        done.add_done_callback(count)
        if len(damaged) == len(entries) > 0:
            return self._loop.failed(next(iter(damaged.values())))
        return done

    def _stage(
        self,
        written: Transaction,
        source: EntrySource,
        strategy: DeadLetterStrategy,
        entries: Sequence[Entry],
        expired: bool,
        subscriber: str | None,
        cause: str | None,
        damaged: dict[Entry, CorruptMessage],
    ) -> Staged:
        queue = dead_letter_queue(strategy, source.destination, subscriber)
        if isinstance(strategy, DiscardingDeadLetterStrategy) or queue is None:
            return []
        if (expired and not strategy.process_expired) or is_dead_letter_queue(strategy, source.destination):
            return []
        target, now_ms = self._find(queue), self._loop.clock.now_ms()
        staged: list[tuple[SendTarget, Message, bool]] = []
        for entry in entries:
            if _is_kept(strategy, entry):
                try:
                    dead = self._dead_letter(
                        strategy,
                        entry.message,
                        queue,
                        expired,
                        cause,
                        self._attempts.lines(entry.key, subscriber),
                    )
                except CorruptMessage as error:
                    log.error("a dead letter cannot be read, and stays in its queue: %s", error)
                    damaged[entry] = error
                    continue
                dead = with_expiration(dead, self._policy_of(queue), now_ms)
                staged.append((target, dead, target.stage(written, dead)))
        return staged

    def _dead_letter(
        self,
        strategy: _Keeping,
        message: Message,
        queue: Destination,
        expired: bool,
        cause: str | None,
        attempts: str,
    ) -> Message:
        properties: dict[str, Any] = dict(message.properties)
        now_ms, expiration_ms = self._loop.clock.now_ms(), 0
        if strategy.expiration:
            expiration_ms = now_ms + round(strategy.expiration * 1000)
        else:
            properties.setdefault(ORIGINAL_EXPIRATION, message.expiration_ms)
        if not message.persistent:
            properties[ORIGINAL_DELIVERY_MODE] = "NON_PERSISTENT"
        # ActiveMQ's text.
        if expired:
            cause = f"Message Expired. Expiration:{message.expiration_ms}"
        properties[CAUSE] = f"java.lang.Throwable: {cause or _REJECTED}"
        if attempts:
            properties[ATTEMPTS] = attempts
        return message.replace(
            destination=queue,
            original_destination=message.destination,
            transaction_id=None,
            original_transaction_id=message.transaction_id,
            expiration_ms=expiration_ms,
            broker_in_time_ms=now_ms,
            persistent=True,
            redelivery_counter=0,
            properties=properties,
            message_id=renamed(message.message_id) if self._audited else message.message_id,
            sequence=None,
        )
