"""A store with old messages and new ones, and what an archive of it holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import jdbcstore
from jdbcstore import Configuration, Message, StoreConfig, XATransactionId
from jdbcstore.config import DataSourceConfig
from jdbcstore.tools.archive import Archive
from jdbcstore.tools.archive.files import message_pages
from tests.support.databases import Database

DAY = 86_400_000
NOW = 1_790_000_000_000
"""A moment that all times here are told from."""
QUEUES = ("ORDERS", "orders", "a/../b:c", "con", "\u202eÜ\t. ")
"""Names that some file system would not keep apart, or not keep at all."""
OLD, NEW = NOW - 5 * DAY, NOW - DAY // 2
BEFORE = NOW - DAY

Row = tuple[Any, ...]


def place(database: Database) -> Configuration:
    return Configuration(
        data_source=DataSourceConfig(url=database.url), store=StoreConfig(cleanup_period=0.0)
    )


def fill(database: Database, count: int = 4) -> None:
    """Old messages and new ones in each queue, and one that a prepared transaction has."""
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for name in QUEUES:
            for age in (OLD, NEW):
                store.queue(name).add_messages(
                    [
                        Message(f"{name} {n}", properties={"n": n}, timestamp_ms=age + n * DAY // 2)
                        for n in range(count)
                    ]
                    if age is OLD
                    else [Message(b"new", timestamp_ms=NEW)]
                )
        branch = store.xa.start(XATransactionId(1, b"one", b""))
        branch.queue("ORDERS").add_message(Message("in doubt", timestamp_ms=OLD))
        assert branch.prepare()


def stored(database: Database) -> set[Row]:
    """ID, container, producer, its sequence and the bytes of every message."""
    return {
        (id_, container, producer, number, bytes(blob))
        for id_, container, producer, number, blob in database.rows(
            "SELECT ID, CONTAINER, MSGID_PROD, MSGID_SEQ, MSG FROM ACTIVEMQ_MSGS"
        )
    }


def archived(folder: Path | str) -> Counter[Row]:
    """The same of an archive, by its manifests, and how often it is there."""
    archive = Archive(folder)
    return Counter(
        (row.id, row.container, row.msgid_prod, row.msgid_seq, row.msg)
        for manifest in archive.manifests()
        for file in manifest.files
        for page in message_pages(archive.check(file))
        for row in page
    )
