"""Rows as a broker stores them on one of its connections, which commits when the test wants."""

from __future__ import annotations

from sqlalchemy import Connection

from jdbcstore import Destination, Message, MessageId, ProducerId
from jdbcstore.message import openwire

QUEUE = Destination.queue("ORDERS")


def store(connection: Connection, id_: int) -> None:
    """Insert a message with this ID; its transaction is left open."""
    producer = ProducerId("ID:late-1", 1, 1)
    message = Message(str(id_), destination=QUEUE, message_id=MessageId(producer, id_), timestamp_ms=1)
    connection.exec_driver_sql(
        "INSERT INTO ACTIVEMQ_MSGS (ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG, PRIORITY)"
        f" VALUES ({id_}, '{QUEUE}', '{producer}', {id_}, 0, {_literal(connection, message)}, 0)"
    )


def _literal(connection: Connection, message: Message) -> str:
    digits = openwire.encode(message).hex()
    return f"decode('{digits}', 'hex')" if connection.dialect.name == "postgresql" else f"X'{digits}'"
