"""The duplicate audit: the message ids seen recently, in bounded memory.

ActiveMQ's ``enableAudit``: per producer a window of the last ``max_audit_depth`` sequences, for the
``max_producers_to_audit`` producers that sent last. It spans all destinations of a store, so a
message id sent to two destinations is a duplicate in the second.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jdbcstore.abc import MessageReference
from jdbcstore.stores.shared.rows import EncodedMessage


@dataclass(slots=True)
class _Window:
    """Bit ``n`` of ``seen`` is the sequence ``highest - n``."""

    highest: int
    seen: int = 1


class DuplicateAudit:
    """The ids seen of each producer. Thread-safe. Ids below its window count as new, as in ActiveMQ."""

    def __init__(self, max_producers: int, depth: int) -> None:
        self._max_producers = max_producers
        self._depth = depth
        self._lock = threading.Lock()
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def is_duplicate(self, producer: str, sequence: int) -> bool:
        """Return whether the id was seen before; from now on it was."""
        with self._lock:
            window = self._windows.get(producer)
            if window is None:
                self._windows[producer] = _Window(sequence)
                if len(self._windows) > self._max_producers:
                    self._windows.popitem(last=False)
                return False
            self._windows.move_to_end(producer)
            return self._see(window, sequence)

    def has_seen(self, producer: str, sequence: int) -> bool:
        """Return whether the id was seen; either way its producer counts as the last sender."""
        with self._lock:
            window = self._windows.get(producer)
            if window is None:
                return False
            self._windows.move_to_end(producer)
            behind = window.highest - sequence
            return 0 <= behind <= self._depth and bool(window.seen >> behind & 1)

    def _see(self, window: _Window, sequence: int) -> bool:
        behind = window.highest - sequence
        if behind < 0:
            kept = window.seen << -behind if -behind <= self._depth else 0
            window.seen = (kept | 1) & ((1 << self._depth + 1) - 1)
            window.highest = sequence
            return False
        if behind > self._depth:
            return False
        bit = 1 << behind
        duplicate = bool(window.seen & bit)
        window.seen |= bit
        return duplicate

    def forget(self, producer: str, sequence: int) -> None:
        """Note that the message was not stored after all, and may be sent again."""
        with self._lock:
            window = self._windows.get(producer)
            if window is not None and 0 <= window.highest - sequence <= self._depth:
                window.seen &= ~(1 << window.highest - sequence)


def with_duplicates(
    messages: Sequence[EncodedMessage], is_new: Sequence[bool], stored: Iterable[MessageReference]
) -> list[MessageReference]:
    """Return the references of all messages, given those of the new ones; a duplicate has the sequence -1."""
    references = iter(stored)
    return [
        next(references) if new else MessageReference(-1, message.message_id)
        for message, new in zip(messages, is_new, strict=True)
    ]
