"""Time to encode and decode one message: ``python benchmarks/codec.py``.

Each figure is the best of several runs, in microseconds: the others were disturbed by other processes.
Decoding is the cost of recovering a message; the body and the properties are decoded on first use.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable

from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ConnectionId, LocalTransactionId, MessageId, ProducerId
from jdbcstore.message.message import Message

RUNS, CALLS = 7, 20_000

ORDERS = Destination.queue("ORDERS")
PRODUCER = ProducerId("ID:host.example.org-45303-1795222373329-3:1", 1, 1)
PROPERTIES = {"region": "eu-west", "count": 42, "urgent": True, "price": 12.5, "customer": "4711"}
TEXT = "0123456789abcdef" * 64

MESSAGES = {
    "1 KB bytes": Message(TEXT.encode()),
    "1 KB text": Message(TEXT),
    "1 KB text, not ASCII": Message("żółw" * 146),
    "1 KB text, correlation id and reply-to": Message(TEXT, correlation_id="4711", reply_to=ORDERS),
    "1 KB text, 5 properties": Message(TEXT, properties=PROPERTIES),
    "1 KB text, sent in a transaction": Message(
        TEXT, transaction_id=LocalTransactionId(ConnectionId(PRODUCER.connection_id), 7)
    ),
    "1 KB bytes, compressed": Message(TEXT.encode(), compressed=True),
    "map of 5": Message(PROPERTIES),
}


def microseconds(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, number=CALLS, repeat=RUNS)) / CALLS * 1e6


def measure(message: Message) -> tuple[float, ...]:
    names = {"destination": ORDERS, "message_id": MessageId(PRODUCER, 14)}

    def encode() -> bytes:
        return openwire.encode_for_store(message, timestamp_ms=1795222373822, **names)[0]  # type: ignore[arg-type]

    blob = encode()
    stored = openwire.decode(blob)
    return (
        microseconds(encode),
        microseconds(lambda: openwire.decode(blob, sequence=7)),
        microseconds(lambda: openwire.decode(blob).body),
        microseconds(lambda: openwire.decode(blob).properties),
        microseconds(lambda: openwire.encode(stored.replace(redelivery_counter=1))),
    )


def main() -> None:
    columns = ("encode", "decode", "+ body", "+ properties", "change, encode")
    sys.stdout.write(" " * 40 + "".join(f"{column:>16}" for column in columns) + "\n")
    for name, message in MESSAGES.items():
        figures = "".join(f"{figure:16.1f}" for figure in measure(message))
        sys.stdout.write(f"{name:40}{figures}\n")


if __name__ == "__main__":
    main()
