"""The contract between pages and what they show: a serving broker, or a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jdbcstore.abc import Cursor, JournalState
from jdbcstore.broker.management.messages import MessageChoice, MessagePage
from jdbcstore.broker.management.views import (
    BrokerView,
    ConnectionView,
    DestinationView,
    LockEvent,
    MastershipView,
    StoreView,
    SubscriptionView,
    TransactionView,
)
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message


@dataclass(frozen=True, slots=True)
class SchemaView:
    """The schema of the database."""

    revision: str | None
    """The recorded revision."""
    found: str | None
    """The last revision that is complete."""
    missing: tuple[str, ...]
    """What a migration would do."""
    wrong: tuple[str, ...]
    """Differences that it cannot change."""


Schema = Callable[[], SchemaView]
"""Looks at the schema; called in a thread."""
Master = Callable[[], str | None]
"""Finds the address of the master's management, if it has one; called in a thread."""


class ConsoleSource(Protocol):
    """The views of a :class:`~jdbcstore.broker.management.Management`, which say what each promises."""

    def broker(self) -> BrokerView: ...

    async def destinations(self, names: Iterable[Destination] | None = None) -> list[DestinationView]: ...

    async def destination(self, name: Destination) -> DestinationView: ...

    async def with_ages(self, views: Sequence[DestinationView]) -> list[DestinationView]: ...

    def dead_letter_queues(self) -> list[Destination]: ...

    def connections(self) -> list[ConnectionView]: ...

    async def subscriptions(self, *, pending: bool = False) -> list[SubscriptionView]: ...

    async def transactions(self) -> list[TransactionView]: ...

    def lock(self) -> MastershipView: ...

    def lock_history(self) -> list[LockEvent]: ...

    async def journal(self) -> JournalState | None: ...

    async def store(self) -> StoreView: ...

    async def page(
        self, queue: Destination, choice: MessageChoice, *, after: Cursor | None = None, limit: int = 50
    ) -> MessagePage: ...

    async def message(self, queue: Destination, message_id: str) -> Message: ...
