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
from jdbcstore.config import StoreConfig
from jdbcstore.destination import Destination, DestinationKind
from jdbcstore.errors import StoreError
from jdbcstore.ids import MessageId, ProducerId
from jdbcstore.message import BodyType, Message
from jdbcstore.store import JdbcStore

__all__ = [
    "BodyType",
    "Cursor",
    "Destination",
    "DestinationKind",
    "DurableSubscription",
    "JdbcStore",
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


def open(url: str, config: StoreConfig | None = None, **options: Any) -> JdbcStore:  # noqa: A001
    """Open the store in a database: a SQLAlchemy or JDBC URL, and :class:`StoreConfig`'s options.

    Creates the tables where they are absent, unless ``create_tables_on_startup`` is false.

    :raises ConfigurationError: the URL or an option cannot work
    :raises StoreUnavailable: the database does not answer
    :raises SchemaError: the tables are absent, or are not ActiveMQ's
    """
    return JdbcStore(url, (config or StoreConfig()).replace(**options))
