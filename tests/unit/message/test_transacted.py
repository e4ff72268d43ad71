"""Messages in transactions, as clients send them: their names are read in one piece."""

from __future__ import annotations

import pytest

from jdbcstore import Destination, Message
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.ids import ConnectionId, LocalTransactionId, MessageId, ProducerId, XATransactionId
from jdbcstore.message.openwire import decode, encode

PRODUCER = ProducerId("ID:c-1", 1, 2)


@pytest.mark.parametrize(
    "transaction_id",
    [
        None,
        LocalTransactionId(ConnectionId("ID:c-1"), 7),
        LocalTransactionId(ConnectionId(""), 1 << 40),
        LocalTransactionId(ConnectionId("é" * 300), -1),
        XATransactionId(1, b"global", b"branch"),
    ],
)
@pytest.mark.parametrize("version", [6, 11])
def test_the_transaction_is_read(transaction_id: object, version: int) -> None:
    message = Message(
        "text",
        destination=Destination.queue("Q"),
        message_id=MessageId(PRODUCER, 3),
        transaction_id=transaction_id,  # type: ignore[arg-type]
        command_id=5,
    )
    blob = encode(message, version=version)
    read = decode(blob, version=version)
    assert (read.transaction_id, read.producer_id, read.message_id) == (
        transaction_id,
        PRODUCER,
        message.message_id,
    )
    assert (read.destination, read.body, read.command_id) == (message.destination, "text", 5)
    for end in range(5, len(blob)):
        with pytest.raises(CorruptMessage):
            decode((end - 4).to_bytes(4, "big") + blob[4:end], version=version)
