"""The consumer process: takes messages, writes down what it got, moves it to its own store, acknowledges.

    python -m jdbcstore.cli.demo.consumer PORT DESTINATION LEDGER MOVED

``MOVED`` is the SQLite file of that store. Ends when its standard input has ended.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from jdbcstore import Message, MessageId
from jdbcstore import open as open_store
from jdbcstore.abc import MessageStore
from jdbcstore.cli.demo.client import Client, ConnectionLost, Delivery
from jdbcstore.cli.demo.ledger import Ledger
from jdbcstore.cli.demo.orders import AGAIN, MOVED, ORDER, body_of, producer_of

_BATCH = 50
_PREFETCH = 100
_LOOK = 0.1
_GATHER = 0.02
"""How long more are waited for: one commit, and one acknowledgement, for all."""


def consume(client: Client, ledger: Ledger, moved: MessageStore, ended: threading.Event) -> None:
    """Take and acknowledge until the event."""
    while not ended.is_set():
        try:
            deliveries = _some(client)
            if deliveries:
                ledger.received(map(_witness, deliveries))
                moved.add_messages(map(_received, deliveries))
                client.acknowledge(deliveries)
        except ConnectionLost:
            # What was not acknowledged comes again, marked.
            continue


def _some(client: Client) -> list[Delivery]:
    """What is there, after a while what there is then."""
    found: list[Delivery] = []
    while len(found) < _BATCH and (one := client.take(_GATHER if found else _LOOK)) is not None:
        found.append(one)
    return found


def _witness(delivery: Delivery) -> tuple[str, int, bool]:
    headers, body = delivery
    return headers[ORDER], _mark(headers), body == body_of(headers[ORDER])


def _mark(headers: dict[str, str]) -> int:
    """Whether it may have come before: the broker says so, or its producer, who sent it again."""
    return int(headers.get("redelivered") == "true" or AGAIN in headers)


def _received(delivery: Delivery) -> Message:
    """The message as it came: each delivery is kept, for a demo hides none."""
    headers, body = delivery
    return Message(
        body,
        message_id=MessageId.parse(headers[ORDER]),
        timestamp_ms=int(headers["timestamp"]),
        broker_out_time_ms=time.time_ns() // 1_000_000,
        redelivery_counter=_mark(headers),
        properties={"producer": producer_of(headers[ORDER])},
    )


def _watch_input(ended: threading.Event) -> None:
    sys.stdin.buffer.read()
    ended.set()


if __name__ == "__main__":
    port, destination, path, file = sys.argv[1:]
    over = threading.Event()
    threading.Thread(target=_watch_input, args=(over,), daemon=True).start()
    with (
        Ledger(Path(path)) as book,
        open_store(f"sqlite:///{file}", cleanup_period=0.0) as store,
        Client(int(port)) as stomp_client,
    ):
        stomp_client.subscribe(destination, _PREFETCH)
        consume(stomp_client, book, store.queue(MOVED), over)
