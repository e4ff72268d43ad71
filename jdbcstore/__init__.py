"""A relational message store on ActiveMQ's own tables.

>>> import jdbcstore
>>> with jdbcstore.open("sqlite:///mq.db") as store:
...     store.queue("ORDERS").add_message(jdbcstore.Message("two pints"))
"""

from __future__ import annotations

from typing import Any

from jdbcstore.abc import (
    Cursor,
    DurableSubscription,
    MessageReference,
    MessageStore,
    Page,
    Statistics,
    Store,
    SubscriptionInfo,
    TopicMessageStore,
    Transaction,
    pages,
)
from jdbcstore.clock import Clock
from jdbcstore.config import StoreConfig
from jdbcstore.destination import Destination, DestinationKind
from jdbcstore.errors import StoreError
from jdbcstore.ids import MessageId, ProducerId
from jdbcstore.memory import MemoryStore
from jdbcstore.message import BodyType, Message
from jdbcstore.store import JdbcStore

__all__ = [
    "BodyType",
    "Clock",
    "Cursor",
    "Destination",
    "DestinationKind",
    "DurableSubscription",
    "JdbcStore",
    "MemoryStore",
    "Message",
    "MessageId",
    "MessageReference",
    "MessageStore",
    "Page",
    "ProducerId",
    "Statistics",
    "Store",
    "StoreConfig",
    "StoreError",
    "SubscriptionInfo",
    "TopicMessageStore",
    "Transaction",
    "open",
    "pages",
]


def open(  # noqa: A001
    url: str, config: StoreConfig | None = None, *, clock: Clock | None = None, **options: Any
) -> Store:
    """Open the store of a URL, with :class:`StoreConfig`'s options.

    A SQLAlchemy or JDBC URL opens the :class:`JdbcStore` in a database, and creates its tables where
    they are absent, unless ``create_tables_on_startup`` is false. ``memory:`` opens a
    :class:`MemoryStore`.

    :raises ConfigurationError: the URL or an option cannot work
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are absent, or are not ActiveMQ's
    """
    config = (config or StoreConfig()).replace(**options)
    if url == "memory:":
        return MemoryStore(config, clock=clock)
    return JdbcStore(url, config, clock=clock)
