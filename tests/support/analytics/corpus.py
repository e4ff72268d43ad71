"""Rows whose strings databases compare in ways of their own, and databases that do."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import jdbcstore
from jdbcstore import Destination, Message, MessageId, ProducerId, XATransactionId
from jdbcstore.message import openwire
from tests.support.databases import Database, PostgresqlDatabase

NAMES = (
    *("ORDERS", "orders", "Orders", "ORDERS ", "ORDERS  ", " ORDERS", "orders.eu", "ORDERS.EU"),
    *("a", "A", "B", "b", "ä", "Ä", "a\u0308", "é", "e", "ß", "ss", "Z", "z", "_", "10", "9", "\U0001f37a"),
    *("A\\B", "A\\\\B", "A'B", "A\"B", "A''B", "50%", "5_0", "[x]*?", "x!y", "A`B", "\\", "\\'"),
    *("x\\') OR 1=1 -- ", "x') OR ('1'='1", "A?B", "{d '2000-01-01'}", "$1", ":name", "queue", "topic"),
)  # fmt: skip
"""Of destinations, producers and types: what some database or other takes for something else."""
NUMBERS = (None, 0, 1, 4, 9, -1, 2**31, 2**53 + 1)


@dataclass(frozen=True)
class Stored:
    """A row of the table, and what its message says."""

    row: dict[str, Any]
    jms_type: str | None
    body_text: str | None
    n: int | None


def corpus(seed: int = 1) -> list[Stored]:
    """The same rows each time."""
    dice = random.Random(seed)
    stored = []
    for id_ in range(1, 2 * len(NAMES) + 1):
        name = NAMES[id_ % len(NAMES)]
        container = f"{dice.choice(('queue', 'topic'))}://{name}"
        number = dice.choice((None, id_, 2**40))
        kind, body = dice.choice((None, *NAMES)), dice.choice((None, *NAMES))
        message = Message(
            body,
            jms_type=kind,
            properties={} if number is None else {"n": number},
            destination=Destination.queue("any"),
            message_id=MessageId(ProducerId("ID:random-1", 1, 1), id_),
            timestamp_ms=1,
        )
        row = {
            "ID": id_,
            "CONTAINER": container,
            "MSGID_PROD": dice.choice((None, *NAMES)),
            "MSGID_SEQ": dice.choice(NUMBERS),
            "EXPIRATION": dice.choice(NUMBERS),
            "PRIORITY": dice.choice((None, *range(10))),
            "XID": dice.choice((None, None, *NAMES)),
            "MSG": openwire.encode(message),
        }
        stored.append(Stored(row, kind, body, number))
    return stored


def fill(database: Database, stored: list[Stored]) -> None:
    """Make the tables, and put the rows into them."""
    from sqlalchemy import text

    import jdbcstore

    jdbcstore.open(database.url, cleanup_period=0.0).close()
    columns = list(stored[0].row)
    values = ", ".join(f":{column}" for column in columns)
    with database.engine.connect() as connection:
        statement = text(f"INSERT INTO ACTIVEMQ_MSGS ({', '.join(columns)}) VALUES ({values})")
        connection.execute(statement, [each.row for each in stored])


class IcuDatabase(PostgresqlDatabase):
    """Texts are in the order of a language, as on most servers."""

    create = (
        "CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'"
        " LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
    )


_PADDED = {
    "ACTIVEMQ_MSGS": ("CONTAINER", "MSGID_PROD", "XID"),
    "ACTIVEMQ_ACKS": ("CONTAINER", "CLIENT_ID", "SUB_NAME"),
}


def pad(database: Database) -> str:
    """Make the names CHAR, of a message, a subscription and a prepared transaction; the last is returned."""
    with jdbcstore.open(database.url) as store:
        store.queue("ORDERS").add_message(Message("pint"))
        store.topic("NEWS").subscribe("ann", "all")
        branch = store.xa.start(XATransactionId(86, b"\x01\x02", b"\x03"))
        branch.queue("BEER").add_message(Message("beer"))
        assert branch.prepare()
    [(xid,)] = database.rows("SELECT XID FROM ACTIVEMQ_MSGS WHERE XID IS NOT NULL")
    change = "ALTER COLUMN {} TYPE" if database.engine.dialect.name == "postgresql" else "MODIFY {}"
    for table, columns in _PADDED.items():
        for column in columns:
            database.execute(f"ALTER TABLE {table} {change.format(column)} CHAR(250)")
    return str(xid)


class CDatabase(PostgresqlDatabase):
    """Texts are in the order of their bytes."""

    create = "CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"
