"""The redelivered flag in the store, written before a message is delivered: ``persistJMSRedelivered``.

Another broker on the same store, jdbcstore or ActiveMQ, then knows that a consumer may have seen the message.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from jdbcstore.broker.entry import Entry, EntrySource
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.store_io.outbox import Outbox
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.errors import StoreError

log = logging.getLogger(__name__)

_MAX_BATCH = 256
"""The most messages of one write, so that no message waits for a much longer write."""

_Deliveries = list[tuple[BaseSubscription, Entry]]


@dataclass(eq=False, repr=False)
class RedeliveredMarks:
    """The redelivered flags of one queue, written together per iteration of the event loop.

    A message that waits for its flag counts as held by its consumer, and overtakes no other that waits. As in
    ActiveMQ, a delivered message has the flag for the next consumer, even if the first consumer did not look
    at it. If a flag cannot be written, this is logged, and the message is delivered.
    """

    _loop: BrokerLoop
    _outbox: Outbox
    _source: EntrySource
    _on_delivered: Callable[[], None]
    """Called when waiting messages are delivered."""
    _waiting: deque[tuple[BaseSubscription, Entry]] = field(default_factory=deque)
    _writing: int = 0
    """Running writes."""

    def deliver(self, subscription: BaseSubscription, entry: Entry) -> None:
        """Deliver an entry when its flag is written, or immediately if nothing must be written."""
        if not entry.stored or entry.message.redelivery_counter:
            subscription.deliver(entry)
            return
        subscription.reserve(entry)
        if not self._waiting:
            self._loop.schedule(self)
        self._waiting.append((subscription, entry))

    @property
    def is_delivering(self) -> bool:
        """Whether any message waits for its flag."""
        return bool(self._waiting or self._writing)

    def turn(self) -> None:
        """Write the flags of the waiting messages."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH))]
            self._writing += 1
            written = self._outbox.store.transaction()
            messages = written.queue(self._source.destination)
            try:
                for _, entry in batch:
                    messages.update_message(
                        entry.message.replace(redelivery_counter=1, sequence=entry.sequence)
                    )
            except StoreError as error:
                self._written(batch, None, error)
                continue
            size = sum(entry.size for _, entry in batch)
            self._outbox.line.submit(written.commit_async, size, partial(self._written, batch))

    def _written(self, batch: _Deliveries, _: object, error: BaseException | None) -> None:
        self._writing -= 1
        if error is not None:
            log.error(
                "%s: messages are delivered without the redelivered flag in the store: %s",
                self._source.destination,
                error,
            )
        for subscription, entry in batch:
            if entry in subscription.held:  # otherwise it was closed meanwhile
                entry.mark()
                subscription.deliver(entry)
        self._on_delivered()
