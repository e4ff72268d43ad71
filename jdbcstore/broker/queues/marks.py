"""The redelivered flag in the store, written before a message is delivered: ``persistJMSRedelivered``.

Another broker on the same store, of either kind, then knows of a message that a consumer may have seen.
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
"""Messages of one write: none waits for a much longer one."""

_Deliveries = list[tuple[BaseSubscription, Entry]]


@dataclass(eq=False, repr=False)
class RedeliveredMarks:
    """The marks of one queue: those of a turn of the loop are written together.

    A message waits for its mark as one that its consumer holds, and overtakes no other that does. As in
    ActiveMQ a message that was delivered comes with the flag to the next consumer, whether the first one has
    looked at it or not. If a mark cannot be written, the log says so, and the message is delivered.
    """

    _loop: BrokerLoop
    _outbox: Outbox
    _source: EntrySource
    _on_delivered: Callable[[], None]
    """Called when messages that were waiting are delivered."""
    _waiting: deque[tuple[BaseSubscription, Entry]] = field(default_factory=deque)
    _writing: int = 0
    """Writes under way."""

    def deliver(self, subscription: BaseSubscription, entry: Entry) -> None:
        """Deliver an entry, once it is marked: at once if it has to wait for nothing."""
        if not entry.stored or entry.message.redelivery_counter:
            subscription.deliver(entry)
            return
        subscription.reserve(entry)
        if not self._waiting:
            self._loop.schedule(self)
        self._waiting.append((subscription, entry))

    @property
    def is_delivering(self) -> bool:
        """Whether any message waits for its mark."""
        return bool(self._waiting or self._writing)

    def turn(self) -> None:
        """Write the marks of the messages that wait."""
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
                "%s: messages are delivered without a mark in the store: %s",
                self._source.destination,
                error,
            )
        for subscription, entry in batch:
            if entry in subscription.held:  # else it was closed meanwhile
                entry.mark()
                subscription.deliver(entry)
        self._on_delivered()
