"""The consumer process: takes messages, writes down what it got, moves it to its own store, acknowledges.

    python -m jdbcstore.demo.consumer PORT LEDGER MOVED

``MOVED`` is the SQLite file of that store. Ends when its standard input has ended, and nothing is left to
take.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from jdbcstore import Message, MessageId
from jdbcstore import open as open_store
from jdbcstore.abc import MessageStore
from jdbcstore.demo.ledger import Ledger
from jdbcstore.demo.orders import MOVED, body_of, producer_of
from jdbcstore.demo.protocol import Client, ConnectionLost, Json

_BATCH = 20


def consume(client: Client, ledger: Ledger, moved: MessageStore, no_more_will_come: threading.Event) -> None:
    """Take and acknowledge until nothing is left after the event."""
    while True:
        last_round = no_more_will_come.is_set()
        try:
            messages: list[Json] = client.request(operation="take", limit=_BATCH)["messages"]
            if messages:
                ledger.received(_delivery(message) for message in messages)
                moved.add_messages(_received(message) for message in messages)
                client.request(operation="acknowledge", sequences=[one["sequence"] for one in messages])
            elif last_round:
                return
        except ConnectionLost:
            # What was not acknowledged comes again, marked.
            continue


def _delivery(message: Json) -> tuple[str, int, bool]:
    message_id = message["message_id"]
    return message_id, message["redelivery_counter"], message["body"] == body_of(message_id)


def _received(message: Json) -> Message:
    """The message as it came: each delivery is kept, for a demo hides none."""
    return Message(
        message["body"],
        message_id=MessageId.parse(message["message_id"]),
        timestamp_ms=message["timestamp_ms"],
        broker_out_time_ms=time.time_ns() // 1_000_000,
        redelivery_counter=message["redelivery_counter"],
        properties={"producer": producer_of(message["message_id"])},
    )


def _watch_input(ended: threading.Event) -> None:
    sys.stdin.buffer.read()
    ended.set()


if __name__ == "__main__":
    port, path, moved = sys.argv[1:]
    ended = threading.Event()
    threading.Thread(target=_watch_input, args=(ended,), daemon=True).start()
    with (
        Client(int(port)) as client,
        Ledger(Path(path)) as ledger,
        open_store(f"sqlite:///{moved}", cleanup_period=0.0) as store,
    ):
        consume(client, ledger, store.queue(MOVED), ended)
