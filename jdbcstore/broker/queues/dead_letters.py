"""Where messages go that nobody could consume, or that have expired.

The dead letter is added and the message acknowledged in one transaction of the store, so a crash
leaves it in one place.
"""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any

from jdbcstore.abc import MessageReference, Transaction
from jdbcstore.broker.entry import Entry, Source
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.store_io.transaction import Target
from jdbcstore.config.policy import (
    DeadLetterStrategy,
    DiscardingDeadLetterStrategy,
    IndividualDeadLetterStrategy,
    SharedDeadLetterStrategy,
)
from jdbcstore.errors import CorruptMessage, OutcomeUnknown, StoreError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.message import Message, MessageId

log = logging.getLogger(__name__)

CAUSE = "dlqDeliveryFailureCause"
ORIGINAL_EXPIRATION = "originalExpiration"
ORIGINAL_DELIVERY_MODE = "originalDeliveryMode"

_Keeping = SharedDeadLetterStrategy | IndividualDeadLetterStrategy
_Staged = list[tuple[Target, Message, bool]]


def expired(message: Message) -> str:
    """The cause of death of an expired message, in ActiveMQ's words."""
    return f"java.lang.Throwable: Message Expired. Expiration:{message.expiration_ms}"


def dead_letter_queue(
    strategy: DeadLetterStrategy, destination: Destination, subscriber: str | None = None
) -> Destination | None:
    """Where the dead letters of a destination go; None if they are dropped.

    ``subscriber`` is ``client id:name`` of a durable one.
    """
    if isinstance(strategy, DiscardingDeadLetterStrategy):
        return None
    if not isinstance(strategy, IndividualDeadLetterStrategy):
        return Destination.queue(strategy.dead_letter_queue)
    if destination.is_topic:
        prefix, suffix, queue = (
            strategy.topic_prefix,
            strategy.topic_suffix,
            strategy.use_queue_for_topic_messages,
        )
    else:
        prefix, suffix, queue = (
            strategy.queue_prefix,
            strategy.queue_suffix,
            strategy.use_queue_for_queue_messages,
        )
    own = f".{subscriber}" if subscriber and strategy.destination_per_durable_subscriber else ""
    kind = DestinationKind.QUEUE if queue else DestinationKind.TOPIC
    return Destination(kind, f"{prefix}{destination.name}{own}{suffix}")


def is_dead_letter_queue(strategy: DeadLetterStrategy, destination: Destination) -> bool:
    """Whether what is in there is dead already."""
    if isinstance(strategy, DiscardingDeadLetterStrategy):
        return False
    if isinstance(strategy, IndividualDeadLetterStrategy):
        return destination.name.startswith((strategy.queue_prefix, strategy.topic_prefix))
    return destination == Destination.queue(strategy.dead_letter_queue)


def renamed(message_id: MessageId | None) -> MessageId | None:
    """An id that prints as this one, and that a store's audit has not seen: it gets columns of its own."""
    return None if message_id is None else MessageId(None, 0, 0, str(message_id))


class DeadLetters:
    """Moves entries of any source to where its policy says."""

    def __init__(self, parts: Parts, find: Callable[[Destination], Target], *, audited: bool = False) -> None:
        self._parts = parts
        self._find = find
        self._audited = audited
        """The store drops ids that it has seen before, in whatever destination."""

    def bury(
        self,
        source: Source,
        strategy: DeadLetterStrategy,
        entries: Sequence[Entry],
        cause: Callable[[Message], str],
        *,
        is_expiry: bool = False,
        subscriber: str | None = None,
    ) -> Future[None]:
        """Done when it is durable. When it fails, the source is asked to retain the entries.

        The entries are with no consumer.
        """
        written = self._parts.store.transaction()
        try:
            staged = self._stage(written, source, strategy, entries, cause, is_expiry, subscriber)
            is_written = source.stage_acknowledgement(written, entries)
        except CorruptMessage as error:
            # It stays stored, and is looked at again after a restart.
            log.error("a dead letter cannot be read and stays where it is: %s", error)
            return self._parts.failed(error)
        except StoreError as error:
            source.retain(entries)
            return self._parts.failed(error)
        if not is_written and not any(stored for _, _, stored in staged):
            self._buried(source, entries, staged, [])
            return self._parts.done()
        promise: Future[None] = self._parts.loop.create_future()

        def end(references: list[MessageReference], error: BaseException | None) -> None:
            if error is None:
                self._buried(source, entries, staged, references)
                self._parts.settle(promise, None)
                return
            log.warning("%s: dead letters could not be moved: %s", source.destination, error)
            if isinstance(error, OutcomeUnknown):
                for target, _, _ in staged:
                    target.lose_sight()
            source.retain(entries)
            self._parts.settle(promise, error)

        self._parts.line.submit(written.commit_async, sum(entry.size for entry in entries), end)
        return promise

    def _stage(
        self,
        written: Transaction,
        source: Source,
        strategy: DeadLetterStrategy,
        entries: Sequence[Entry],
        cause: Callable[[Message], str],
        is_expiry: bool,
        subscriber: str | None,
    ) -> _Staged:
        place = dead_letter_queue(strategy, source.destination, subscriber)
        if isinstance(strategy, DiscardingDeadLetterStrategy) or place is None:
            return []
        target, staged = self._find(place), []
        for entry in entries:
            if self._is_kept(strategy, source, entry, is_expiry):
                dead = self._dead(strategy, entry.message, place, cause(entry.message))
                staged.append((target, dead, target.stage(written, dead)))
        return staged

    def _is_kept(self, strategy: _Keeping, source: Source, entry: Entry, is_expiry: bool) -> bool:
        if is_expiry and not strategy.process_expired:
            return False
        if not entry.message.persistent and not strategy.process_non_persistent:
            return False
        return not is_dead_letter_queue(strategy, source.destination)

    def _dead(self, strategy: _Keeping, message: Message, place: Destination, cause: str) -> Message:
        properties: dict[str, Any] = dict(message.properties)
        expiration_ms = 0
        if strategy.expiration:
            expiration_ms = self._parts.clock.now_ms() + round(strategy.expiration * 1000)
        else:
            properties.setdefault(ORIGINAL_EXPIRATION, message.expiration_ms)
        if not message.persistent:
            properties[ORIGINAL_DELIVERY_MODE] = "NON_PERSISTENT"
        properties[CAUSE] = cause
        return message.replace(
            destination=place,
            original_destination=message.destination,
            transaction_id=None,
            original_transaction_id=message.transaction_id,
            expiration_ms=expiration_ms,
            persistent=True,
            redelivery_counter=0,
            properties=properties,
            message_id=renamed(message.message_id) if self._audited else message.message_id,
            sequence=None,
        )

    def _buried(
        self, source: Source, entries: Sequence[Entry], staged: _Staged, references: list[MessageReference]
    ) -> None:
        stored = iter(references)
        for target, dead, is_stored in staged:
            target.arrive(dead, next(stored) if is_stored else None, "")
        source.acknowledged(entries)
