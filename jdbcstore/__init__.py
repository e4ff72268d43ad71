"""A relational message store on ActiveMQ's own tables.

>>> import jdbcstore
>>> with jdbcstore.open("sqlite:///mq.db") as store:
...     store.queue("ORDERS").add_message(jdbcstore.Message("two pints"))
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

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
from jdbcstore.config import Configuration, StoreConfig, load_config
from jdbcstore.errors import StoreError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId, ProducerId, XATransactionId
from jdbcstore.message.message import BodyType, Message
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.stores.memory import MemoryStore
from jdbcstore.stores.opening import MEMORY as _MEMORY
from jdbcstore.stores.opening import Opening as _Opening
from jdbcstore.util.clock import Clock
from jdbcstore.util.futures import StoreFuture

__all__ = [
    "BodyType",
    "Clock",
    "Configuration",
    "Cursor",
    "Destination",
    "DestinationKind",
    "DurableSubscription",
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
]


def open(  # noqa: A001
    where: str | Configuration,
    config: StoreConfig | None = None,
    *,
    clock: Clock | None = None,
    lock_timeout: float | None = None,
    give_up: threading.Event | None = None,
    progress: _Progress | None = None,
    **options: Any,
) -> Store:
    """Open the store of a URL or of a :class:`Configuration`, with :class:`StoreConfig`'s options.

    A SQLAlchemy or JDBC URL opens the :class:`JdbcStore` in a database, and creates its tables where
    they are absent, unless ``create_tables_on_startup`` is false. ``memory:`` opens a
    :class:`MemoryStore`. An option given here wins over that of ``config`` or of the configuration.

    A configuration with a locker opens a store once it is the master, for which it waits at most
    ``lock_timeout`` seconds, or as long as it takes, and not once ``give_up`` is set. ``progress`` hears of
    the records that are read of a journal: how many more, each time.

    :raises ConfigurationError: the URL or an option cannot work
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are absent, or are not ActiveMQ's
    :raises NotMaster: another holds the lock, and is waited for no longer
    :raises StoreClosed: another held it when the wait was given up
    """
    if isinstance(where, Configuration):
        where = replace(where, store=(config or where.store).replace(**options))
        return _Opening(
            where, clock=clock, lock_timeout=lock_timeout, give_up=give_up, progress=progress
        ).open()
    config = (config or StoreConfig()).replace(**options)
    if where == _MEMORY:
        return MemoryStore(config, clock=clock)
    return JdbcStore(where, config, clock=clock)
