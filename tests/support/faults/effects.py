"""One call on a store, what it should come to, and whether that is what is in the tables."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from jdbcstore.errors import OutcomeUnknown, StoreUnavailable
from tests.support.crash.ledger import Tables

WAIT = 180.0
"""Seconds within which every call must end."""

Places = set[tuple[str, str]]
"""A message name in a destination, or pending for a subscription."""


@dataclass
class Call:
    """A call that adds and takes away as one, with its future or its error once it was made."""

    what: str
    adds: Places = field(default_factory=set)
    takes: Places = field(default_factory=set)
    error: BaseException | None = None

    def make(self, function: Callable[[], Any]) -> None:
        """Make the call; if it gives a future, :meth:`finish` waits for it."""
        try:
            result = function()
        except StoreUnavailable as error:
            self.error = error
        else:
            self._future = result if isinstance(result, Future) else None

    def finish(self) -> None:
        future = getattr(self, "_future", None)
        if future is not None:
            self.error = future.exception(WAIT)

    def check(self, stored: Places) -> None:
        """What is in the tables is what the caller was told."""
        done = self.adds <= stored and not self.takes & stored
        undone = not self.adds & stored and self.takes <= stored
        told = f"{self.what}, told {self.error!r}: {self.adds & stored} there, {self.takes & stored} left"
        if self.error is None:
            assert done, told
        elif isinstance(self.error, OutcomeUnknown):
            assert done or undone, told
        else:
            assert isinstance(self.error, StoreUnavailable), told
            assert undone, told


def stored_places(
    connection: Connection, topic: str, subscription: str, decoded: dict[int, tuple[str, bytes]]
) -> Places:
    """Every message in the tables, none of them twice; ``decoded`` is kept from one look to the next."""
    tables = Tables(connection, decoded)
    places = {(container, name) for container, names in tables.ids.items() for name in names}
    return places | {(subscription, name) for name in tables.pending(topic, subscription)}
