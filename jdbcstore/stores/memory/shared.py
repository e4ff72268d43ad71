"""What the destinations of one memory store share, and how they change anything."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jdbcstore.abc import MessageReference, PreparedWrites, Progress, SubscriptionInfo
from jdbcstore.config.types import NameLengths
from jdbcstore.errors import StoreClosed, TransactionError
from jdbcstore.message.message import XATransactionId
from jdbcstore.stores.memory.shelf import Shelf
from jdbcstore.stores.shared.audit import DuplicateAudit
from jdbcstore.stores.shared.checkpoint import FindBody, JournalMark
from jdbcstore.stores.shared.checks import prepared_before
from jdbcstore.stores.shared.encoding import MessageEncoder
from jdbcstore.util.clock import Clock

REMOVE_BATCH = 1_000
"""Messages that a purge, sweep or cleanup removes before it lets others in."""


def _nothing() -> None:
    return None


class Held(NamedTuple):
    """A write of a prepared transaction, which nothing else touches; both functions run under the lock."""

    what: PreparedWrites
    commit: Callable[[], object]
    rollback: Callable[[], object]


def _cannot_be_held() -> Held | None:
    raise TransactionError("this write cannot be prepared")


class Write(NamedTuple):
    """A write that has been checked and encoded; all functions run under the store's lock."""

    apply: Callable[[], MessageReference | None]
    check: Callable[[], None] = _nothing
    """Raises if it can no longer be applied; called for all writes of a transaction before the first."""
    hold: Callable[[], Held | None] = _cannot_be_held
    """Prepares it instead of applying it; None if that comes to nothing."""


@dataclass(slots=True)
class Shared:
    """What the destinations of one store share."""

    encoder: MessageEncoder
    audit: DuplicateAudit | None
    clock: Clock
    lengths: NameLengths
    lock: threading.Lock = field(default_factory=threading.Lock)
    last_sequence: int = 0
    mark: JournalMark | None = None
    left: dict[int, int] = field(default_factory=dict)
    """Marks of journals that were left."""
    find_body: FindBody | None = None
    prepared: dict[XATransactionId, list[Held]] = field(default_factory=dict)
    closed: bool = False

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Alone with everything; :class:`StoreClosed` if the store is closed."""
        with self.lock:
            if self.closed:
                raise StoreClosed()
            yield

    def write(self, writes: Sequence[Write]) -> list[MessageReference]:
        """Apply all or none; the references of the messages added."""
        with self.entered():
            for write in writes:
                write.check()
            return [reference for write in writes if (reference := write.apply()) is not None]

    def prepare(self, xid: XATransactionId, writes: Sequence[Write]) -> bool:
        """Hold all or none; whether there is anything to decide."""
        with self.entered():
            if xid in self.prepared:
                raise prepared_before(xid)
            for write in writes:
                write.check()
            held = [held for write in writes if (held := write.hold()) is not None]
            if held:
                self.prepared[xid] = held
            return bool(held)

    def unsubscribed(self, info: SubscriptionInfo) -> None:
        """Prepared transactions acknowledge nothing for it any more; the lock is held."""
        gone = (info.destination, info.client_id, info.subscription_name)
        for held in self.prepared.values():
            held[:] = [
                one for one in held
                if (one.what.destination, one.what.client_id, one.what.subscription_name) != gone
            ]  # fmt: skip

    def remove(
        self,
        shelf: Shelf,
        find: Callable[[], Iterable[int]],
        progress: Progress | None,
        still: Callable[[int], bool] = lambda _: True,
    ) -> int:
        """Remove what is found and is ``still`` to go, letting others in now and then; how many."""
        with self.entered():
            doomed = list(find())
        total = 0
        for start in range(0, len(doomed), REMOVE_BATCH):
            with self.entered():
                removed = sum(map(shelf.remove, filter(still, doomed[start : start + REMOVE_BATCH])))
            total += removed
            if progress is not None and removed:
                progress(removed)
        return total
