"""A message store in a relational database, in ActiveMQ's tables.

>>> import jdbcstore
>>> with jdbcstore.open("sqlite:///mq.db") as store:
...     store.queue("ORDERS").add_message(jdbcstore.Message("two pints"))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    import threading
    from types import EllipsisType

    from jdbcstore.abc import (
        Cursor,
        DurableSubscription,
        MessageReference,
        MessageStore,
        Page,
        PreparedTransaction,
        PreparedWrites,
        Statistics,
        Store,
        SubscriptionInfo,
        TopicMessageStore,
        Transaction,
        XAResource,
        XATransaction,
        pages,
    )
    from jdbcstore.abc import Progress as _Progress
    from jdbcstore.analytics.arrow import read_arrow
    from jdbcstore.config import Configuration, StoreConfig, load_config
    from jdbcstore.errors import StoreError
    from jdbcstore.message.destination import Destination, DestinationKind
    from jdbcstore.message.ids import MessageId, ProducerId, XATransactionId
    from jdbcstore.message.message import BodyType, Message
    from jdbcstore.stores.claims import AsyncClaims, Claims
    from jdbcstore.stores.inbox import Inbox
    from jdbcstore.stores.jdbc.store import JdbcStore
    from jdbcstore.stores.journaled import JournaledStore
    from jdbcstore.stores.memory import MemoryStore
    from jdbcstore.util.clock import Clock
    from jdbcstore.util.futures import StoreFuture

__all__ = [
    "AsyncClaims",
    "BodyType",
    "Claims",
    "Clock",
    "Configuration",
    "Cursor",
    "Destination",
    "DestinationKind",
    "DurableSubscription",
    "Inbox",
    "JdbcStore",
    "JournaledStore",
    "MemoryStore",
    "Message",
    "MessageId",
    "MessageReference",
    "MessageStore",
    "Page",
    "PreparedTransaction",
    "PreparedWrites",
    "ProducerId",
    "Statistics",
    "Store",
    "StoreConfig",
    "StoreError",
    "StoreFuture",
    "SubscriptionInfo",
    "TopicMessageStore",
    "Transaction",
    "XAResource",
    "XATransaction",
    "XATransactionId",
    "load_config",
    "open",
    "pages",
    "read_arrow",
]

_MODULES = {
    "abc": (
        *("Cursor", "DurableSubscription", "MessageReference", "MessageStore", "Page", "PreparedTransaction"),
        *("PreparedWrites", "Statistics", "Store", "SubscriptionInfo", "TopicMessageStore", "Transaction"),
        *("XAResource", "XATransaction", "pages"),
    ),
    "analytics.arrow": ("read_arrow",),
    "config": ("Configuration", "StoreConfig", "load_config"),
    "errors": ("StoreError",),
    "message.destination": ("Destination", "DestinationKind"),
    "message.ids": ("MessageId", "ProducerId", "XATransactionId"),
    "message.message": ("BodyType", "Message"),
    "stores.claims": ("AsyncClaims", "Claims"),
    "stores.inbox": ("Inbox",),
    "stores.jdbc.store": ("JdbcStore",),
    "stores.journaled": ("JournaledStore",),
    "stores.memory": ("MemoryStore",),
    "util.clock": ("Clock",),
    "util.futures": ("StoreFuture",),
}
_PLACES = {name: f"jdbcstore.{module}" for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name, or a module of this package, when it is first used: SQLAlchemy takes long."""
        try:
            place = _PLACES.get(name)
            value = getattr(import_module(place), name) if place else import_module(f"jdbcstore.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"jdbcstore.{name}":
                raise
            raise AttributeError(f"module 'jdbcstore' has no attribute {name!r}") from None
        globals()[name] = value
        return value


def open(  # noqa: A001
    where: str | Configuration,
    config: StoreConfig | None = None,
    *,
    clock: Clock | None = None,
    lock_timeout: float | None = None,
    cancel: threading.Event | None = None,
    progress: _Progress | None = None,
    locker: EllipsisType | None = ...,
    **options: Any,
) -> Store:
    """Open the store of a URL or of a :class:`Configuration`, with :class:`StoreConfig`'s options.

    A SQLAlchemy or JDBC URL opens a :class:`JdbcStore` in a database, and creates missing tables unless
    ``create_tables_on_startup`` is false. ``memory:`` opens a :class:`MemoryStore`. Options override those
    of ``config`` and of the configuration. ``clock`` replaces the machine's clocks, for tests.

    A configuration with a locker opens the store as master: it waits for the lock up to ``lock_timeout``
    seconds, by default without limit, and stops waiting when the event ``cancel`` is set. Without a locker
    the store does not open while another process holds the lock of its tables, because both would deliver
    the same messages; ``locker=None`` takes no lock and looks for none. ``progress`` is called with the
    number of further records read while a journal is recovered.

    :raises ConfigurationError: the URL or an option is not valid
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are missing, or are not ActiveMQ's
    :raises JournalPending: a journal that is not configured has messages that the database does not have
    :raises CorruptJournal: the configured journal is damaged before its end
    :raises NotMaster: another process still holds the lock after ``lock_timeout``, or claims messages
    :raises StoreClosed: the wait for the lock was cancelled
    """
    from dataclasses import replace

    from jdbcstore.config import Configuration, StoreConfig
    from jdbcstore.stores.opening import MEMORY, Opening

    if isinstance(where, Configuration):
        where = replace(where, store=(config or where.store).replace(**options))
        return Opening(
            where, clock=clock, lock_timeout=lock_timeout, cancel=cancel, progress=progress, locker=locker
        ).open()
    config = (config or StoreConfig()).replace(**options)
    if where == MEMORY:
        from jdbcstore.stores.memory import MemoryStore

        return MemoryStore(config, clock=clock)
    from jdbcstore.stores.jdbc.store import JdbcStore

    return JdbcStore(where, config, clock=clock, locker=locker)
