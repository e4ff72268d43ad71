"""Databases of several vendors in one test, and a store that has something of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

import jdbcstore
from jdbcstore import Configuration, Message, StoreConfig, XATransactionId
from jdbcstore.config import DataSourceConfig
from jdbcstore.database.schema import widen_acks_key
from jdbcstore.database.session import DatabaseSession
from tests.conftest import new_database
from tests.support import recordings
from tests.support.backends import BACKENDS
from tests.support.databases import Database
from tests.support.pool import ServerPool

TABLES = {
    "ACTIVEMQ_MSGS": "ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG, PRIORITY, XID",
    "ACTIVEMQ_ACKS": "CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, PRIORITY, XID",
    "JDBCSTORE_ACKS": "CONTAINER, CLIENT_ID, SUB_NAME, ID, MSGID_PROD, MSGID_SEQ, XID",
}
_APART = 1000
"""Between the IDs of two recordings, which are of two databases."""

NewDatabase = Callable[[str], Database]


@pytest.fixture
def new(server_pool: ServerPool, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NewDatabase]:
    """An empty database of the backend with this id."""
    with ExitStack() as databases:

        def new(id_: str) -> Database:
            [backend] = (backend for backend in BACKENDS if backend.id == id_)
            folder = tmp_path / f"{id_}-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            database = new_database(backend, server_pool, folder, request)
            databases.callback(database.close)
            return database

        yield new


def place(database: Database, **options: Any) -> Configuration:
    return Configuration(data_source=DataSourceConfig(url=database.url), store=StoreConfig(**options))


def rows(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the tables that are copied, as another client reads them."""
    return {
        table: sorted(
            (
                tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
                for row in database.rows(f"SELECT {columns} FROM {table}")
            ),
            key=repr,
        )
        for table, columns in TABLES.items()
    }


def insert(database: Database, table: str, found: Any) -> None:
    columns = list(found[0])
    values = ", ".join(f":{column}" for column in columns)
    with database.engine.connect() as connection:
        connection.execute(text(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"), list(found))


def fill_as_activemq(database: Database) -> None:
    """All that was recorded of a real ActiveMQ, in doubt and prioritised too; tables are made."""
    recorded, prioritised = recordings.postgres(), recordings.prioritised_topic()
    with jdbcstore.open(database.url, cleanup_period=0.0):
        pass
    session = DatabaseSession(database.url, StoreConfig())
    widen_acks_key(session.engine, session.tables, session.adapter)
    session.close()
    insert(database, "ACTIVEMQ_MSGS", [message.row for message in recorded.messages])
    insert(
        database,
        "ACTIVEMQ_MSGS",
        [{**message.row, "ID": message.sequence + _APART} for message in prioritised.messages],
    )
    insert(database, "ACTIVEMQ_ACKS", [row for row in recorded.acks if row["SUB_NAME"] != "prio"])
    insert(
        database,
        "ACTIVEMQ_ACKS",
        [
            {**row, "LAST_ACKED_ID": row["LAST_ACKED_ID"] and row["LAST_ACKED_ID"] + _APART}
            for row in prioritised.acks
        ],
    )


def fill_as_jdbcstore(database: Database) -> None:
    """What ActiveMQ would not have written: acknowledgements out of order, also in doubt."""
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        store.queue("ÜBER/..").add_messages([Message(bytes([n]) * n, priority=n % 10) for n in range(50)])
        for topic in (store.topic("NEWS"), store.topic("RANKED", prioritized=True)):
            subscriptions = [topic.subscribe("client", name) for name in ("half", "none", "doubt")]
            added = topic.add_messages([Message(f"{n}", priority=n % 3) for n in range(30)])
            subscriptions[0].acknowledge(*added[:5], *added[7::2])
            branch = store.xa.start(XATransactionId(7, str(topic.destination).encode(), b"\0\xff"))
            branch.topic(topic.destination).acknowledge_subscription("client", "doubt", *added[3:6])
            branch.topic(topic.destination).add_message(Message("in doubt"))
            assert branch.prepare()
