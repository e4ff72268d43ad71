"""Moves of messages between destinations, each in one transaction of the store.

A message is added to its new place and removed from the old one together, so it is in one place after a
crash.
"""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jdbcstore.abc import MessageReference, Transaction
from jdbcstore.broker.entry import Entry, EntrySource
from jdbcstore.broker.loop import BrokerLoop, complete
from jdbcstore.broker.store_io.outbox import Outbox
from jdbcstore.broker.store_io.transaction import SendTarget
from jdbcstore.errors import OutcomeUnknown, StoreError
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)

Staged = list[tuple[SendTarget, Message, bool]]
"""Each new place, the message for it, and whether it is stored there."""


@dataclass(eq=False, repr=False)
class Moves:
    """Moves entries without a consumer."""

    _loop: BrokerLoop
    _outbox: Outbox

    def move(
        self,
        source: EntrySource,
        entries: Sequence[Entry],
        stage: Callable[[Transaction], tuple[Sequence[Entry], Staged]],
        what: str,
    ) -> Future[None]:
        """Move entries of a source; completes when that is durable.

        If it fails, the source retains the entries.

        :param stage: adds the messages to a transaction of the store; returns the entries to remove from the
            source, and the new places of their messages. Without entries, nothing is done
        :param what: the messages, for the log
        """
        written = self._outbox.store.transaction()
        try:
            moved, staged = stage(written)
            is_written = source.stage_acknowledgement(written, moved)
        except StoreError as error:
            source.retain(entries)
            return self._loop.failed(error)
        if not moved:
            return self._loop.done()
        if not is_written and not any(stored for _, _, stored in staged):
            _arrive(source, moved, staged, [])
            return self._loop.done()
        promise: Future[None] = self._loop.create_future()

        def end(references: list[MessageReference], error: BaseException | None) -> None:
            if error is None:
                _arrive(source, moved, staged, references)
                complete(promise, None)
                return
            log.warning("%s: %s could not be moved: %s", source.destination, what, error)
            if isinstance(error, OutcomeUnknown):
                for target, _, _ in staged:
                    target.resync()
            source.retain(moved)
            complete(promise, error)

        self._outbox.line.submit(written.commit_async, sum(entry.size for entry in moved), end)
        return promise


def _arrive(
    source: EntrySource, entries: Sequence[Entry], staged: Staged, references: Sequence[MessageReference]
) -> None:
    stored = iter(references)
    for target, message, is_stored in staged:
        target.arrive(message, next(stored) if is_stored else None, "")
    source.acknowledged(entries)
